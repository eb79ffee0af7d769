/* Products of weights, written once for every instruction set in the vocabulary of simd/. Included
 * by one file an instruction set, after its dialect; everything is static.
 *
 * Many rows of x: weights are expanded and packed, NR outputs (a panel) at a time, each thread its
 * own, and every register tile of x meets the panels of a chunk while they are in its cache. Few
 * rows (matmul_few_body.h): packing would cost more than the products. */
#ifndef FOCI_OPS_MATMUL_MATMUL_BODY_H
#define FOCI_OPS_MATMUL_MATMUL_BODY_H

#include "simd/tile.h"

#include "base/ctx.h"
#include "base/pool.h"
#include "ops/matmul/matmul_few_body.h"

enum {
    ROW_BLOCK = 1008, /* rows of x packed at a time, whole tiles: bounds the scratch */
    CHUNK_MOST = 4    /* panels of a chunk: 288 KiB of float32 at K = 576, in a cache of 1 MiB */
};
_Static_assert(ROW_BLOCK % MR == 0, "a block of rows is whole tiles");

/* One block of rows, and how it is cut: chunks of outputs, and parts of the rows where there are
 * fewer chunks than threads. */
typedef struct block_call {
    const product *p;
    int64_t row, rows;
    int64_t chunk, chunk_count; /* panels of a chunk */
    int64_t part, part_count;   /* tiles of a part */
    char *scratch;              /* thread_bytes a thread */
    size_t thread_bytes;
} block_call;

static void pack_tile(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const block_call *b = arg;
    for (int64_t m = index * MR; m < (index + 1) * MR; m++) pack_x(b->p, b->row, m, b->rows);
}

/* The weights of outputs n .. n + NR (zeros past N) as packed words [w][NR]. */
static void pack_panel(const product *p, int64_t n, float *panel, char *rows)
{
    for (int64_t k = 0; k < p->a->K; k += FOCI_WEIGHT_PIECE) {
        const int64_t count = foci_min64(p->a->K - k, FOCI_WEIGHT_PIECE);
        const char *row[NR];
        for (int64_t r = 0; r < NR; r++) {
            char *buffer = rows + r * FOCI_WEIGHT_PIECE * (int64_t)sizeof(float);
            row[r] = n + r < p->a->N ? foci_weights_row(&p->w, n + r, k, count, buffer) : NULL;
        }
        pack_transposed(panel + k / PACK * NR, row, p->w.row_dtype, count);
    }
}

/* The same of weights that lie transposed: NR columns of PACK rows make a row of words. */
static void pack_panel_transposed(const product *p, int64_t n, float *panel, char *rows)
{
    const int64_t width = foci_min64(p->a->N - n, NR), K = p->a->K;
    for (int64_t k = 0; k < K; k += PACK) {
        const char *row[PACK];
        for (int64_t i = 0; i < PACK; i++) {
            char *buffer = rows + i * NR * (int64_t)sizeof(float);
            row[i] = k + i < K ? foci_weights_row(&p->w, k + i, n, width, buffer) : NULL;
        }
        vec lo, hi;
        load_columns(row[0], row[PACK - 1], p->w.row_dtype, 0, width, &lo, &hi);
        v_zip(&lo, &hi);
        v_store(panel, lo);
        v_store(panel + VL, hi);
        panel += NR;
    }
}

/* sums (MR,NR) of `rows` rows of x, from row m of the block on, against a panel. The sum is cut
 * into blocks, which loses less than one long sum. */
FOCI_INLINE void sum_tile(const product *p, int64_t m, const float *panel, float *sums,
                          const int rows)
{
    for (int64_t w = 0; w < p->words; w += p->sum_words) {
        const int64_t words = foci_min64(p->words - w, p->sum_words);
        vec acc[MR][2];
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = v_zero();
        tile_dot_rows(acc, p->x + m * p->x_words + w, p->x_words, panel + w * NR, words, 2, rows);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            float *sum = sums + (int64_t)r * NR;
            v_store(sum, w > 0 ? v_add(v_load(sum), acc[r][0]) : acc[r][0]);
            v_store(sum + VL, w > 0 ? v_add(v_load(sum + VL), acc[r][1]) : acc[r][1]);
        }
    }
}

