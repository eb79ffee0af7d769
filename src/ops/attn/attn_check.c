/* What a call of attention must fulfil: shapes, strides, key sets, pages, gates. Kernels rely on
 * everything that is checked here and check nothing themselves. */
#include <float.h>
#include <math.h>

#include "base/error.h"
#include "base/sizes.h"
#include "ops/attn/attn_kernels.h"
#include "ops/attn/attn_view.h"

/* Heads begin with a block, and so do rows. */
static focal_status check_q8(focal_ctx *ctx, const focal_attn_args *a)
{
    const int32_t block = focal_dtype_block(FOCAL_Q8_0);
    if (a->D % block != 0 || a->Dv % block != 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "attn: head widths %d and %d are not whole blocks of %d (q8_0)", a->D,
                         a->Dv, block);
    if (a->k_stride % block != 0 || a->v_stride % block != 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "attn: strides %lld and %lld are not whole blocks of %d (q8_0)",
                         (long long)a->k_stride, (long long)a->v_stride, block);
    if (a->gate) return foci_fail(ctx, FOCAL_EINVAL, "attn: a gate takes no keys in q8_0");
    return FOCAL_OK;
}

static focal_status check_shape(focal_ctx *ctx, const focal_attn_args *a)
{
    bool has_block = a->seq_count == 0; /* pages bring their own keys and values */
    for (int32_t n = 0; a->seqs && n < a->seq_count; n++) has_block |= !a->seqs[n].k_pages;
    if (!a->q || !a->out || (has_block && (!a->k || !a->v)))
        return foci_fail(ctx, FOCAL_EINVAL, "attn: q, k, v and out must be set");
    if (a->dtype != FOCAL_F32 && a->dtype != FOCAL_BF16)
        return foci_fail(ctx, FOCAL_EINVAL, "attn: dtype %d is not f32 or bf16", (int)a->dtype);
    if (a->H < 1 || a->G < 1 || a->D < 1 || a->Dv < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "attn: every dimension must be at least 1");
    if (a->H % a->G != 0)
        return foci_fail(ctx, FOCAL_EINVAL, "attn: %d query heads over %d key heads", a->H, a->G);
    if (a->D > FOCAL_MAX_HEAD_WIDTH || a->Dv > FOCAL_MAX_HEAD_WIDTH)
        return foci_fail(ctx, FOCAL_EINVAL, "attn: head widths %d and %d, at most %d", a->D, a->Dv,
                         FOCAL_MAX_HEAD_WIDTH);
    if (!isfinite(a->softcap) || a->softcap < 0.0F || (a->softcap > 0.0F && a->softcap < FLT_MIN))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "attn: the soft-cap must be 0 or a normal positive number");
    if (a->has_window && (a->window < 0 || a->sinks < 0))
        return foci_fail(ctx, FOCAL_EINVAL, "attn: window %d and sinks %d must not be negative",
                         a->window, a->sinks);
    if (a->q_stride < (int64_t)a->H * a->D || a->k_stride < (int64_t)a->G * a->D ||
        a->v_stride < (int64_t)a->G * a->Dv || a->out_stride < (int64_t)a->H * a->Dv)
        return foci_fail(ctx, FOCAL_EINVAL, "attn: a stride is smaller than its row");
    return a->has_q8_keys ? check_q8(ctx, a) : FOCAL_OK;
}

/* True when rows of that stride, up to row + count, have offsets that fit. */
static bool rows_fit(int64_t row, int64_t count, int64_t stride)
{
    int64_t end;
    return row >= 0 && !__builtin_add_overflow(row, count, &end) &&
           !__builtin_mul_overflow(end, stride, &end) && end <= INT64_MAX / 8;
}

