/* Types of weights that meet bytes of x, and memory for those bytes. */
#include "ops/matmul/bytes.h"

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"

static const foci_byte_type types[] = {
    {FOCAL_Q4_0, FOCI_BYTES_HALVES, 32, 4, -8.0F},
    {FOCAL_Q4_1, FOCI_BYTES_HALVES, 32, 4, 0.0F},
    {FOCAL_Q5_0, FOCI_BYTES_HALVES, 32, 4, -16.0F},
    {FOCAL_Q5_1, FOCI_BYTES_HALVES, 32, 4, 0.0F},
    {FOCAL_IQ4_NL, FOCI_BYTES_HALVES, 32, 4, -128.0F},
    {FOCAL_Q8_0, FOCI_BYTES_PLAIN, 32, 4, -128.0F},
    {FOCAL_Q2_K, FOCI_BYTES_PLAIN, 16, 16, 0.0F},
    {FOCAL_Q3_K, FOCI_BYTES_PLAIN, 16, 16, -4.0F},
    {FOCAL_Q4_K, FOCI_BYTES_HALVES, 32, 8, 0.0F},
    {FOCAL_Q5_K, FOCI_BYTES_HALVES, 32, 8, 0.0F},
    {FOCAL_Q6_K, FOCI_BYTES_PLAIN, 16, 16, -32.0F},
};

const foci_byte_type *foci_byte_type_of(focal_dtype dtype)
{
    for (size_t n = 0; n < FOCAL_COUNT(types); n++)
        if (types[n].dtype == dtype) return &types[n];
    return NULL;
}

enum {
    SHORT_BYTES = 32 * 1024, /* of an item, at least */
    AHEAD_MOST = 96 * 1024   /* of what a thread asks for before it begins: a tenth of its cache */
};

foci_byte_cut foci_cut_bytes(int64_t bytes, int64_t threads)
{
    const int64_t rest = bytes > 2 * threads * SHORT_BYTES ? bytes / 4 : 0;
    return (foci_byte_cut){.threads = threads,
                           .bytes = bytes,
                           .long_bytes = foci_pieces(bytes - rest, threads),
                           .short_bytes = foci_max64(SHORT_BYTES, bytes / (16 * threads))};
}

int64_t foci_byte_item_begin(const foci_byte_cut *cut, int64_t index)
{
    const int64_t longs = foci_min64(index, cut->threads);
    return foci_min64(cut->bytes, longs * cut->long_bytes + (index - longs) * cut->short_bytes);
}

int64_t foci_byte_items(const foci_byte_cut *cut)
{
    const int64_t rest = cut->bytes - foci_byte_item_begin(cut, cut->threads);
    return cut->threads + foci_pieces(rest, cut->short_bytes);
}

void foci_byte_pieces(const foci_matmul_args *args, int32_t count, int32_t threads,
                      foci_piece *pieces)
{
    int64_t bytes = 0;
    for (int32_t n = 0; n < count; n++) bytes += args[n].N * foci_byte_row_bytes(&args[n]);
    const foci_byte_cut cut = foci_cut_bytes(bytes, threads);
    int32_t call = 0;
    int64_t first = 0, end = args->N * foci_byte_row_bytes(args); /* the bytes of `call` */
    for (int32_t n = 0; n < threads && n < FOCI_POOL_PIECES; n++) {
        const int64_t from = foci_byte_item_begin(&cut, n);
        while (from >= end && call + 1 < count) {
            first = end;
            call++;
            end += args[call].N * foci_byte_row_bytes(&args[call]);
        }
        const int64_t to = foci_min64(foci_byte_item_begin(&cut, n + 1), end);
        pieces[n] = (foci_piece){(const char *)args[call].w + (from - first),
                                 foci_min64(to - from, AHEAD_MOST)};
    }
}

void foci_matmul_ahead(focal_ctx *ctx, const foci_matmul_args *args, int32_t count)
{
    foci_piece pieces[FOCI_POOL_PIECES];
    const int32_t threads = focal_ctx_threads(ctx);
    for (int32_t n = 0; n < count; n++)
        if (!foci_takes_bytes(&args[n])) return;
    foci_byte_pieces(args, count, threads, pieces);
    foci_ask_ahead(ctx, pieces, (int32_t)foci_min64(threads, FOCI_POOL_PIECES));
}

focal_status foci_byte_rows_new(focal_ctx *ctx, const foci_matmul_args *a, foci_byte_rows *rows)
{
    const int64_t spans = foci_pieces(a->K, FOCI_BYTE_SPAN), count = a->M * spans;
    const size_t q_bytes = (size_t)(count * FOCI_BYTE_SPAN);
    const size_t factor_bytes = (size_t)(count * FOCI_BYTE_FACTORS) * sizeof(float);
    char *memory = foci_scratch(ctx, 2 * q_bytes + factor_bytes, 1);
    if (!memory) return FOCAL_ENOMEM;
    *rows = (foci_byte_rows){.spans = spans,
                             .high = (int8_t *)memory,
                             .low = (int8_t *)memory + q_bytes,
                             .factor = (float *)(void *)(memory + 2 * q_bytes)};
    return FOCAL_OK;
}

void foci_byte_rows_free(focal_ctx *ctx, foci_byte_rows *rows)
{
    foci_scratch_free(ctx, rows->high);
}
