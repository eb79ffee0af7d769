#ifdef __AMX_BF16__
/* Products of weights on AMX tiles: many rows of bfloat16 x. Everything else is the kernel's for
 * vectors of bfloat16, which these machines have too.
 *
 * Tiles multiply some 15 times as fast as vectors do, so what surrounds them decides. Each weight
 * is expanded and packed once a call (and block of rows), by the thread that multiplies it: an item
 * is a list of panels that stays in the second cache while the rows of x pass by, TALL at a time,
 * which stay in the first. Long sums are made in spans, so that panels of them stay there too; the
 * sums wait in memory meanwhile. */
#include "simd/vec_avx512bf16.h"

#include "simd/tiles_amx.h"

#include "base/ctx.h"
#include "base/pool.h"
#include "ops/matmul/matmul_many_body.h"

enum {
    TALL = 2 * FOCI_TILE_ROWS, /* rows of x at a time, against a panel: two by two tiles of sums */
    STEP = FOCI_TILE_DEPTH / PACK, /* words of a row of a tile */
    BLOCK_FLOATS = TALL * NR,      /* of such sums */
    SPAN_DEPTH = 2048,             /* elements of a span of a long sum, whole pieces of weights */
    ROW_BLOCK = 1024,              /* rows of x packed, or of sums that wait: bounds the scratch */
    ITEM_PANELS = 16,              /* of an item at most, */
    ITEM_BYTES = 1024 * 1024,      /* and in a cache of 2 MiB with the rows that pass by */
    CACHE_SETS = 64                /* of the first cache: lines as many apart share a set */
};
_Static_assert(SPAN_DEPTH % FOCI_WEIGHT_PIECE == 0, "spans are whole pieces of weights");
_Static_assert(NR == 2 * FOCI_TILE_ROWS && (int)STEP == (int)VL, "a panel is two tiles wide");

typedef struct tiles_call {
    many_call c;
    int64_t depth, spans; /* elements of a span of the sum, all but the last alike */
    bool is_in_place;     /* x is read where it lies: rows before a block's are there too */
} tiles_call;

/* sums (TALL,NR), or the upper half of them, = [sums +] rows of x, `stride` bytes apart, against a
 * panel. */
static void sum_tall(const float *x, int64_t stride, const float *panel, int64_t words, bool adds,
                     float *sums)
{
    enum { ACROSS = NR * sizeof(float) };
    const float *below = x + stride / (int64_t)sizeof *x * FOCI_TILE_ROWS;
    if (adds) {
        _tile_loadd(0, sums, ACROSS);
        _tile_loadd(1, sums + VL, ACROSS);
        _tile_loadd(2, sums + BLOCK_FLOATS / 2, ACROSS);
        _tile_loadd(3, sums + BLOCK_FLOATS / 2 + VL, ACROSS);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t w = 0; w < words; w += STEP) {
        _tile_loadd(4, x + w, stride);
        _tile_loadd(6, panel + w * NR, ACROSS);
        _tile_loadd(7, panel + w * NR + VL, ACROSS);
        _tile_loadd(5, below + w, stride);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums, ACROSS);
    _tile_stored(1, sums + VL, ACROSS);
    _tile_stored(2, sums + BLOCK_FLOATS / 2, ACROSS);
    _tile_stored(3, sums + BLOCK_FLOATS / 2 + VL, ACROSS);
}

static void sum_low(const float *x, int64_t stride, const float *panel, int64_t words, bool adds,
                    float *sums)
{
    enum { ACROSS = NR * sizeof(float) };
    if (adds) {
        _tile_loadd(0, sums, ACROSS);
        _tile_loadd(1, sums + VL, ACROSS);
    } else {
        _tile_zero(0);
        _tile_zero(1);
    }
    for (int64_t w = 0; w < words; w += STEP) {
        _tile_loadd(4, x + w, stride);
        _tile_loadd(6, panel + w * NR, ACROSS);
        _tile_loadd(7, panel + w * NR + VL, ACROSS);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, sums, ACROSS);
    _tile_stored(1, sums + VL, ACROSS);
}

/* The span's sums of up to TALL rows from row m of the block on. Where the rows end, tiles begin so
 * much earlier; where there are fewer than a tile, zeros were packed behind them. Returns the sums
 * of row m. */
static const float *sum_rows(const tiles_call *t, sum_span span, int64_t m, int64_t rows,
                             const float *panel, float *sums)
{
    const int64_t stride = t->c.p->x_words * (int64_t)sizeof(float);
    const int64_t words = foci_round_up(words_of(span.end - span.begin), STEP);
    const int64_t height = foci_round_up(rows, FOCI_TILE_ROWS);
    const int64_t before = t->is_in_place ? t->c.row + m : m;
    const int64_t early = foci_min64(before, height - rows);
    const float *x = t->c.p->x + (m - early) * t->c.p->x_words + span.begin / PACK;
    if (height > FOCI_TILE_ROWS)
        sum_tall(x, stride, panel, words, span.begin > 0, sums);
    else
        sum_low(x, stride, panel, words, span.begin > 0, sums);
    return sums + early * NR;
}