static focal_status check_seq(focal_ctx *ctx, const focal_attn_args *a, int32_t n)
{
    const focal_attn_seq *seq = &a->seqs[n];
    if (seq->T < 1 || seq->S < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "attn: sequence %d has %d queries and %d keys", n,
                         seq->T, seq->S);
    if (!rows_fit(seq->q_row, seq->T, a->q_stride) || !rows_fit(seq->q_row, seq->T, a->out_stride))
        return foci_fail(ctx, FOCAL_EINVAL, "attn: sequence %d has q rows out of range", n);
    if (seq->q_head < 0 || seq->q_head > a->q_stride / a->D - a->H ||
        seq->q_head > a->out_stride / a->Dv - a->H)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "attn: the heads %d to %d of sequence %d are not in a row", seq->q_head,
                         seq->q_head + a->H - 1, n);
    if (seq->q_head > 0 && (a->lse || a->gate))
        return foci_fail(ctx, FOCAL_EUNSUPPORTED,
                         "attn: heads of a row apart have no lse and no gate");
    if (n > 0 && seq->q_row < a->seqs[n - 1].q_row + a->seqs[n - 1].T &&
        (seq->q_row != a->seqs[n - 1].q_row || seq->T != a->seqs[n - 1].T ||
         seq->q_head < a->seqs[n - 1].q_head + a->H))
        return foci_fail(ctx, FOCAL_EINVAL, "attn: sequence %d begins before the one before ends",
                         n);
    if (!seq->k_pages != !seq->v_pages)
        return foci_fail(ctx, FOCAL_EINVAL, "attn: sequence %d has pages for only one of k and v",
                         n);
    if (!seq->k_pages) {
        if (!rows_fit(seq->k_row, seq->S, a->k_stride) ||
            !rows_fit(seq->k_row, seq->S, a->v_stride))
            return foci_fail(ctx, FOCAL_EINVAL, "attn: sequence %d has k rows out of range", n);
        return FOCAL_OK;
    }
    if (a->page_rows < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "attn: pages of %d rows", a->page_rows);
    if (!rows_fit(0, a->page_rows, a->k_stride) || !rows_fit(0, a->page_rows, a->v_stride))
        return foci_fail(ctx, FOCAL_EINVAL, "attn: pages of %d rows are too large", a->page_rows);
    if (seq->page_count < foci_pieces(seq->S, a->page_rows) || seq->page_count > INT32_MAX)
        return foci_fail(ctx, FOCAL_EINVAL, "attn: %d keys do not fit %lld pages of %d rows",
                         seq->S, (long long)seq->page_count, a->page_rows);
    for (int64_t p = 0; p < seq->page_count; p++)
        if (!seq->k_pages[p] || !seq->v_pages[p])
            return foci_fail(ctx, FOCAL_EINVAL, "attn: page %lld of sequence %d is missing",
                             (long long)p, n);
    return FOCAL_OK;
}

static int64_t row_limit(const focal_attn_args *a, const focal_attn_seq *seq)
{
    return seq->k_pages ? seq->page_count * a->page_rows : seq->S;
}

static focal_status check_group(focal_ctx *ctx, const focal_keys *keys, int32_t r, int32_t c,
                                int64_t limit)
{
    const int64_t at = (int64_t)r * keys->K + c;
    const int32_t begin = keys->key_begin[at], end = keys->key_end[at];
    if (begin < 0 || end < begin || end > keys->key_stride)
        return foci_fail(ctx, FOCAL_EINVAL, "keys: group %d has entries %d to %d of %lld", c, begin,
                         end, (long long)keys->key_stride);
    const int32_t *from = keys->query_begin + (int64_t)r * (keys->K + 1) + c;
    if (from[0] < 0 || from[1] < from[0] || from[1] > keys->query_stride)
        return foci_fail(ctx, FOCAL_EINVAL, "keys: group %d has queries %d to %d of %lld", c,
                         from[0], from[1], (long long)keys->query_stride);
    const int32_t *query = keys->query + r * keys->query_stride;
    const int32_t *query_end = keys->query_end + r * keys->query_stride;
    int32_t last = -1, seen = 0;
    for (int32_t n = from[0]; n < from[1]; n++) {
        if (query[n] <= last || query[n] >= keys->T)
            return foci_fail(ctx, FOCAL_EINVAL, "keys: query %d of group %d is out of order",
                             query[n], c);
        if (query_end[n] < seen || query_end[n] > end - begin)
            return foci_fail(ctx, FOCAL_EINVAL, "keys: query %d sees %d keys of group %d", query[n],
                             query_end[n], c);
        last = query[n];
        seen = query_end[n];
    }
    const int32_t *row = keys->key_row + r * keys->key_stride + begin;
    int32_t wrong = 0; /* no branch in the loop: it runs over every key that is seen */
    for (int32_t n = 0; n < seen; n++) wrong |= row[n] < 0 || row[n] >= limit;
    if (wrong)
        return foci_fail(ctx, FOCAL_EINVAL, "keys: group %d names a row that is not there", c);
    return FOCAL_OK;
}

