/* Attention backward, written once for every instruction set (docs/MATH.md, 1.6 to 1.9).
 *
 * An item owns a block of keys of one key head and walks over the query rows that see it, latest
 * first. Tiles are transposed, keys by queries: the weights come out with lse and delta along the
 * lanes, as the left factor that dv and dk need, so only dq's factor is laid out a second time.
 * Per tile: scores again, weights, their gradient, and three products; of that there are two
 * forms, and the including file chooses one.
 *
 * dk and dv of a block are sums within one item. dq sums over the blocks: items of a key head add
 * to it in the order of their number, each waiting until the one before has passed that place.
 * So every sum has one order, whatever the threads do, and nothing is stored twice. */
#ifndef FOCI_OPS_ATTN_ATTN_BACKWARD_BODY_H
#define FOCI_OPS_ATTN_ATTN_BACKWARD_BODY_H

#include "ops/attn/attn_backward_blocks.h"

/* True when some row of the panel sees some key of the strip. */
static inline bool tile_is_seen(const query_tile *tile, int32_t panel, int32_t entry)
{
    const strip_bounds *b = &tile->bounds[panel];
    return b->hi_max > b->lo_min && b->lo_min < entry + STRIP_ROWS && b->hi_max > entry;
}

static void clear_tile(const bwd_scratch *s, int32_t strip, int32_t panel)
{
    const int64_t at = (int64_t)panel * SUB_KEYS + (int64_t)strip * STRIP_ROWS;
    const size_t bytes = (int64_t)STRIP_ROWS * (NR / PACK) * sizeof(float);
    memset(s->p + at * (NR / PACK), 0, bytes);
    memset(s->ds + at * (NR / PACK), 0, bytes);
    if (PACK == 2) memset(s->ds_c + at / PACK * NR, 0, bytes);
}

/* One tile of queries against SUB_KEYS keys of the block. */
static void backward_sub(const bwd_call *call, const bwd_item *item, const query_tile *tile,
                         const bwd_scratch *s, int32_t sub)
{
    const int32_t keys = (int32_t)foci_min64(item->end - item->begin - sub, SUB_KEYS);
    const int32_t strips = (int32_t)foci_pieces(keys, STRIP_ROWS);
    int32_t panel_from[SUB_STRIPS], panel_to[SUB_STRIPS];
    int32_t strip_from[QUERY_PANELS], strip_to[QUERY_PANELS];
    for (int32_t p = 0; p < QUERY_PANELS; p++) strip_from[p] = strip_to[p] = 0;
    for (int32_t n = 0; n < strips; n++) {
        panel_from[n] = panel_to[n] = 0;
        for (int32_t p = 0; p < QUERY_PANELS; p++) {
            if (!tile_is_seen(tile, p, item->begin + sub + n * STRIP_ROWS)) continue;
            if (panel_to[n] == 0) panel_from[n] = p;
            panel_to[n] = p + 1;
            if (strip_to[p] == 0) strip_from[p] = n;
            strip_to[p] = n + 1;
        }
    }
    for (int32_t p = 0; p < QUERY_PANELS; p++) {
        for (int32_t n = 0; n < strips; n++) {
            const int32_t entry = item->begin + sub + n * STRIP_ROWS;
            const bool has_gate = is_gated(call) && gate_is_distant(&tile->gate, p, entry);
            if (is_gated(call) && !has_gate) gate_clear(&s->gate, n, p);
            if (has_gate)
                backward_tile(call, item, tile, s, sub, n, p, true);
            else if (tile_is_seen(tile, p, entry))
                backward_tile(call, item, tile, s, sub, n, p, false);
            else if ((p >= panel_from[n] && p < panel_to[n]) ||
                     (n >= strip_from[p] && n < strip_to[p]))
                clear_tile(s, n, p);
        }
    }
    for (int32_t n = 0; n < strips; n++) {
        if (panel_from[n] == panel_to[n]) continue;
        const int64_t key = sub + (int64_t)n * STRIP_ROWS,
                      left = (int64_t)n * STRIP_ROWS * (NR / PACK);
        add_key_sums(s->dv + key * call->v_stride, call->v_stride, call->a->Dv, s->p + left,
                     s->dout_c, panel_from[n], panel_to[n], tile->has_odd_dout);
        add_key_sums(s->dk + key * call->k_stride, call->k_stride, call->a->D, s->ds + left, s->q_c,
                     panel_from[n], panel_to[n], tile->has_odd_q);
        if (is_gated(call)) gate_add_dgk(&call->gate, &s->gate, sub, n, panel_from[n], panel_to[n]);
    }
    for (int32_t p = 0; p < QUERY_PANELS; p++) {
        if (strip_from[p] >= strip_to[p]) continue;
        add_dq(call, s, sub, p, strip_from[p], strip_to[p]);
        if (is_gated(call)) gate_add_dgq(&call->gate, &s->gate, sub, p, strip_from[p], strip_to[p]);
    }
}