/* A panel's outputs from their sums; with an activation those of the two panels that it joins. */
static void finish_block(const many_call *c, int64_t m, int64_t rows, const packed_panel *at,
                         const float *sums, const float *up)
{
    const foci_matmul_args *a = at->p->a;
    const int64_t columns = foci_min64(a->N - at->n, NR);
    for (int64_t r = 0; r < rows; r++, sums += NR) {
        if (c->activation)
            finish_gated(c, c->row + m + r, at->n, sums, up ? up + r * NR : NULL, columns);
        else
            finish_row(a, c->row + m + r, at->n, sums, columns);
    }
}

/* What a span leaves of a panel's last tile: zeros. */
static void clear_ends(sum_span span, const packed_panel *at, int64_t count, float *words)
{
    const int64_t filled = words_of(span.end - span.begin), end = foci_round_up(filled, STEP);
    for (int64_t n = 0; n < count; n++)
        memset(words + (at[n].words - words) + filled * NR, 0,
               (size_t)((end - filled) * NR) * sizeof *words);
}

/* Blocks of sums that an item holds at once: all of its rows where they wait for the next span. */
static int64_t sums_of_item(const tiles_call *t)
{
    if (t->spans == 1) return 2;
    return foci_pieces(foci_min64(t->c.p->a->M, ROW_BLOCK), TALL) * t->c.item_panels;
}

static void multiply_item(void *arg, int64_t index, int32_t thread)
{
    const tiles_call *t = arg;
    const many_call *c = &t->c;
    float *words = (float *)(void *)(c->scratch + (size_t)thread * c->thread_bytes);
    const int64_t panel_words = t->depth / PACK * NR, K = c->p->a->K;
    float *sums = words + c->item_panels * panel_words;
    char *rows = (char *)(sums + sums_of_item(t) * BLOCK_FLOATS);
    const int64_t first = index / c->item_count * c->part * TALL;
    const int64_t last = foci_min64(c->rows, first + c->part * TALL);
    const int64_t step = c->activation ? c->count : 1;
    foci_tiles_begin();
    for (int64_t k = 0; k < K; k += t->depth) {
        const sum_span span = {k, foci_min64(K, k + t->depth), panel_words};
        packed_panel at[ITEM_PANELS];
        const int64_t count = pack_item(c, span, index % c->item_count, at, words, rows);
        clear_ends(span, at, count, words);
        foci_tiles_see(words);
        for (int64_t m = first; m < last; m += TALL)
            for (int64_t n = 0; n < count; n += step) {
                const int64_t some = foci_min64(last - m, TALL);
                float *to = t->spans > 1
                                ? sums + ((m - first) / TALL * c->item_panels + n) * BLOCK_FLOATS
                                : sums;
                const float *up = NULL;
                const float *from = sum_rows(t, span, m, some, at[n].words, to);
                if (step > 1) up = sum_rows(t, span, m, some, at[n + 1].words, to + BLOCK_FLOATS);
                if (span.end == K) finish_block(c, m, some, &at[n], from, up);
            }
    }
    foci_tiles_end();
}

static void pack_rows(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const many_call *c = arg;
    for (int64_t m = index * TALL; m < (index + 1) * TALL; m++)
        pack_x(c->p, c->x, c->row, m, c->rows);
}

/* The same of an x that lies transposed: a tile's worth of words of all rows. Two lines make a line
 * of words, and as many of those as rows of a tile are turned. */
static void turn_rows(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const many_call *c = arg;
    const foci_matmul_args *a = c->p->a;
    const int64_t w = index * STEP;
    for (int64_t m = 0; m < c->rows; m += NR) {
        vec lo[VL], hi[VL];
        for (int n = 0; n < VL; n++) {
            const int64_t k = (w + n) * PACK;
            load_columns(x_line(a, k), x_line(a, k + 1), a->x_dtype, c->row + m, a->M, &lo[n],
                         &hi[n]);
            v_zip(&lo[n], &hi[n]);
        }
        v_transpose(lo);
        v_transpose(hi);
        float *to = c->x + m * c->p->x_words + w;
        for (int n = 0; n < VL; n++) {
            v_store(to + n * c->p->x_words, lo[n]);
            v_store(to + (VL + n) * c->p->x_words, hi[n]);
        }
    }
}

static void multiply_block(focal_ctx *ctx, tiles_call *t)
{
    many_call *c = &t->c;
    const int64_t tall = foci_pieces(c->rows, TALL), threads = focal_ctx_threads(ctx);
    c->part = foci_pieces(tall, foci_max64(1, foci_min64(tall, threads / c->item_count)));
    c->part_count = foci_pieces(tall, c->part);
    foci_parallel(ctx, c->item_count * c->part_count, multiply_item, t);
}

/* Whether tiles can be loaded from x as it lies: whole tiles, whole lines, and rows not so far
 * apart that those of a tile share few sets of the cache. */
