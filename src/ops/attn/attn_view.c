/* Views of a call that are not worth inlining. */
#include "ops/attn/attn_view.h"

#include <string.h>

#include "base/ctx.h"

static foci_rows make_rows(const void *base, const void *const *pages, int64_t stride,
                           int64_t head_offset, const focal_attn_args *args,
                           const focal_attn_seq *seq)
{
    const int64_t row_bytes = foci_attn_kv_bytes(args, stride);
    return (foci_rows){
        .base = pages ? NULL : (const char *)base + seq->k_row * row_bytes,
        .pages = pages,
        .row_bytes = row_bytes,
        .head_bytes = foci_attn_kv_bytes(args, head_offset),
        .page_rows = args->page_rows,
    };
}

foci_rows foci_attn_k_rows(const focal_attn_args *args, const focal_attn_seq *seq, int32_t g)
{
    return make_rows(args->k, seq->k_pages, args->k_stride, (int64_t)g * args->D, args, seq);
}

foci_rows foci_attn_v_rows(const focal_attn_args *args, const focal_attn_seq *seq, int32_t g)
{
    return make_rows(args->v, seq->v_pages, args->v_stride, (int64_t)g * args->Dv, args, seq);
}

focal_status foci_visits_make(focal_ctx *ctx, const focal_keys *keys, foci_visits *visits)
{
    const int64_t routers = keys->routers, width = (int64_t)keys->T + 1;
    const int64_t stride = keys->query_stride;
    int32_t *block = foci_scratch(ctx, (size_t)(routers * (width + 2 * stride)), sizeof *block);
    if (!block) return FOCAL_ENOMEM;
    *visits =
        (foci_visits){block, block + routers * width, block + routers * (width + stride), stride};
    for (int64_t r = 0; r < routers; r++) {
        int32_t *begin = visits->begin + r * width;
        const int32_t *query = keys->query + r * stride, *query_end = keys->query_end + r * stride;
        const int32_t *query_begin = keys->query_begin + r * (keys->K + 1);
        memset(begin, 0, (size_t)width * sizeof *begin);
        for (int32_t n = query_begin[0]; n < query_begin[keys->K]; n++) begin[query[n] + 1]++;
        for (int32_t i = 0; i < keys->T; i++) begin[i + 1] += begin[i];
        /* begin[i] moves to the end of i's visits while they are filled in, and back after. */
        for (int32_t c = 0; c < keys->K; c++) {
            for (int32_t n = query_begin[c]; n < query_begin[c + 1]; n++) {
                const int64_t place = r * stride + begin[query[n]]++;
                visits->group[place] = c;
                visits->end[place] = query_end[n];
            }
        }
        for (int32_t i = keys->T; i > 0; i--) begin[i] = begin[i - 1];
        begin[0] = 0;
    }
    return FOCAL_OK;
}
