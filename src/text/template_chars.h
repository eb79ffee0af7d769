/* Characters as Python sees them, in UTF-8: code points, white space, case. Everything here but
 * foci_char_check and foci_one_line takes valid UTF-8. Case and classes are exact for ASCII, Latin,
 * Greek and Cyrillic; other scripts have no case here. */
#ifndef FOCI_TEXT_TEMPLATE_CHARS_H
#define FOCI_TEXT_TEMPLATE_CHARS_H

#include "text/template_store.h"

enum { FOCI_CHAR_BYTES = 4 }; /* the most one takes */

/* True when it is valid UTF-8; else *at tells the first byte that is not. */
bool foci_char_check(foci_chars text, size_t *at);

/* For messages: control characters become blanks, and bytes that are no UTF-8 (a name that was cut
 * short) question marks. text ends in NUL. */
void foci_one_line(char *text);

/* The code point at *at, which moves behind it; and the one before *at, which moves to it. */
uint32_t foci_char_next(const char **at);
uint32_t foci_char_back(const char **at);
int foci_char_put(uint32_t c, char out[FOCI_CHAR_BYTES]); /* bytes written */

int64_t foci_char_count(foci_chars text);
/* Where code point `index` begins; text.bytes when there are fewer. */
size_t foci_char_offset(foci_chars text, int64_t index);

bool foci_char_is_space(uint32_t c);
bool foci_char_is_alpha(uint32_t c);
bool foci_char_is_digit(uint32_t c); /* ASCII's only */
bool foci_char_is_printable(uint32_t c);
uint32_t foci_char_upper(uint32_t c);
uint32_t foci_char_lower(uint32_t c);

/* Without white space at either end, as asked. */
foci_chars foci_chars_strip(foci_chars text, bool left, bool right);

typedef enum foci_case { FOCI_CASE_UPPER, FOCI_CASE_LOWER, FOCI_CASE_TITLE } foci_case;
/* One character in that case; sharp s becomes two letters. */
focal_status foci_builder_char(foci_builder *builder, uint32_t c, foci_case as);

#endif /* FOCI_TEXT_TEMPLATE_CHARS_H */