static bool lies_in_tiles(const foci_matmul_args *a)
{
    const int64_t bytes = a->x_stride * (int64_t)sizeof(uint16_t);
    return !a->x_is_transposed && a->K % FOCI_TILE_DEPTH == 0 && a->M >= TALL &&
           bytes % CACHE_LINE == 0 && (uintptr_t)a->x % CACHE_LINE == 0 &&
           bytes / CACHE_LINE % (CACHE_SETS / 2) != 0;
}

/* A block of rows after the other. */
static void multiply_in_place(focal_ctx *ctx, tiles_call *t)
{
    const foci_matmul_args *a = t->c.p->a;
    const int64_t most = t->spans > 1 ? ROW_BLOCK : a->M;
    t->is_in_place = true;
    t->c.p->x_words = a->x_stride / PACK;
    for (int64_t row = 0; row < a->M; row += most) {
        t->c.row = row;
        t->c.rows = foci_min64(a->M - row, most);
        t->c.p->x = (const float *)a->x + row * t->c.p->x_words;
        multiply_block(ctx, t);
    }
}

static focal_status multiply_packed(focal_ctx *ctx, tiles_call *t)
{
    many_call *c = &t->c;
    const foci_matmul_args *a = c->p->a;
    const int64_t most = foci_min64(foci_round_up(a->M, TALL), ROW_BLOCK);
    c->x = foci_scratch(ctx, (size_t)most, (size_t)c->p->x_words * sizeof(float));
    if (!c->x) return FOCAL_ENOMEM;
    c->p->x = c->x;
    for (c->row = 0; c->row < a->M; c->row += most) {
        c->rows = foci_min64(a->M - c->row, most);
        if (a->x_is_transposed)
            foci_parallel(ctx, foci_pieces(c->p->words, STEP), turn_rows, c);
        else
            foci_parallel(ctx, foci_pieces(c->rows, TALL), pack_rows, c);
        multiply_block(ctx, t);
    }
    foci_scratch_free(ctx, c->x);
    return FOCAL_OK;
}

static focal_status multiply_many(focal_ctx *ctx, const foci_matmul_args *args, int32_t count,
                                  const foci_activation *activation)
{
    const int64_t threads = focal_ctx_threads(ctx), K = args->K;
    product p[FOCI_MATMUL_SEVERAL] = {{.a = args}};
    tiles_call t = {.c = {.p = p, .count = count, .activation = activation}};
    many_call *c = &t.c;
    for (int32_t n = 0; n < count; n++) {
        p[n] = product_of(ctx, &args[n]);
        c->panels += foci_pieces(args[n].N, NR);
    }
    t.depth = foci_round_up(foci_pieces(K, foci_pieces(K, SPAN_DEPTH)),
                            K > SPAN_DEPTH ? FOCI_WEIGHT_PIECE : FOCI_TILE_DEPTH);
    t.spans = foci_pieces(K, t.depth);
    const int64_t panel_bytes = t.depth / PACK * NR * (int64_t)sizeof(float);
    c->item_panels = choose_panels(c->panels, activation ? count : 1,
                                   foci_min64(ITEM_BYTES / panel_bytes, ITEM_PANELS), threads);
    c->item_count = foci_pieces(c->panels, c->item_panels);
    c->thread_bytes = (size_t)(c->item_panels * panel_bytes +
                               (sums_of_item(&t) * BLOCK_FLOATS + NR * FOCI_WEIGHT_PIECE) *
                                   (int64_t)sizeof(float));
    c->scratch = foci_scratch(ctx, (size_t)threads, c->thread_bytes);
    if (!c->scratch) return FOCAL_ENOMEM;
    focal_status status = FOCAL_OK;
    if (lies_in_tiles(args))
        multiply_in_place(ctx, &t);
    else
        status = multiply_packed(ctx, &t);
    foci_scratch_free(ctx, c->scratch);
    return status;
}

static focal_status run(focal_ctx *ctx, const foci_matmul_args *a)
{
    if (a->x_dtype != FOCAL_BF16 ||
        (a->M <= FOCI_MATMUL_FEW && !a->w_is_transposed && !a->x_is_transposed))
        return foci_matmul_avx512bf16.run(ctx, a);
    return multiply_many(ctx, a, 1, NULL);
}

static focal_status run_bytes(focal_ctx *ctx, const foci_matmul_args *args, int32_t count)
{
    return foci_matmul_avx512bf16.run_bytes(ctx, args, count);
}

static bool can_run(const focal_ctx *ctx, const foci_matmul_args *args)
{
    return foci_has(ctx, FOCI_AMX) && foci_matmul_avx512bf16.can(ctx, args);
}

const foci_matmul_kernel foci_matmul_amx = {"amx", can_run, run, run_bytes, multiply_many};
#else
/* Stands in where the compiler has no such instructions. */
#include "ops/matmul/matmul_kernels.h"

const foci_matmul_kernel foci_matmul_amx = {"amx", foci_matmul_never_can, foci_matmul_never_run,
                                            NULL, NULL};
#endif
