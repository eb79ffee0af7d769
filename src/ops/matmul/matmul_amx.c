#if defined(__AMX_BF16__) || defined(__AMXBF16__)
/* Products of weights on AMX tiles: many rows of bfloat16 x. Everything else is the kernel's for
 * vectors of bfloat16, which these machines have too.
 *
 * Tiles multiply some 30 times as fast as vectors do, so what surrounds them decides. Each weight
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
    LAP_DEPTH = 640,          /* of a lap over such a span: 40 KiB of x, in a first cache of 48 */
    ROW_BLOCK = 1024,         /* rows of x packed, or of sums that wait: bounds the scratch */
    ITEM_PANELS = 16,         /* of an item at most, */
    ITEM_BYTES = 1024 * 1024, /* and in a cache of 2 MiB with the rows that pass by */
    CACHE_SETS = 64           /* of the first cache: lines as many apart share a set */
};
_Static_assert(SPAN_DEPTH % FOCI_WEIGHT_PIECE == 0, "spans are whole pieces of weights");
_Static_assert(NR == 2 * FOCI_TILE_ROWS && (int)STEP == (int)VL, "a panel is two tiles wide");

typedef struct tiles_call {
    many_call c;
    int64_t depth, spans; /* elements of a span of the sum, all but the last alike, */
    int64_t lap;          /* and of a lap */
    bool is_in_place;     /* x is read where it lies: rows before a block's are there too */
} tiles_call;

/* Outputs whose sums are made, and which wait to be finished row by row while tiles multiply the
 * next. */
typedef struct waiting_rows {
    const packed_panel *at;   /* with an activation the first of those that it joins */
    int64_t row, left;        /* the next row of out, and how many there are */
    const float *sums, *more; /* its sums; and those of the panel joined to it, or NULL */
} waiting_rows;

/* Rows of a whole panel, of a kind that the compiler knows. Asks for those of the panel beside. */
FOCI_INLINE void finish_whole(const finish_kind is, const foci_matmul_args *a,
                              const waiting_rows *w, int64_t count)
{
    const int64_t size = is.dtype == FOCAL_BF16 ? 2 : 4, step = a->out_stride * size;
    const int64_t n = w->at->n;
    char *row = out_row(a, w->row);
    const float *sums = w->sums;
    for (int64_t r = 0; r < count; r++, row += step, sums += NR) {
        if (is.dtype == FOCAL_BF16 && !is.adds) /* one rounding for both: subnormals become 0 */
            v_store_packed((float *)(void *)(row + n * size), v_load(sums), v_load(sums + VL));
        else
            finish_row_as(is, row, n, sums, NR);
        for (int64_t line = 0; line < NR * size; line += CACHE_LINE)
            __builtin_prefetch(row + (n + NR) * size + line, 1);
    }
}

/* The next `count` of the rows that wait. */
static void finish_rows(const many_call *c, waiting_rows *w, int64_t count)
{
    const foci_matmul_args *a = w->at->p->a;
    const int64_t n = w->at->n, columns = foci_min64(a->N - n, NR);
    if (c->activation) {
        for (int64_t r = 0; r < count; r++) {
            finish_gated(c, w->row + r, n, w->sums + r * NR, w->more ? w->more + r * NR : NULL,
                         columns);
        }
    } else if (columns < NR || a->bias) {
        for (int64_t r = 0; r < count; r++) finish_row(a, w->row + r, n, w->sums + r * NR, columns);
    } else if (a->out_dtype == FOCAL_BF16) {
        const finish_kind adding = {FOCAL_BF16, NULL, true}, plain = {FOCAL_BF16, NULL, false};
        if (a->adds)
            finish_whole(adding, a, w, count);
        else
            finish_whole(plain, a, w, count);
    } else {
        const finish_kind adding = {FOCAL_F32, NULL, true}, plain = {FOCAL_F32, NULL, false};
        if (a->adds)
            finish_whole(adding, a, w, count);
        else
            finish_whole(plain, a, w, count);
    }
    w->row += count;
    w->left -= count;
    w->sums += count * NR;
    if (w->more) w->more += count * NR;
}