/* Only the positions that the queries reach through the window and the sinks are looked at. */
static focal_status check_positions(focal_ctx *ctx, const focal_attn_args *a,
                                    const focal_attn_seq *seq, int32_t r, int64_t limit)
{
    const int32_t *row = seq->keys->position_row + r * seq->keys->position_stride;
    const int32_t first = foci_attn_local(a, seq, 0).lo;
    const int64_t sinks = foci_min64(a->sinks, first);
    bool wrong = false;
    for (int64_t j = 0; j < sinks; j++) wrong |= row[j] < 0 || row[j] >= limit;
    for (int64_t j = first; j < seq->S; j++) wrong |= row[j] < 0 || row[j] >= limit;
    if (wrong) return foci_fail(ctx, FOCAL_EINVAL, "keys: a position's row is not there");
    return FOCAL_OK;
}

static focal_status check_keys(focal_ctx *ctx, const focal_attn_args *a, const focal_attn_seq *seq)
{
    const focal_keys *keys = seq->keys;
    if (!a->has_window || a->is_bidirectional)
        return foci_fail(ctx, FOCAL_EINVAL, "attn: key sets need a window and causal order");
    if (keys->mode != FOCAL_DIRECTED && keys->mode != FOCAL_SHARED)
        return foci_fail(ctx, FOCAL_EINVAL, "keys: mode %d is not known", (int)keys->mode);
    if (keys->K < 1 || keys->K > FOCAL_MAX_GROUPS)
        return foci_fail(ctx, FOCAL_EINVAL, "keys: %d groups, must be 1 to %d", keys->K,
                         FOCAL_MAX_GROUPS);
    if (keys->routers != 1 && keys->routers != a->G)
        return foci_fail(ctx, FOCAL_EINVAL, "keys: %d routers for %d key heads", keys->routers,
                         a->G);
    if (keys->T != seq->T || keys->S != seq->S)
        return foci_fail(ctx, FOCAL_EINVAL, "keys: sets of %d queries and %d keys for %d and %d",
                         keys->T, keys->S, seq->T, seq->S);
    if (!keys->key_row || !keys->key_begin || !keys->key_end || !keys->query || !keys->query_end ||
        !keys->query_begin || keys->key_stride < 0 || keys->query_stride < 0)
        return foci_fail(ctx, FOCAL_EINVAL, "keys: a list is missing");
    if (!rows_fit(0, keys->routers, keys->key_stride) ||
        !rows_fit(0, keys->routers, keys->query_stride))
        return foci_fail(ctx, FOCAL_EINVAL, "keys: a list is too long");
    int64_t limit = row_limit(a, seq);
    if (keys->mode == FOCAL_SHARED) {
        if (!keys->query_mask || !keys->key_mask)
            return foci_fail(ctx, FOCAL_EINVAL, "keys: shared groups need membership masks");
        /* Rows past the masks, such as the free rest of a cache, must not be named. */
        limit = foci_min64(limit, keys->key_mask_stride);
    }
    if (keys->position_row && keys->position_stride < seq->S)
        return foci_fail(ctx, FOCAL_EINVAL, "keys: positions of %lld rows for %d keys",
                         (long long)keys->position_stride, seq->S);
    for (int32_t r = 0; r < keys->routers; r++) {
        for (int32_t c = 0; c < keys->K; c++) FOCAL_TRY(check_group(ctx, keys, r, c, limit));
        if (keys->position_row) FOCAL_TRY(check_positions(ctx, a, seq, r, limit));
    }
    return FOCAL_OK;
}