/* Returns when the item before has come to this progress. */
static void wait_for_turn(const bwd_call *call, const bwd_item *item, int32_t progress)
{
    if (item->prev < 0) return;
    int32_t round = 0;
    while (atomic_load_explicit(&call->progress[item->prev], memory_order_acquire) > progress)
        foci_spin_wait(round++ & 0xFFFF);
}

/* Adds a tile's dq to the sums of its rows. */
static void add_dq_rows(const bwd_call *call, const query_tile *tile, const bwd_scratch *s)
{
    const focal_attn_args *a = call->a;
    for (int32_t first = 0; first < tile->rows; first += VL) {
        const float *from = s->dq_t + first / NR * call->kt_rows * NR + first % NR;
        const int32_t rows = (int32_t)foci_min64(tile->rows - first, VL);
        for (int64_t d = 0; d < a->D; d += VL) {
            vec block[VL];
            const int64_t width = foci_min64(a->D - d, VL);
            for (int64_t n = 0; n < VL; n++)
                block[n] = n < width ? v_load(from + (d + n) * NR) : v_zero();
            v_transpose(block);
            for (int32_t r = 0; r < rows; r++) {
                const int64_t place = tile->place[first + r] - call->first_q * a->H;
                float *to = call->dq + place / a->H * call->dq_stride + place % a->H * a->D + d;
                if (width == VL)
                    v_store(to, v_add(v_load(to), block[r]));
                else
                    v_store_some(to, v_add(v_load_some(to, width), block[r]), width);
            }
        }
    }
}

static void add_key_rows(const bwd_call *call, const bwd_item *item, const part_view *view,
                         const bwd_scratch *s)
{
    const focal_attn_args *a = call->a;
    for (int32_t n = 0; n < item->end - item->begin; n++) {
        const int64_t at = view->key_row ? view->key_row[item->begin + n] : item->begin + n;
        const int64_t row = view->seq->k_row + at - call->first_k;
        float *dk = call->dk + row * call->dk_stride + (int64_t)item->g * a->D;
        float *dv = call->dv + row * call->dv_stride + (int64_t)item->g * a->Dv;
        for (int32_t d = 0; d < a->D; d++) dk[d] += s->dk[n * call->k_stride + d];
        for (int32_t d = 0; d < a->Dv; d++) dv[d] += s->dv[n * call->v_stride + d];
    }
}