enum { ACROSS = NR * sizeof(float) }; /* bytes from row to row of panels and sums */

/* sums (TALL,NR) = [sums +] rows of x, `stride` bytes apart, against a panel; rows that wait are
 * finished `each` at a time. Panels pass by the first cache, in which x stays. */
static void sum_tall(const many_call *c, const float *x, int64_t stride, const float *panel,
                     int64_t words, bool adds, float *sums, waiting_rows *waiting, int64_t each)
{
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
        _tile_stream_loadd(6, panel + w * NR, ACROSS);
        _tile_stream_loadd(7, panel + w * NR + VL, ACROSS);
        _tile_loadd(5, below + w, stride);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        if (waiting->left > 0) finish_rows(c, waiting, foci_min64(waiting->left, each));
    }
    _tile_stored(0, sums, ACROSS);
    _tile_stored(1, sums + VL, ACROSS);
    _tile_stored(2, sums + BLOCK_FLOATS / 2, ACROSS);
    _tile_stored(3, sums + BLOCK_FLOATS / 2 + VL, ACROSS);
}

/* The same for the upper half. */
static void sum_low(const many_call *c, const float *x, int64_t stride, const float *panel,
                    int64_t words, bool adds, float *sums, waiting_rows *waiting, int64_t each)
{
    if (adds) {
        _tile_loadd(0, sums, ACROSS);
        _tile_loadd(1, sums + VL, ACROSS);
    } else {
        _tile_zero(0);
        _tile_zero(1);
    }
    for (int64_t w = 0; w < words; w += STEP) {
        _tile_loadd(4, x + w, stride);
        _tile_stream_loadd(6, panel + w * NR, ACROSS);
        _tile_stream_loadd(7, panel + w * NR + VL, ACROSS);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if (waiting->left > 0) finish_rows(c, waiting, foci_min64(waiting->left, each));
    }
    _tile_stored(0, sums, ACROSS);
    _tile_stored(1, sums + VL, ACROSS);
}

/* The sums over `lap` of up to TALL rows from row m of the block on, against a panel of the span
 * that it is part of. Where the rows end, tiles begin so much earlier; where there are fewer than a
 * tile, zeros were packed behind them. `turns` panels share the rows that wait. Returns the sums of
 * row m. */
static const float *sum_rows(const tiles_call *t, sum_span lap, int64_t m, int64_t rows,
                             const float *panel, float *sums, waiting_rows *waiting, int64_t turns)
{
    const int64_t stride = t->c.p->x_words * (int64_t)sizeof(float);
    const int64_t words = foci_round_up(words_of(lap.end - lap.begin), STEP);
    /* Activations are as much work as the tiles do meanwhile; all else is done at once. */
    const int64_t each =
        t->c.activation ? foci_pieces(waiting->left, words / STEP * turns) : waiting->left;
    const int64_t height = foci_round_up(rows, FOCI_TILE_ROWS);
    const int64_t before = t->is_in_place ? t->c.row + m : m;
    const int64_t early = foci_min64(before, height - rows);
    const float *x = t->c.p->x + (m - early) * t->c.p->x_words + lap.begin / PACK;
    panel += lap.begin % t->depth / PACK * NR;
    if (height > FOCI_TILE_ROWS)
        sum_tall(&t->c, x, stride, panel, words, lap.begin > 0, sums, waiting, each);
    else
        sum_low(&t->c, x, stride, panel, words, lap.begin > 0, sums, waiting, each);
    return sums + early * NR;
}

