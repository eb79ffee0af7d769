/* Outputs that would replace an input: the file is known by device and inode, whatever its names.
 */
#ifndef CLI_OVERWRITE_H
#define CLI_OVERWRITE_H

#include <stdint.h>

/* CLI_WRONG, after saying so, when writing path (NULL: nothing is written) would replace one of
 * `count` files that are read, or a file that models, adapters and runs are made of in one of
 * `count` folders; else CLI_DONE. "-" is standard input; an input that is NULL or not there is
 * nothing. `what` begins the sentence: "eval mc: --per-item". */
int overwrite_check(const char *what, const char *path, const char *const *inputs, int32_t count);

#endif /* CLI_OVERWRITE_H */
