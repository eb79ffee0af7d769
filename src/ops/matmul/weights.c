/* Weights as kernels want them. */
#include "ops/matmul/weights.h"

#include "ops/interleave.h"

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
    if (w->row_dtype == FOCAL_F32)
        w->expand->to_f32(w->dtype, from, count, buffer);
    else
        w->expand->to_bf16(w->dtype, from, count, buffer);
    return buffer;
}