/* A lap of up to TALL rows against `count` packed panels, whose sums lie one behind the other. */
static void multiply_lap(const tiles_call *t, sum_span lap, const packed_panel *at, int64_t count,
                         int64_t m, int64_t rows, float *sums, waiting_rows *waiting)
{
    const many_call *c = &t->c;
    const int64_t step = c->activation ? c->count : 1;
    for (int64_t n = 0; n < count; n += step, sums += step * BLOCK_FLOATS) {
        waiting_rows next = {.at = &at[n], .row = c->row + m, .left = rows};
        next.sums = sum_rows(t, lap, m, rows, at[n].words, sums, waiting, step);
        if (step > 1)
            next.more = sum_rows(t, lap, m, rows, at[n + 1].words, sums + BLOCK_FLOATS, waiting, 1);
        if (lap.end == c->p->a->K) *waiting = next;
    }
}

/* A span of rows [first, last) of the block against `count` packed panels. Sums that other spans
 * add to have a place of their own; else two lots of them take turns. */
static void multiply_span(const tiles_call *t, sum_span span, const packed_panel *at, int64_t count,
                          int64_t first, int64_t last, float *sums)
{
    waiting_rows waiting = {.left = 0};
    for (int64_t m = first; m < last; m += TALL) {
        const int64_t rows = foci_min64(last - m, TALL), tall = (m - first) / TALL;
        const int64_t lot = t->spans > 1 ? tall : tall % 2;
        float *to = sums + lot * t->c.item_panels * BLOCK_FLOATS;
        for (sum_span lap = span; lap.begin < span.end; lap.begin += t->lap) {
            lap.end = foci_min64(span.end, lap.begin + t->lap);
            multiply_lap(t, lap, at, count, m, rows, to, &waiting);
        }
    }
    if (waiting.left > 0) finish_rows(&t->c, &waiting, waiting.left);
}

/* Where a panel's last tile is not filled, zeros. */
static void clear_ends(sum_span span, int64_t count, float *words)
{
    const int64_t filled = words_of(span.end - span.begin), end = foci_round_up(filled, STEP);
    for (int64_t n = 0; n < count; n++)
        memset(words + n * span.panel_words + filled * NR, 0,
               (size_t)((end - filled) * NR) * sizeof *words);
}

/* Blocks of sums that an item holds at once: of all rows where they wait for the next span. */
static int64_t sums_of_item(const tiles_call *t)
{
    const int64_t tall = foci_pieces(foci_min64(t->c.p->a->M, ROW_BLOCK), TALL);
    return (t->spans > 1 ? tall : 2) * t->c.item_panels;
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
    foci_tiles_begin();
    for (int64_t k = 0; k < K; k += t->depth) {
        const sum_span span = {k, foci_min64(K, k + t->depth), panel_words};
        packed_panel at[ITEM_PANELS];
        const int64_t count = pack_item(c, span, index % c->item_count, at, words, rows);
        clear_ends(span, count, words);
        foci_tiles_see(words);
        multiply_span(t, span, at, count, first, last, sums);
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
    t.lap = foci_round_up(foci_pieces(t.depth, foci_pieces(t.depth, LAP_DEPTH)), FOCI_TILE_DEPTH);
    const int64_t panel_bytes = t.depth / PACK * NR * (int64_t)sizeof(float);
    c->item_panels = choose_panels(c->panels, activation ? count : 1,
                                   foci_min64(ITEM_BYTES / panel_bytes, ITEM_PANELS), threads);
    c->item_count = foci_pieces(c->panels, c->item_panels);
    c->thread_bytes = (size_t)(c->item_panels * panel_bytes +
                               (sums_of_item(&t) * BLOCK_FLOATS + (int64_t)NR * FOCI_WEIGHT_PIECE) *
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

const foci_matmul_kernel foci_matmul_amx = {.name = "amx",
                                            .can = can_run,
                                            .run = run,
                                            .run_bytes = run_bytes,
                                            .run_many = multiply_many,
                                            .reads_interleaved = true};
#else
/* Stands in where the compiler has no such instructions. */
#include "ops/matmul/matmul_kernels.h"

const foci_matmul_kernel foci_matmul_amx = {
    .name = "amx", .can = foci_matmul_never_can, .run = foci_matmul_never_run};
#endif
