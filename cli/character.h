/* UTF-8, a character at a time. */
#ifndef CLI_CHARACTER_H
#define CLI_CHARACTER_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the well-formed character that begins text (bytes of it, at least 1), and its code
 * point; 0 when there is none. */
size_t character_read(const char *text, size_t bytes, uint32_t *code);

#endif /* CLI_CHARACTER_H */