static focal_status check_gate(focal_ctx *ctx, const focal_attn_args *a)
{
    const focal_attn_gate *gate = a->gate;
    const bool is_straight = gate->kind == FOCAL_GATE_STRAIGHT;
    const bool is_scale = gate->kind == FOCAL_GATE_SCALE;
    if (!is_straight && !is_scale && gate->kind != FOCAL_GATE_PAPER && gate->kind != FOCAL_GATE_LOG)
        return foci_fail(ctx, FOCAL_EINVAL, "gate: kind %d is not known", (int)gate->kind);
    if (!a->has_window || a->is_bidirectional)
        return foci_fail(ctx, FOCAL_EINVAL, "gate: a gate needs a window and causal order");
    if (!gate->gq || !gate->gk) return foci_fail(ctx, FOCAL_EINVAL, "gate: gq and gk must be set");
    if (gate->K < 1 || gate->K > FOCAL_MAX_GROUPS)
        return foci_fail(ctx, FOCAL_EINVAL, "gate: %d groups, must be 1 to %d", gate->K,
                         FOCAL_MAX_GROUPS);
    if (gate->routers != 1 && gate->routers != a->G)
        return foci_fail(ctx, FOCAL_EINVAL, "gate: %d routers for %d key heads", gate->routers,
                         a->G);
    if (!isfinite(gate->lambda)) return foci_fail(ctx, FOCAL_EINVAL, "gate: lambda must be finite");
    for (int32_t n = 0; n < a->seq_count; n++) {
        const focal_attn_seq *seq = &a->seqs[n];
        const focal_keys *keys = seq->keys;
        if (seq->k_pages && !is_scale)
            return foci_fail(ctx, FOCAL_EUNSUPPORTED, "gate: keys must not lie in pages");
        if (seq->k_pages && !rows_fit(seq->k_row, seq->S, (int64_t)gate->routers * gate->K))
            return foci_fail(ctx, FOCAL_EINVAL, "gate: sequence %d has gk rows out of range", n);
        if (!is_straight && keys)
            return foci_fail(ctx, FOCAL_EINVAL, "gate: this kind takes no key sets");
        if (!is_straight) continue;
        if (!keys || !keys->query_mask || !keys->key_mask || keys->key_mask_stride < seq->S)
            return foci_fail(ctx, FOCAL_EINVAL, "gate: straight-through needs key sets with masks");
        if (keys->position_row)
            return foci_fail(ctx, FOCAL_EUNSUPPORTED, "gate: keys must lie in position order");
        if (keys->K != gate->K || keys->routers != gate->routers)
            return foci_fail(ctx, FOCAL_EINVAL, "gate: %d groups x %d routers for sets of %d x %d",
                             gate->K, gate->routers, keys->K, keys->routers);
    }
    return FOCAL_OK;
}

focal_status foci_attn_normalise(focal_ctx *ctx, const focal_attn_args *args,
                                 focal_attn_args *normal, focal_attn_seq *single,
                                 focal_attn_gate *gate)
{
    if (!args) return foci_fail(ctx, FOCAL_EINVAL, "attn: no arguments");
    *normal = *args;
    focal_attn_args *a = normal;
    if (a->Dv == 0) a->Dv = a->D;
    if (a->q_stride == 0) a->q_stride = (int64_t)a->H * a->D;
    if (a->k_stride == 0) a->k_stride = (int64_t)a->G * a->D;
    if (a->v_stride == 0) a->v_stride = (int64_t)a->G * a->Dv;
    if (a->out_stride == 0) a->out_stride = (int64_t)a->H * a->Dv;
    FOCAL_TRY(check_shape(ctx, a));
    if (a->seq_count < 0 || (a->seq_count > 0 && !a->seqs))
        return foci_fail(ctx, FOCAL_EINVAL, "attn: a list of %d sequences", a->seq_count);
    if (a->seq_count == 0) {
        *single = (focal_attn_seq){.T = a->T, .S = a->S, .keys = a->keys};
        a->seqs = single;
        a->seq_count = 1;
    }
    for (int32_t n = 0; n < a->seq_count; n++) {
        FOCAL_TRY(check_seq(ctx, a, n));
        if (a->seqs[n].keys) FOCAL_TRY(check_keys(ctx, a, &a->seqs[n]));
    }
    if (a->gate) {
        *gate = *a->gate;
        if (gate->lambda == 0.0F) gate->lambda = 10.0F;
        a->gate = gate;
        FOCAL_TRY(check_gate(ctx, a));
    }
    return FOCAL_OK;
}
