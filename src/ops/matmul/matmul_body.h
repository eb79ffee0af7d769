/* Products of weights, written once for every instruction set in the vocabulary of simd/. Included
 * by one file an instruction set, after its dialect; everything is static.
 *
 * Many rows of x: weights are expanded and packed, NR outputs (a panel) at a time, each thread its
 * own, and every register tile of x meets the panels of an item while they are in its cache.
 * Products of one x are one list of panels, so that no thread waits between them. Few rows
 * (matmul_few_body.h): packing would cost more than the products. */
#ifndef FOCI_OPS_MATMUL_MATMUL_BODY_H
#define FOCI_OPS_MATMUL_MATMUL_BODY_H

#include "simd/tile.h"

#include "base/ctx.h"
#include "base/pool.h"
#include "ops/matmul/matmul_few_body.h"
#include "ops/matmul/matmul_many_body.h"
#include "ops/matmul/matmul_pack_body.h"

/* Packed rows of x alternate in strips, word by word. A strip is a tile where all x is packed so,
 * and else, where only x that lies transposed is, whole tiles and whole vectors: nothing is turned
 * or cut. */
enum {
    WHOLE_STRIP = VL % MR == 0 ? VL : 4 * MR,
    STRIP = TURNS_ROWS ? MR : WHOLE_STRIP,
    ROW_BLOCK = 1008, /* rows of x packed at a time, whole tiles: bounds the scratch */
    ITEM_PANELS = 4,  /* of an item at most: 432 KiB of float32 at K = 576, in a cache of 1 MiB */
    PACK_LINES = 32,  /* of words, of an x that lies transposed, packed at a time */
    CACHE_WORDS = 128 * 1024, /* of a tile's or strip's rows and an item's panels together */
    CACHE_SETS = 64           /* of the first cache: addresses as many lines apart share a set */
};
_Static_assert(WHOLE_STRIP % VL == 0 && STRIP % MR == 0, "a strip is whole tiles, and vectors");
_Static_assert(!TURNS_ROWS || (PACK == 1 && MR <= VL), "rows turn in squares of floats");
_Static_assert(ROW_BLOCK % STRIP == 0, "a block of rows is whole tiles and strips");

/* Where row m of an x in strips begins. */
static inline int64_t strip_at(const product *p, int64_t m)
{
    return m / STRIP * STRIP * p->x_words + m % STRIP;
}

/* pack_x() for `rows` rows from `first` on of an x that lies transposed, words [begin, end) of
 * each: PACK of its lines make a line of words, which is cut into strips [w][STRIP]. Whole lines
 * are read, one behind the other, as memory likes it. Past M come zeros. */
static void pack_x_transposed(const product *p, float *x, int64_t first, int64_t rows,
                              int64_t begin, int64_t end)
{
    const foci_matmul_args *a = p->a;
    const int64_t columns = foci_round_up(rows, STRIP);
    for (int64_t w = begin; w < end; w++) {
        const char *line = x_line(a, w * PACK), *last = x_line(a, w * PACK + PACK - 1);
        for (int64_t m = 0; m < columns; m += (int64_t)2 * VL) {
            vec lo, hi;
            load_columns(line, last, a->x_dtype, first + m, a->M, &lo, &hi);
            v_zip(&lo, &hi);
            v_store(x + strip_at(p, m) + w * STRIP, lo);
            if (m + VL < columns) v_store(x + strip_at(p, m + VL) + w * STRIP, hi);
        }
    }
}

/* The same where a strip is narrower than whole vectors: a line as floats, cut. */
static void cut_x_transposed(const product *p, float *x, int64_t first, int64_t rows, int64_t begin,
                             int64_t end)
{
    const foci_matmul_args *a = p->a;
    float line[ROW_BLOCK + STRIP];
    for (int64_t w = begin; w < end; w++) {
        const char *from = x_line(a, w) + (size_t)first * focal_dtype_bytes(a->x_dtype);
        pack_row(line, from, a->x_dtype, rows);
        memset(line + rows, 0, STRIP * sizeof *line);
        for (int64_t m = 0; m < rows; m += STRIP)
            memcpy(x + strip_at(p, m) + w * STRIP, line + m, STRIP * sizeof *line);
    }
}