static void backward_item(void *arg, int64_t index, int32_t thread)
{
    const bwd_call *call = arg;
    const bwd_item *item = &call->items[index];
    const part_view view = view_part(call->a, item->seq, item->g, item->part);
    bwd_scratch s;
    query_tile tile;
    (void)lay_out_backward(call, (bump){call->scratch + thread * call->scratch_bytes, 0}, &s);
    pack_block(call, item, &view, &s);
    if (is_gated(call))
        gate_pack_block(&call->gate, view.seq, item->g, item->begin, item->end, &s.gate);
    const int64_t first = (int64_t)part_search(&view, item->begin, false) * call->group;
    const int64_t last = (int64_t)part_search(&view, item->end, true) * call->group;
    /* Tiles begin at multiples of QUERY_TILE rows, the latest first. */
    for (int64_t row = (last - 1) / QUERY_TILE * QUERY_TILE;
         last > first && row + QUERY_TILE > first; row -= QUERY_TILE) {
        const int64_t from = foci_max64(row, first);
        pack_queries(call, item, &view, from, (int32_t)(foci_min64(row + QUERY_TILE, last) - from),
                     &s, &tile);
        attend_begin();
        for (int32_t sub = 0; sub < item->end - item->begin; sub += SUB_KEYS)
            backward_sub(call, item, &tile, &s, sub);
        attend_end();
        wait_for_turn(call, item, tile.lowest + 1);
        add_dq_rows(call, &tile, &s);
        if (is_gated(call)) gate_add_queries(&call->gate, &s.gate, tile.place, tile.rows, item->g);
        /* A token's heads may be split over two tiles: it is done with the lower one. */
        atomic_store_explicit(&call->progress[index], tile.lowest + 1 + (from % call->group != 0),
                              memory_order_release);
    }
    if (is_gated(call))
        gate_store_keys(&call->gate, &s.gate, view.seq->k_row + item->begin,
                        item->end - item->begin, item->g);
    wait_for_turn(call, item, 0);
    add_key_rows(call, item, &view, &s);
    atomic_store_explicit(&call->progress[index], 0, memory_order_release);
}

/* delta = dout . out, for DELTA_TOKENS tokens an item. */
enum { DELTA_TOKENS = 64 };

static void delta_item(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const bwd_call *call = arg;
    const focal_attn_args *a = call->a;
    const int64_t size = (int64_t)focal_dtype_bytes(a->dtype);
    const focal_attn_seq *last = &a->seqs[a->seq_count - 1];
    const int64_t end = last->q_row + last->T;
    const int64_t from = call->first_q + index * DELTA_TOKENS;
    int32_t n = 0; /* rows between sequences may hold anything, or nothing */
    for (int64_t row = from; row < foci_min64(from + DELTA_TOKENS, end); row++) {
        while (row >= a->seqs[n].q_row + a->seqs[n].T) n++;
        if (row < a->seqs[n].q_row) continue;
        for (int32_t h = 0; h < a->H; h++) {
            const int64_t at = (row * a->out_stride + (int64_t)h * a->Dv) * size;
            const char *out = (const char *)a->out + at,
                       *dout = (const char *)call->grads->dout + at;
            vec sum = v_zero();
            for (int64_t d = 0; d < a->Dv; d += VL) {
                float x[VL] = {0}, y[VL] = {0};
                const int64_t width = foci_min64(a->Dv - d, VL);
                for (int64_t e = 0; e < width; e++) {
                    if (a->dtype == FOCAL_F32) {
                        x[e] = ((const float *)(const void *)out)[d + e];
                        y[e] = ((const float *)(const void *)dout)[d + e];
                    } else {
                        x[e] = foci_bf16_to_float(((const uint16_t *)(const void *)out)[d + e]);
                        y[e] = foci_bf16_to_float(((const uint16_t *)(const void *)dout)[d + e]);
                    }
                }
                sum = v_fma(v_load(x), v_load(y), sum);
            }
            call->delta[(row - call->first_q) * a->H + h] = v_reduce_add(sum);
        }
    }
}

/* Fills items, key heads in turn so that neighbours seldom wait for each other; items NULL only
 * counts. */
