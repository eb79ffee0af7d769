/* Weights as kernels want them: rows as float32 or bfloat16, in place where they lie so already. */
#ifndef FOCI_OPS_MATMUL_WEIGHTS_H
#define FOCI_OPS_MATMUL_WEIGHTS_H

#include "ops/expand.h"
#include "ops/matmul/matmul.h"

/* Whole blocks of every type: rows are expanded in pieces that begin at a multiple of it. */
enum { FOCI_WEIGHT_PIECE = 256 };

/* Rows of w, or of w^T when that is how it lies. */
typedef struct foci_weights {
    const char *data;
    focal_dtype dtype;     /* as they lie */
    bool is_interleaved;   /* their rows */
    int64_t width;         /* elements of a row */
    int64_t block;         /* elements, */
    size_t block_bytes;    /* and bytes of a block */
    size_t row_bytes;      /* from row to row */
    focal_dtype row_dtype; /* as foci_weights_row gives them: float32 or bfloat16 */
    const foci_quant_kernel *expand;
} foci_weights;

/* row_dtype is that of x; or, when widens, bfloat16 for bfloat16 weights, which a kernel then
 * widens as it reads them. */
foci_weights foci_weights_of(const focal_ctx *ctx, const foci_matmul_args *args, bool widens);

/* True when rows are given where they lie, and no buffer is used. */
static inline bool foci_weights_in_place(const foci_weights *w)
{
    return w->dtype == w->row_dtype;
}

/* Elements [begin, begin + count) of a row, as row_dtype, from any address: in place, or expanded
 * into buffer (count elements). Both ends at whole blocks. */
const char *foci_weights_row(const foci_weights *w, int64_t row, int64_t begin, int64_t count,
                             void *buffer);

/* The same for `rows` rows from `row` on, at most FOCI_WEIGHT_PIECE elements of each,
 * FOCI_WEIGHT_PIECE elements of float32 apart in buffers; at[r] is row r. */
void foci_weights_rows(const foci_weights *w, int64_t row, int64_t rows, int64_t begin,
                       int64_t count, char *buffers, const char **at);

#endif /* FOCI_OPS_MATMUL_WEIGHTS_H */