/* pack_x() for a tile of rows, which then alternate; past the last come zeros. */
static void turn_tile(const product *p, float *x, int64_t first, int64_t m, int64_t rows)
{
    const foci_matmul_args *a = p->a;
    const size_t size = focal_dtype_bytes(a->x_dtype);
    const char *row[MR];
    for (int64_t r = 0; r < MR; r++) {
        const size_t offset = (size_t)((first + m + r) * a->x_stride) * size;
        row[r] = m + r < rows ? (const char *)a->x + offset : NULL;
    }
    float *to = x + strip_at(p, m);
    for (int64_t w = 0; w < p->words; w += VL) {
        vec block[VL];
        for (int r = 0; r < VL; r++)
            block[r] = r < MR && row[r] ? words_at(row[r], a->x_dtype, w, a->K) : v_zero();
        v_transpose(block);
        const int64_t count = foci_min64(p->words - w, VL);
        for (int64_t n = 0; n < count; n++, to += MR) v_store_rows(to, block[n]);
    }
}

static void pack_tile(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const many_call *c = arg;
    const int64_t first = index * MR;
    if (c->p->by_levels) {
        pack_level_strip(c->p, c->x, c->row, first, c->rows);
        return;
    }
    if (TURNS_ROWS) {
        turn_tile(c->p, c->x, c->row, first, c->rows);
        return;
    }
    for (int64_t m = first; m < first + MR; m++) pack_x(c->p, c->x, c->row, m, c->rows);
}

static void pack_lines(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const many_call *c = arg;
    const int64_t begin = index * PACK_LINES, end = foci_min64(c->p->words, begin + PACK_LINES);
    if (TURNS_ROWS)
        cut_x_transposed(c->p, c->x, c->row, c->rows, begin, end);
    else
        pack_x_transposed(c->p, c->x, c->row, c->rows, begin, end);
}

/* sums (MR,NR) of `rows` rows of x, from row m of the block on, against `nv` vectors of a panel.
 * The sum is cut into blocks, which loses less than one long sum. */
FOCI_INLINE void sum_tile(const packed_panel *at, int64_t m, float *sums, const int nv,
                          const int rows, const int step)
{
    const product *p = at->p;
    const float *x = p->x + (step == 1 ? m * p->x_words : strip_at(p, m)) + at->begin * step;
    const int64_t lda = step == 1 ? p->x_words : 1, all = at->end - at->begin;
    for (int64_t w = 0; w < all; w += p->sum_words) {
        const int64_t words = foci_min64(all - w, p->sum_words);
        vec acc[MR][NV];
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 3
            for (int v = 0; v < nv; v++) acc[r][v] = v_zero();
        tile_dot_rows(acc, x + w * step, lda, step, at->words + w * NR, words, nv, rows);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
#pragma GCC unroll 3
            for (int v = 0; v < nv; v++) {
                float *sum = sums + (int64_t)r * NR + (int64_t)v * VL;
                v_store(sum, w > 0 ? v_add(v_load(sum), acc[r][v]) : acc[r][v]);
            }
        }
    }
}

/* The same for up to MR rows, no tile higher than it must be. */
FOCI_INLINE void sum_some(const packed_panel *at, int64_t m, int64_t rows, float sums[MR * NR],
                          const int nv, const int step)
{
    if (rows > MR - LOW_ROWS)
        sum_tile(at, m, sums, nv, MR, step);
    else if (rows > MR / 2)
        sum_tile(at, m, sums, nv, MR - LOW_ROWS, step);
    else if (rows > LOW_ROWS)
        sum_tile(at, m, sums, nv, MR / 2, step);
    else
        sum_tile(at, m, sums, nv, LOW_ROWS, step);
}

/* The same for either form of x, and for the panel's outputs that there are. Where the rows end, a
 * tile of rows that lie apart begins so much earlier. Returns the sums of row m. */