static int64_t list_backward_items(const bwd_call *call, bwd_item *items)
{
    const focal_attn_args *a = call->a;
    int64_t count = 0;
    for (int32_t n = 0; n < a->seq_count; n++) {
        const focal_attn_seq *seq = &a->seqs[n];
        const int32_t parts = seq->keys && !a->gate ? seq->keys->K : 0;
        /* Short texts get smaller blocks, so that there is work for everyone. */
        const int64_t block =
            foci_min64(foci_round_up(foci_pieces(seq->S, 8), SUB_KEYS), KEY_BLOCK);
        const int64_t begin = count;
        for (int32_t part = PART_LOCAL; part < parts; part++) {
            int64_t longest = 0;
            for (int32_t g = 0; g < a->G; g++) {
                const part_view view = view_part(a, n, g, part);
                longest = foci_max64(longest, part_entries(&view));
            }
            for (int64_t from = 0; from < longest; from += block) {
                for (int32_t g = 0; g < a->G; g++) {
                    const part_view view = view_part(a, n, g, part);
                    const int64_t end = foci_min64(from + block, part_entries(&view));
                    if (end <= from) continue;
                    if (items) {
                        int64_t before = count - 1; /* the same key head's last item */
                        while (before >= begin && items[before].g != g) before--;
                        items[count] = (bwd_item){
                            n, g, part, (int32_t)from, (int32_t)end, before >= begin ? before : -1};
                    }
                    count++;
                }
            }
        }
    }
    return count;
}

typedef struct convert_call {
    const bwd_call *call;
    bool is_start; /* clear the sums, else convert them to the outputs */
} convert_call;

enum { CONVERT_ROWS = 64 };

/* Clears or converts rows of one tensor's sums that belong to sequences. */
static void convert_rows(const convert_call *c, int64_t from, int64_t to, bool is_keys)
{
    const bwd_call *call = c->call;
    const focal_attn_args *a = call->a;
    const int64_t size = (int64_t)focal_dtype_bytes(a->dtype);
    for (int32_t n = 0; n < a->seq_count; n++) {
        const focal_attn_seq *seq = &a->seqs[n];
        const int64_t begin = is_keys ? seq->k_row : seq->q_row;
        const int64_t end = begin + (is_keys ? seq->S : seq->T);
        for (int64_t row = foci_max64(from, begin); row < foci_min64(to, end); row++) {
            float *sums[2] = {is_keys ? call->dk + (row - call->first_k) * call->dk_stride
                                      : call->dq + (row - call->first_q) * call->dq_stride,
                              is_keys ? call->dv + (row - call->first_k) * call->dv_stride : NULL};
            char *outs[2] = {is_keys ? (char *)call->grads->dk + row * a->k_stride * size
                                     : (char *)call->grads->dq + row * a->q_stride * size,
                             is_keys ? (char *)call->grads->dv + row * a->v_stride * size : NULL};
            const int64_t widths[2] = {is_keys ? (int64_t)a->G * a->D : (int64_t)a->H * a->D,
                                       (int64_t)a->G * a->Dv};
            for (int m = 0; m < 2 && sums[m]; m++) {
                if (c->is_start)
                    memset(sums[m], 0, (size_t)widths[m] * sizeof(float));
                else
                    store_row(outs[m], a->dtype, sums[m], widths[m]);
            }
        }
    }
}

static void convert_item(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const convert_call *c = arg;
    const int64_t q = c->call->first_q + index * CONVERT_ROWS;
    const int64_t k = c->call->first_k + index * CONVERT_ROWS;
    convert_rows(c, q, q + CONVERT_ROWS, false);
    convert_rows(c, k, k + CONVERT_ROWS, true);
}

