/* The second order of quantised weights: 16 rows interleaved, so that a register of 16 words holds
 * one word of each row. A block of a type is some 16-bit numbers, 32-bit words, and 16-bit numbers
 * again; the blocks of 16 rows that stand at the same place in their rows are stored together, the
 * first number of each of them, then the second, and so on:
 *
 *     d d d .. d  m m m .. m  w0 w0 w0 .. w0  w1 w1 w1 .. w1  ...
 *
 * Nothing is lost, and 16 rows take the bytes that they took before. */
#ifndef FOCI_OPS_INTERLEAVE_H
#define FOCI_OPS_INTERLEAVE_H

#include "focal/base.h"
#include "ops/expand.h"

enum { FOCI_INTERLEAVED_ROWS = 16 };

/* Whether `rows` rows of K elements can lie so: whole groups of rows and whole blocks of a
 * quantised type. */
bool foci_interleave_can(focal_dtype dtype, int64_t rows, int64_t K);

/* What follows is only for weights that can. */

/* A group of rows of K elements, from one memory to another. */
void foci_interleave_group(focal_dtype dtype, int64_t K, const void *rows, void *group);

/* All rows, in place. FOCAL_ENOMEM leaves them as they are. */
focal_status foci_interleave(focal_ctx *ctx, focal_dtype dtype, int64_t rows, int64_t K, void *w);

/* Where a row's elements lie: row `row` of (rows,K) weights w, of which `count` elements from
 * `begin` on are meant; both ends at whole blocks. */
typedef struct foci_interleaved_part {
    focal_dtype dtype;
    const void *w;
    int64_t K, row, begin, count;
} foci_interleaved_part;

/* The blocks as they were. */
void foci_interleaved_read(const foci_interleaved_part *part, void *blocks);

/* The same of the group of rows that begins with the part's row; each row's blocks lie
 * FOCI_INTERLEAVED_BYTES behind those before. At most FOCI_INTERLEAVED_PIECE elements of each. */
enum { FOCI_INTERLEAVED_PIECE = 256, FOCI_INTERLEAVED_BYTES = 320 };
void foci_interleaved_read_group(const foci_interleaved_part *part,
                                 uint8_t blocks[FOCI_INTERLEAVED_ROWS * FOCI_INTERLEAVED_BYTES]);

/* The values, as float32 or bfloat16. expand NULL: as focal_dequantize() gives them, float32. */
void foci_interleaved_expand(const foci_interleaved_part *part, const foci_quant_kernel *expand,
                             focal_dtype to_dtype, void *to);

#endif /* FOCI_OPS_INTERLEAVE_H */