static const float *sum_rows(int64_t m, int64_t rows, const packed_panel *at, float sums[MR * NR])
{
    const product *p = at->p;
    if (p->by_levels) {
        sum_levels(p, m, rows, at->words, sums);
        return sums;
    }
    const bool is_narrow = NV > 2 && p->a->N - at->n <= (int64_t)2 * VL;
    if (p->alternates && is_narrow) {
        sum_some(at, m, rows, sums, 2, STRIP);
        return sums;
    }
    if (p->alternates) {
        sum_some(at, m, rows, sums, NV, STRIP);
        return sums;
    }
    const int64_t height = foci_round_up(rows, LOW_ROWS), early = foci_min64(m, height - rows);
    if (is_narrow)
        sum_some(at, m - early, height, sums, 2, 1);
    else
        sum_some(at, m - early, height, sums, NV, 1);
    return sums + early * NR;
}

/* Asks for the outputs of a tile before its sums are made: every one is met once, and a cache that
 * brings them when they are written would keep the tile waiting. */
FOCI_INLINE void expect_outputs(const foci_matmul_args *a, int64_t m, int64_t rows, int64_t n)
{
    const int64_t size = a->out_dtype == FOCAL_BF16 ? 2 : 4;
    const char *row = (const char *)a->out + (m * a->out_stride + n) * size;
    for (int64_t r = 0; r < rows; r++, row += a->out_stride * size) {
        __builtin_prefetch(row, 1);
        __builtin_prefetch(row + NR * size - 1, 1);
    }
}

/* Outputs of `rows` rows from row m on, of their sums. */
static void finish_tile(const many_call *c, int64_t m, int64_t rows, const packed_panel *at,
                        const float *from)
{
    const int64_t columns = at->p->a->N - at->n;
    for (int64_t r = 0; r < rows; r++, from += NR) {
        if (columns >= NR) /* most: the compiler makes them of whole vectors */
            finish_row(at->p->a, c->row + m + r, at->n, from, NR);
        else
            finish_row(at->p->a, c->row + m + r, at->n, from, columns);
    }
}

static void multiply_tile(const many_call *c, int64_t m, const packed_panel *at)
{
    _Alignas(CACHE_LINE) float sums[MR * NR];
    const int64_t rows = foci_min64(c->rows - m, MR);
    expect_outputs(at->p->a, c->row + m, rows, at->n);
    finish_tile(c, m, rows, at, sum_rows(m, rows, at, sums));
}

/* The gate's panel, and up's where there is one. */
static void multiply_gated(const many_call *c, int64_t m, const packed_panel *at)
{
    _Alignas(CACHE_LINE) float sums[2][MR * NR];
    const int64_t rows = foci_min64(c->rows - m, MR), columns = at->p->a->N - at->n;
    const float *from = sum_rows(m, rows, at, sums[0]), *up = NULL;
    if (c->count > 1) up = sum_rows(m, rows, &at[1], sums[1]);
    for (int64_t r = 0; r < rows; r++) {
        finish_gated(c, c->row + m + r, at->n, from + r * NR, up ? up + r * NR : NULL,
                     foci_min64(columns, NR));
    }
}

/* A thread's scratch: packed panels, rows of weights as they are expanded, and where sums are cut
 * those of ROW_BLOCK rows, tile by tile. */
typedef struct item_room {
    float *words, *sums;
    char *rows;
} item_room;

/* Of a panel, for each output. */
static int64_t lap_words(const many_call *c)
{
    return c->lap < c->p->a->K ? words_of(c->lap) : c->panel_words;
}

static item_room item_room_of(const many_call *c, int32_t thread)
{
    float *words = (float *)(void *)(c->scratch + (size_t)thread * c->thread_bytes);
    float *rows = words + c->item_panels * lap_words(c) * NR;
    return (item_room){words, rows + (int64_t)NR * FOCI_WEIGHT_PIECE, (char *)rows};
}

