/* Weights as kernels want them. */
#include "ops/matmul/weights.h"

#include "ops/interleave.h"

enum { ROW_BYTES = FOCI_WEIGHT_PIECE * sizeof(float) };

foci_weights foci_weights_of(const focal_ctx *ctx, const foci_matmul_args *a, bool widens)
{
    const int64_t width = a->w_is_transposed ? a->N : a->K;
    const int64_t stride = a->w_stride > 0 ? a->w_stride : width;
    const int64_t block = focal_dtype_block(a->w_dtype);
    const size_t block_bytes = focal_dtype_block_bytes(a->w_dtype);
    return (foci_weights){
        .data = a->w,
        .dtype = a->w_dtype,
        .is_interleaved = a->w_is_interleaved,
        .width = width,
        .block = block,
        .block_bytes = block_bytes,
        .row_bytes = (size_t)(stride / block) * block_bytes,
        .row_dtype = widens && a->w_dtype == FOCAL_BF16 ? FOCAL_BF16 : a->x_dtype,
        .expand = foci_quant_pick(ctx),
    };
}

static void expand(const foci_weights *w, const void *blocks, int64_t count, void *to)
{
    if (w->row_dtype == FOCAL_F32)
        w->expand->to_f32(w->dtype, blocks, count, to);
    else
        w->expand->to_bf16(w->dtype, blocks, count, to);
}

const char *foci_weights_row(const foci_weights *w, int64_t row, int64_t begin, int64_t count,
                             void *buffer)
{
    if (w->is_interleaved) {
        const foci_interleaved_part part = {w->dtype, w->data, w->width, row, begin, count};
        foci_interleaved_expand(&part, w->expand, w->row_dtype, buffer);
        return buffer;
    }
    const char *from =
        w->data + (size_t)row * w->row_bytes + (size_t)(begin / w->block) * w->block_bytes;
    if (foci_weights_in_place(w)) return from;
    expand(w, from, count, buffer);
    return buffer;
}

/* A group of interleaved rows; all are brought together before the first is expanded, because a
 * processor waits where it reads at once what it wrote in smaller pieces. */
static void expand_group(const foci_weights *w, int64_t row, int64_t begin, int64_t count,
                         char *buffers)
{
    uint8_t blocks[FOCI_INTERLEAVED_ROWS * FOCI_INTERLEAVED_BYTES];
    const foci_interleaved_part part = {w->dtype, w->data, w->width, row, begin, count};
    foci_interleaved_read_group(&part, blocks);
    for (int64_t r = 0; r < FOCI_INTERLEAVED_ROWS; r++)
        expand(w, blocks + r * FOCI_INTERLEAVED_BYTES, count, buffers + r * ROW_BYTES);
}

void foci_weights_rows(const foci_weights *w, int64_t row, int64_t rows, int64_t begin,
                       int64_t count, char *buffers, const char **at)
{
    for (int64_t r = 0, step; r < rows; r += step, buffers += step * ROW_BYTES) {
        const bool is_group = w->is_interleaved && (row + r) % FOCI_INTERLEAVED_ROWS == 0 &&
                              rows - r >= FOCI_INTERLEAVED_ROWS;
        step = is_group ? FOCI_INTERLEAVED_ROWS : 1;
        if (is_group)
            expand_group(w, row + r, begin, count, buffers);
        else
            at[r] = foci_weights_row(w, row + r, begin, count, buffers);
        for (int64_t i = 0; is_group && i < step; i++) at[r + i] = buffers + i * ROW_BYTES;
    }
}
