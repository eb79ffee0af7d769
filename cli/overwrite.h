/* Outputs that would replace an input, whose file is known by device and inode, whatever its names;
 * and those that cannot be written, before work is done for them. */
#ifndef CLI_OVERWRITE_H
#define CLI_OVERWRITE_H

#include <stdint.h>

/* CLI_WRONG, after saying so, when writing path (NULL: nothing is written) would replace one of
 * `count` files that are read, or a file that models, adapters and runs are made of in one of
 * `count` folders; else CLI_DONE. "-" is standard input; an input that is NULL or not there is
 * nothing. `what` begins the sentence: "eval mc: --per-item". */
int overwrite_check(const char *what, const char *path, const char *const *inputs, int32_t count);

/* After saying so, CLI_FAILED when path (NULL: nothing is written) is there and no regular file,
 * which a new file would replace, or when its folder is not there; CLI_WRONG when it is "-". */
int output_place_check(const char *what, const char *path);

#endif /* CLI_OVERWRITE_H */