/* Rows [first, last) of item `item`, at most ROW_BLOCK of them, where its panels hold one lap of
 * the sum after the other. */
static void multiply_laps(const many_call *c, item_room room, int64_t item, int64_t first,
                          int64_t last)
{
    const int64_t K = c->p->a->K, tile = c->item_panels * MR * NR;
    packed_panel at[ITEM_PANELS];
    for (int64_t k = 0; k < K; k += c->lap) {
        const sum_span span = {k, foci_min64(K, k + c->lap), words_of(c->lap) * NR};
        const int64_t count = pack_item(c, span, item, at, room.words, room.rows);
        for (int64_t m = first; m < last; m += MR) {
            const int64_t rows = foci_min64(c->rows - m, MR);
            for (int64_t n = 0; n < count; n++) {
                float some[MR * NR], *sums = room.sums + (m - first) / MR * tile + n * MR * NR;
                const float *from = sum_rows(m, rows, &at[n], some);
                for (int64_t i = 0; i < rows * NR; i += VL) {
                    const vec sum = v_load(from + i);
                    v_store(sums + i, k > 0 ? v_add(v_load(sums + i), sum) : sum);
                }
                if (k + c->lap >= K) finish_tile(c, m, rows, &at[n], sums);
            }
        }
    }
}

static void multiply_item(void *arg, int64_t index, int32_t thread)
{
    const many_call *c = arg;
    const item_room room = item_room_of(c, thread);
    const int64_t item = index % c->item_count;
    const int64_t first = index / c->item_count * c->part * MR;
    const int64_t last = foci_min64(c->rows, first + c->part * MR);
    if (c->lap < c->p->a->K) {
        for (int64_t m = first; m < last; m += ROW_BLOCK)
            multiply_laps(c, room, item, m, foci_min64(last, m + ROW_BLOCK));
        return;
    }
    const sum_span whole = {.end = c->p->a->K, .panel_words = c->panel_words * NR};
    packed_panel at[ITEM_PANELS];
    const int64_t count = pack_item(c, whole, item, at, room.words, room.rows);
    for (int64_t m = first; m < last; m += MR) {
        for (int64_t n = 0; n < count; n += c->activation ? c->count : 1) {
            if (c->activation)
                multiply_gated(c, m, &at[n]);
            else
                multiply_tile(c, m, &at[n]);
        }
    }
}

/* Whether rows of x can be read where they lie: words as packing would make them, enough rows that
 * a tile never passes their end, and not so far apart that a tile's rows share few sets of the
 * cache. */
static bool is_packed(const foci_matmul_args *a)
{
    const int64_t bytes = a->x_stride * (int64_t)focal_dtype_bytes(a->x_dtype), line = 64;
    return !a->x_is_transposed && a->x_dtype == (PACK == 2 ? FOCAL_BF16 : FOCAL_F32) &&
           a->K % PACK == 0 && a->M >= MR && bytes % (int64_t)sizeof(float) == 0 &&
           (uintptr_t)a->x % sizeof(float) == 0 &&
           (bytes % line != 0 || bytes / line % (CACHE_SETS / 2) != 0);
}

static void multiply_block(focal_ctx *ctx, many_call *c)
{
    const int64_t tiles = foci_pieces(c->rows, MR), threads = focal_ctx_threads(ctx);
    c->part = foci_pieces(tiles, foci_max64(1, foci_min64(tiles, threads / c->item_count)));
    c->part_count = foci_pieces(tiles, c->part);
    foci_parallel(ctx, c->item_count * c->part_count, multiply_item, c);
}