/* A tile at the end of the block is no higher than it must be. */
static void multiply_tile(const block_call *b, int64_t m, int64_t n, const float *panel)
{
    const product *p = b->p;
    float sums[MR * NR];
    const int64_t rows = foci_min64(b->rows - m, MR), columns = foci_min64(p->a->N - n, NR);
    if (rows <= 3)
        sum_tile(p, m, panel, sums, 3);
    else if (rows <= MR / 2)
        sum_tile(p, m, panel, sums, MR / 2);
    else if (rows <= MR - 3)
        sum_tile(p, m, panel, sums, MR - 3);
    else
        sum_tile(p, m, panel, sums, MR);
    for (int64_t r = 0; r < rows; r++) finish_row(p->a, b->row + m + r, n, sums + r * NR, columns);
}

static void multiply_chunk(void *arg, int64_t index, int32_t thread)
{
    const block_call *b = arg;
    const product *p = b->p;
    const int64_t panel_words = p->words * NR;
    float *panels = (float *)(void *)(b->scratch + (size_t)thread * b->thread_bytes);
    char *rows = (char *)(panels + b->chunk * panel_words);
    const int64_t begin = index % b->chunk_count * b->chunk * NR;
    const int64_t end = foci_min64(p->a->N, begin + b->chunk * NR);
    for (int64_t n = begin; n < end; n += NR) {
        float *panel = panels + (n - begin) / NR * panel_words;
        if (p->a->w_is_transposed)
            pack_panel_transposed(p, n, panel, rows);
        else
            pack_panel(p, n, panel, rows);
    }
    const int64_t first = index / b->chunk_count * b->part * MR;
    const int64_t last = foci_min64(b->rows, first + b->part * MR);
    for (int64_t m = first; m < last; m += MR)
        for (int64_t n = begin; n < end; n += NR)
            multiply_tile(b, m, n, panels + (n - begin) / NR * panel_words);
}

/* The largest chunk with which no thread has more to do than with the others. */
static int64_t choose_chunk(int64_t panels, int64_t threads)
{
    int64_t best = 1, least = INT64_MAX;
    for (int64_t chunk = CHUNK_MOST; chunk >= 1; chunk--) {
        const int64_t longest = foci_pieces(foci_pieces(panels, chunk), threads) * chunk;
        if (longest >= least) continue;
        least = longest;
        best = chunk;
    }
    return best;
}

static focal_status multiply_many(focal_ctx *ctx, product *p)
{
    const int64_t threads = focal_ctx_threads(ctx), panels = foci_pieces(p->a->N, NR);
    block_call b = {.p = p, .chunk = choose_chunk(panels, threads)};
    b.chunk_count = foci_pieces(panels, b.chunk);
    b.thread_bytes =
        (size_t)(b.chunk * p->words * NR + (int64_t)NR * FOCI_WEIGHT_PIECE) * sizeof(float);
    const int64_t most = foci_round_up(foci_min64(p->a->M, ROW_BLOCK), MR);
    focal_status status = FOCAL_ENOMEM;
    b.scratch = foci_scratch(ctx, (size_t)threads, b.thread_bytes);
    p->x = foci_scratch(ctx, (size_t)most, (size_t)p->x_words * sizeof(float));
    if (!b.scratch || !p->x) goto done;
    for (b.row = 0; b.row < p->a->M; b.row += ROW_BLOCK) {
        b.rows = foci_min64(p->a->M - b.row, ROW_BLOCK);
        const int64_t tiles = foci_pieces(b.rows, MR);
        b.part = foci_pieces(tiles, foci_max64(1, foci_min64(tiles, threads / b.chunk_count)));
        b.part_count = foci_pieces(tiles, b.part);
        foci_parallel(ctx, tiles, pack_tile, &b);
        foci_parallel(ctx, b.chunk_count * b.part_count, multiply_chunk, &b);
    }
    status = FOCAL_OK;
done:
    foci_scratch_free(ctx, p->x);
    foci_scratch_free(ctx, b.scratch);
    return status;
}

static focal_status multiply(focal_ctx *ctx, const foci_matmul_args *args)
{
    const int64_t words = words_of(args->K);
    /* Whole vectors, and an odd number of cache lines: rows a power of two apart would meet in the
     * same few lines of the cache. */
    const int64_t lines = foci_pieces(words, LINE_WORDS) | 1;
    product p = {.a = args,
                 .w = foci_weights_of(ctx, args, true),
                 .words = words,
                 .x_words = lines * LINE_WORDS,
                 .sum_words = foci_pieces(words, foci_pieces(words, SUM_WORDS))};
    if (args->M <= FOCI_MATMUL_FEW && !args->w_is_transposed) return multiply_few(ctx, &p);
    return multiply_many(ctx, &p);
}

#endif /* FOCI_OPS_MATMUL_MATMUL_BODY_H */
