/* x in bytes against quantised weights: which rows meet when. Included by one file an
 * instruction set, after matmul_few_body.h and what multiplies rows there (dot_group). */
#ifndef FOCI_OPS_MATMUL_MATMUL_BYTES_BODY_H
#define FOCI_OPS_MATMUL_MATMUL_BYTES_BODY_H

#include "base/error.h"
#include "ops/interleave.h"
#include "ops/matmul/bytes.h"
#include "ops/matmul/bytes_round_body.h"
#include "ops/matmul/matmul_few_body.h"

enum {
    BYTE_ROWS = 64, /* rows of x a pass over an item's weights, which then come from a cache */
    SHORT_BYTES = 32 * 1024 /* of weights of an item, at least: memory is fastest in order */
};

typedef struct byte_call {
    const foci_matmul_args *a;
    foci_byte_rows x;
    int64_t row_bytes; /* of w */
    int64_t first;     /* its bytes begin here among those of all calls */
} byte_call;

/* Rows of w that are multiplied together, where as many are left; else up to BYTE_SUMS are. */
FOCI_INLINE int64_t group_rows(const foci_matmul_args *a)
{
    if (a->w_is_interleaved) return FOCI_INTERLEAVED_ROWS;
    return foci_max64(rows_abreast(a->w_dtype, a->K), BYTE_SUMS);
}

/* Bytes from the first row that is read to the last one beside it. */
FOCI_INLINE int64_t bytes_abreast(const byte_call *b)
{
    return b->a->w_is_interleaved ? 0 : (rows_abreast(b->a->w_dtype, b->a->K) - 1) * b->row_bytes;
}

/* The group of `rows` rows of w from n on with rows [m, m + count) of x, 1, 2 or 4 of them;
 * sums[row of x][row of w], FEW_COLUMNS apart. */
FOCI_INLINE void multiply_rows(const byte_call *b, const focal_dtype type, int64_t n, int64_t rows,
                               int64_t m, float *sums, const int count)
{
    const int64_t spans = b->x.spans;
    const byte_x x = {.high = b->x.high + m * spans * FOCI_BYTE_SPAN,
                      .low = b->x.low + m * spans * FOCI_BYTE_SPAN,
                      .factor = b->x.factor + m * spans * FOCI_BYTE_FACTORS,
                      .q_stride = spans * FOCI_BYTE_SPAN,
                      .factor_stride = spans * FOCI_BYTE_FACTORS};
    const byte_group w = {.first = (const uint8_t *)b->a->w + n * b->row_bytes,
                          .row_bytes = b->row_bytes,
                          .rows = rows,
                          .K = b->a->K,
                          .is_interleaved = b->a->w_is_interleaved};
    dot_group(&w, type, &x, sums, FEW_COLUMNS, count);
}

/* Columns [begin, end) of `rows` rows of x from `first` on. */
FOCI_INLINE void byte_columns(const byte_call *b, const focal_dtype type, int64_t first,
                              int64_t rows, int64_t begin, int64_t end)
{
    float sums[BYTE_ROWS][FEW_COLUMNS];
    const int64_t whole = group_rows(b->a);
    for (int64_t n = begin, group; n < end; n += group) {
        int64_t m = 0;
        group = n + whole <= end ? whole : foci_min64(BYTE_SUMS, end - n);
        for (; m + 4 <= rows; m += 4)
            multiply_rows(b, type, n, group, first + m, &sums[m][n - begin], 4);
        for (; m + 2 <= rows; m += 2)
            multiply_rows(b, type, n, group, first + m, &sums[m][n - begin], 2);
        for (; m < rows; m++) multiply_rows(b, type, n, group, first + m, &sums[m][n - begin], 1);
    }
    for (int64_t m = 0; m < rows; m++) finish_row(b->a, first + m, begin, sums[m], end - begin);
}

static void byte_rows(const byte_call *b, int64_t begin, int64_t end)
{
    for (int64_t first = 0; first < b->a->M; first += BYTE_ROWS) {
        const int64_t rows = foci_min64(b->a->M - first, BYTE_ROWS);
        switch (b->a->w_dtype) {
#define TYPE_CASE(type)                                                                            \
    case type:                                                                                     \
        byte_columns(b, type, first, rows, begin, end);                                            \
        break;
            TYPE_CASE(FOCAL_Q8_0)
            TYPE_CASE(FOCAL_Q4_0)
            TYPE_CASE(FOCAL_Q4_1)
            TYPE_CASE(FOCAL_Q5_0)
            TYPE_CASE(FOCAL_Q5_1)
            TYPE_CASE(FOCAL_Q2_K)
            TYPE_CASE(FOCAL_Q3_K)
            TYPE_CASE(FOCAL_Q4_K)
            TYPE_CASE(FOCAL_Q5_K)
            TYPE_CASE(FOCAL_Q6_K)
            TYPE_CASE(FOCAL_IQ4_NL)
#undef TYPE_CASE
        default:
            break; /* foci_matmul_check() lets no other come here */
        }
    }
}