static focal_status multiply_in_blocks(focal_ctx *ctx, many_call *c)
{
    const foci_matmul_args *a = c->p->a;
    const int64_t blocks = foci_pieces(a->M, ROW_BLOCK);
    const int64_t most = foci_round_up(foci_pieces(a->M, blocks), c->p->alternates ? STRIP : MR);
    c->x = foci_scratch(ctx, (size_t)most, (size_t)c->p->x_words * sizeof(float));
    if (!c->x) return FOCAL_ENOMEM;
    for (int32_t n = 0; n < c->count; n++) c->p[n].x = c->x;
    for (c->row = 0; c->row < a->M; c->row += most) {
        c->rows = foci_min64(a->M - c->row, most);
        if (a->x_is_transposed)
            foci_parallel(ctx, foci_pieces(c->p->words, PACK_LINES), pack_lines, c);
        else
            foci_parallel(ctx, foci_pieces(c->rows, MR), pack_tile, c);
        multiply_block(ctx, c);
    }
    foci_scratch_free(ctx, c->x);
    return FOCAL_OK;
}

/* Sums that an activation joins are those of a model's width, and not cut. */
static int64_t lap_of(const many_call *c)
{
    const int64_t K = c->p->a->K;
    if (c->activation || c->p->by_levels || c->p->words <= CUT_WORDS) return K;
    const int64_t laps = foci_pieces(c->p->words, CUT_WORDS / 2);
    return foci_round_up(foci_pieces(K, laps), FOCI_WEIGHT_PIECE);
}

/* product_of() for one by levels. */
static product level_product_of(const focal_ctx *ctx, const foci_matmul_args *args)
{
    product p = product_of(ctx, args);
    p.by_levels = true;
    p.words = level_panel_words(args);
    p.x_words = level_x_words(args->K);
    return p;
}

/* `count` products of one x; with an activation out of the first is that of its sums, times the
 * sums of the second where there is one. */
static focal_status multiply_many(focal_ctx *ctx, const foci_matmul_args *args, int32_t count,
                                  const foci_activation *activation)
{
    const int64_t threads = focal_ctx_threads(ctx);
    const bool by_levels = HAS_LEVELS && foci_takes_levels(args);
    product p[FOCI_MATMUL_SEVERAL] = {{.a = args}};
    many_call c = {.p = p, .count = count, .activation = activation, .rows = args->M};
    for (int32_t n = 0; n < count; n++) {
        p[n] = by_levels ? level_product_of(ctx, &args[n]) : product_of(ctx, &args[n]);
        p[n].alternates = by_levels || args->x_is_transposed || (TURNS_ROWS && !is_packed(args));
        c.panel_words = foci_max64(c.panel_words, p[n].words);
        c.panels += foci_pieces(args[n].N, NR);
    }
    c.lap = lap_of(&c);
    const int64_t left = p->alternates ? STRIP : MR;
    const int64_t most = (CACHE_WORDS / lap_words(&c) - left) / NR;
    c.item_panels = choose_panels(c.panels, activation ? count : 1,
                                  foci_max64(1, foci_min64(most, ITEM_PANELS)), threads);
    c.item_count = foci_pieces(c.panels, c.item_panels);
    const int64_t sums = c.lap < args->K ? ROW_BLOCK * c.item_panels * NR : 0;
    c.thread_bytes =
        (size_t)(c.item_panels * lap_words(&c) * NR + (int64_t)NR * FOCI_WEIGHT_PIECE + sums) *
        sizeof(float);
    c.scratch = foci_scratch(ctx, (size_t)threads, c.thread_bytes);
    if (!c.scratch) return FOCAL_ENOMEM;
    focal_status status = FOCAL_OK;
    if (is_packed(args)) {
        for (int32_t n = 0; n < count; n++) {
            p[n].x = args->x;
            p[n].x_words = args->x_stride / PACK;
        }
        multiply_block(ctx, &c);
    } else {
        status = multiply_in_blocks(ctx, &c);
    }
    foci_scratch_free(ctx, c.scratch);
    return status;
}

static focal_status multiply(focal_ctx *ctx, const foci_matmul_args *args)
{
    if (args->M > FOCI_MATMUL_FEW || args->w_is_transposed || args->x_is_transposed)
        return multiply_many(ctx, args, 1, NULL);
    product p = product_of(ctx, args);
    return multiply_few(ctx, &p);
}

#endif /* FOCI_OPS_MATMUL_MATMUL_BODY_H */