static focal_status run_backward(bwd_call *call, void *sums[3])
{
    const focal_attn_args *a = call->a;
    const focal_attn_seq *last = &a->seqs[a->seq_count - 1];
    call->first_q = a->seqs[0].q_row;
    call->first_k = a->seqs[0].k_row;
    const int64_t q_rows = last->q_row + last->T - call->first_q;
    const int64_t k_rows = last->k_row + last->S - call->first_k;
    call->delta = foci_scratch(call->ctx, (size_t)q_rows, (size_t)a->H * sizeof(float));
    if (!call->delta) return FOCAL_ENOMEM;
    if (a->dtype == FOCAL_F32) { /* the outputs are the sums */
        call->dq = (float *)call->grads->dq + call->first_q * a->q_stride;
        call->dk = (float *)call->grads->dk + call->first_k * a->k_stride;
        call->dv = (float *)call->grads->dv + call->first_k * a->v_stride;
        call->dq_stride = a->q_stride;
        call->dk_stride = a->k_stride;
        call->dv_stride = a->v_stride;
    } else {
        call->dq_stride = (int64_t)a->H * a->D;
        call->dk_stride = (int64_t)a->G * a->D;
        call->dv_stride = (int64_t)a->G * a->Dv;
        sums[0] = foci_scratch(call->ctx, (size_t)q_rows, (size_t)call->dq_stride * sizeof(float));
        sums[1] = foci_scratch(call->ctx, (size_t)k_rows, (size_t)call->dk_stride * sizeof(float));
        sums[2] = foci_scratch(call->ctx, (size_t)k_rows, (size_t)call->dv_stride * sizeof(float));
        if (!sums[0] || !sums[1] || !sums[2]) return FOCAL_ENOMEM;
        call->dq = sums[0];
        call->dk = sums[1];
        call->dv = sums[2];
    }
    FOCAL_TRY(gate_begin(call->ctx, &call->gate, call->grads));
    const int64_t count = list_backward_items(call, NULL);
    bwd_scratch s;
    call->scratch_bytes = lay_out_backward(call, (bump){NULL, 0}, &s);
    call->items = foci_scratch(call->ctx, (size_t)count, sizeof *call->items);
    call->progress = foci_scratch(call->ctx, (size_t)count, sizeof *call->progress);
    call->scratch =
        foci_scratch(call->ctx, (size_t)focal_ctx_threads(call->ctx), (size_t)call->scratch_bytes);
    if (!call->items || !call->progress || !call->scratch) return FOCAL_ENOMEM;
    (void)list_backward_items(call, call->items);
    for (int64_t n = 0; n < count; n++) atomic_init(&call->progress[n], NOT_STARTED);
    const int64_t chunks = foci_pieces(foci_max64(q_rows, k_rows), CONVERT_ROWS);
    convert_call convert = {call, true};
    foci_parallel(call->ctx, chunks, convert_item, &convert);
    foci_parallel(call->ctx, foci_pieces(q_rows, DELTA_TOKENS), delta_item, call);
    foci_parallel(call->ctx, count, backward_item, call);
    gate_finish(call->ctx, &call->gate);
    if (a->dtype != FOCAL_F32) {
        convert.is_start = false;
        foci_parallel(call->ctx, chunks, convert_item, &convert);
    }
    return FOCAL_OK;
}

static focal_status backward(focal_ctx *ctx, const focal_attn_args *args,
                             const focal_attn_grads *grads)
{
    bwd_call call = {.ctx = ctx, .a = args, .grads = grads, .group = args->H / args->G};
    call.k_words = foci_round_up(words_of(args->D), DEPTH_WORDS);
    call.v_words = foci_round_up(words_of(args->Dv), DEPTH_WORDS);
    call.k_stride = foci_round_up(args->D, NR);
    call.v_stride = foci_round_up(args->Dv, NR);
    call.kt_rows = foci_round_up(args->D, STRIP_ROWS);
    call.gate = (gate_call){.a = args, .gate = args->gate};
    void *sums[3] = {NULL, NULL, NULL};
    const focal_status status = run_backward(&call, sums);
    foci_scratch_free(ctx, call.scratch);
    foci_scratch_free(ctx, call.progress);
    gate_free(ctx, &call.gate);
    foci_scratch_free(ctx, call.items);
    foci_scratch_free(ctx, sums[2]);
    foci_scratch_free(ctx, sums[1]);
    foci_scratch_free(ctx, sums[0]);
    foci_scratch_free(ctx, call.delta);
    return status;
}

#endif /* FOCI_OPS_ATTN_ATTN_BACKWARD_BODY_H */