/* Several products of one x, their weights as one row of bytes that items cut. Products with the
 * same type of weights share what x was unpacked to. */
typedef struct byte_calls {
    byte_call call[FOCI_MATMUL_SEVERAL];
    int32_t count;
    int64_t threads, bytes, long_bytes, short_bytes;
} byte_calls;

/* Every thread has a long item to begin with; of the short ones behind them those take more who are
 * done first. */
static void cut_items(byte_calls *calls, int64_t threads)
{
    calls->threads = threads;
    calls->short_bytes = foci_max64(SHORT_BYTES, calls->bytes / (16 * threads));
    const int64_t rest = calls->bytes > 2 * threads * SHORT_BYTES ? calls->bytes / 4 : 0;
    calls->long_bytes = foci_pieces(calls->bytes - rest, threads);
}

static int64_t item_begin(const byte_calls *calls, int64_t index)
{
    const int64_t longs = foci_min64(index, calls->threads);
    return foci_min64(calls->bytes,
                      longs * calls->long_bytes + (index - longs) * calls->short_bytes);
}

static int64_t item_count(const byte_calls *calls)
{
    const int64_t rest = calls->bytes - item_begin(calls, calls->threads);
    return calls->threads + foci_pieces(rest, calls->short_bytes);
}

/* The first row of a product's weights that belongs to what begins at a byte. Items hold whole
 * groups, so that it does not depend on how they are cut which rows are one. */
static int64_t row_from(const byte_call *b, int64_t byte)
{
    const int64_t row = foci_pieces(foci_max64(byte - b->first, 0), b->row_bytes);
    return foci_min64(foci_round_up(row, group_rows(b->a)), b->a->N);
}

static void byte_item(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const byte_calls *calls = arg;
    const int64_t from = item_begin(calls, index), to = item_begin(calls, index + 1);
    for (int32_t n = 0; n < calls->count; n++) {
        const byte_call *b = &calls->call[n];
        const int64_t first = row_from(b, from), last = row_from(b, to);
        /* Nobody has asked for what an item begins with. */
        if (first < last)
            ask_for((const uint8_t *)b->a->w + first * b->row_bytes,
                    BYTES_AHEAD + bytes_abreast(b));
        for (int64_t begin = first, end; begin < last; begin = end) {
            end = foci_min64(last, begin + FEW_COLUMNS);
            byte_rows(b, begin, end);
        }
    }
}

/* The first call whose x is unpacked as that of n: before n, or n itself. */
static int32_t find_unpacked(const foci_matmul_args *args, int32_t n)
{
    int32_t same = 0;
    while (args[same].w_dtype != args[n].w_dtype) same++;
    return same;
}

static focal_status multiply_bytes(focal_ctx *ctx, const foci_matmul_args *args, int32_t count)
{
    byte_calls calls = {.count = count};
    focal_status status = FOCAL_OK;
    for (int32_t n = 0; n < count && status == FOCAL_OK; n++) {
        byte_call *b = &calls.call[n];
        const int32_t same = find_unpacked(args, n);
        b->a = &args[n];
        b->row_bytes = args->K / focal_dtype_block(args[n].w_dtype) *
                       (int64_t)focal_dtype_block_bytes(args[n].w_dtype);
        b->first = calls.bytes;
        calls.bytes += args[n].N * b->row_bytes;
        if (same < n) {
            b->x = calls.call[same].x;
            continue;
        }
        status = foci_byte_rows_new(ctx, &args[n], &b->x);
        if (status == FOCAL_OK) fill_byte_rows(ctx, &args[n], &b->x);
    }
    if (status == FOCAL_OK) {
        cut_items(&calls, focal_ctx_threads(ctx));
        foci_parallel(ctx, item_count(&calls), byte_item, &calls);
    }
    for (int32_t n = 0; n < count; n++)
        if (find_unpacked(args, n) == n) foci_byte_rows_free(ctx, &calls.call[n].x);
    return status;
}

#endif /* FOCI_OPS_MATMUL_MATMUL_BYTES_BODY_H */
