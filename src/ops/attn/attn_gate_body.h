/* The training gates on tiles of scores, written once for every instruction set (docs/MATH.md,
 * 3.5). The overlap m = gq.gk of a tile is one more product of packed rows; it exists for as long
 * as the tile does. Memberships are floats whatever the data are, so gates need words of one float
 * (PACK 1): callers test that first. Tiles come here through memory, which keeps the registers of
 * calls without a gate as they were. */
#ifndef FOCI_OPS_ATTN_ATTN_GATE_BODY_H
#define FOCI_OPS_ATTN_ATTN_GATE_BODY_H

#include "focal/attn.h"
#include "ops/attn/attn_tile.h"
#include "ops/attn/attn_view.h"

static const float least_overlap = 1e-6F; /* the floor of (3.5.3) */

/* What query rows bring to a gate. */
typedef struct gate_rows {
    float *gq;        /* (rows, K) memberships of the row's token */
    int32_t *lo, *hi; /* (rows) its distant positions [lo, hi); both ends do not descend */
} gate_rows;

static inline const float *gate_query(const focal_attn_gate *gate, int64_t q_row, int32_t g)
{
    return gate->gq + (q_row * gate->routers + foci_router_of(gate->routers, g)) * gate->K;
}

static inline const float *gate_key(const focal_attn_gate *gate, int64_t k_row, int32_t g)
{
    return gate->gk + (k_row * gate->routers + foci_router_of(gate->routers, g)) * gate->K;
}

/* The gate of a forward, or NULL where it changes nothing: straight-through runs the hard sets. */
static inline const focal_attn_gate *forward_gate(const focal_attn_args *a)
{
    return a->gate && a->gate->kind != FOCAL_GATE_STRAIGHT ? a->gate : NULL;
}

/* e^(-lambda m), bounded so that 1 / (1 + e) and e / (1 + e) stay what they should be. */
FOCI_INLINE vec gate_power(const focal_attn_gate *gate, vec m)
{
    return v_exp(v_min(v_set1(80.0F), v_mul(m, v_set1(-gate->lambda))));
}

/* s' of (3.5.2), (3.5.3) and (3.6.1). */
FOCI_INLINE vec gated_logit(const focal_attn_gate *gate, vec s, vec m)
{
    if (gate->kind == FOCAL_GATE_PAPER) return v_div(s, v_add(v_set1(1.0F), gate_power(gate, m)));
    if (gate->kind == FOCAL_GATE_SCALE) return v_mul(s, m);
    return v_add(s, v_log(v_max(v_set1(least_overlap), m)));
}

/* The derivatives of s' by s and by m. */
FOCI_INLINE void gate_slopes(const focal_attn_gate *gate, vec s, vec m, vec *by_s, vec *by_m)
{
    const vec one = v_set1(1.0F);
    *by_s = one;
    if (gate->kind == FOCAL_GATE_PAPER) {
        const vec power = gate_power(gate, m);
        *by_s = v_div(one, v_add(one, power));
        /* 1 - sigmoid as power sigmoid: the difference would lose all digits of an open gate */
        const vec spread = v_mul(v_mul(power, *by_s), *by_s);
        *by_m = v_mul(v_mul(s, v_set1(gate->lambda)), spread);
        return;
    }
    if (gate->kind == FOCAL_GATE_SCALE) {
        *by_s = m;
        *by_m = s;
        return;
    }
    *by_m = v_select(v_greater(m, v_set1(least_overlap)), v_div(one, m), v_zero());
}

/* Memberships of the keys [from, to), which stand at `begin` and after in a panel, transposed. */
static void gate_pack_keys(const focal_attn_gate *gate, const focal_attn_seq *seq, int32_t g,
                           int64_t begin, int64_t from, int64_t to, float *panel)
{
    const char *row[NR] = {0};
    for (int64_t j = from; j < to; j++)
        row[j - begin] = (const char *)gate_key(gate, seq->k_row + j, g);
    pack_transposed(panel, row, FOCAL_F32, gate->K);
}

/* True when a row of the strip that begins at row `first` is distant to a key of the panel. */
static inline bool gate_is_met(const gate_rows *rows, int64_t first, int32_t key)
{
    return rows->hi[first + MR - 1] > key && rows->lo[first] < key + NR;
}

/* Gates the scores s (MR, NR) of a strip of queries, from row `first` on, and of the panel of keys
 * that begins at position `key`; gk is that panel's memberships (K, NR). */
static __attribute__((noinline, unused)) void gate_scores(const focal_attn_gate *gate,
                                                          const gate_rows *rows, int64_t first,
                                                          int32_t key, const float *gk, float *s)
{
    vec m[MR][2];
    for (int r = 0; r < MR; r++) m[r][0] = m[r][1] = v_zero();
    tile_dot(m, rows->gq + first * gate->K, gate->K, gk, gate->K, 2);
    for (int r = 0; r < MR; r++) {
        const uint32_t bits = interval_bits(key, rows->lo[first + r], rows->hi[first + r]);
        if (bits == 0) continue;
        for (int n = 0; n < 2; n++) {
            float *at = s + (int64_t)r * NR + (int64_t)n * VL;
            const vec x = v_load(at);
            v_store(at, v_select(bits >> n * VL, gated_logit(gate, x, m[r][n]), x));
        }
    }
}

#endif /* FOCI_OPS_ATTN_ATTN_GATE_BODY_H */
