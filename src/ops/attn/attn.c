/* Attention: check the call, then run the first kernel that can take it. */
#include "focal/attn.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "ops/attn/attn_kernels.h"
#include "ops/attn/attn_view.h"

const foci_attn_kernel foci_attn_kernels[] = {
    {"amx", foci_attn_amx_can, foci_attn_amx_forward, foci_attn_amx_backward},
    {"avx512bf16", foci_attn_avx512bf16_can, foci_attn_avx512bf16_forward,
     foci_attn_avx512bf16_backward},
    {"avx512", foci_attn_avx512_can, foci_attn_avx512_forward, foci_attn_avx512_backward},
    {"avx2", foci_attn_avx2_can, foci_attn_avx2_forward, foci_attn_avx2_backward},
    {"ref", foci_attn_ref_can, foci_attn_ref_forward, foci_attn_ref_backward},
};
const size_t foci_attn_kernel_count = FOCAL_COUNT(foci_attn_kernels);

const foci_attn_kernel *foci_attn_pick(const focal_ctx *ctx, const focal_attn_args *normal)
{
    for (size_t n = 0; n < foci_attn_kernel_count; n++) {
        const foci_attn_kernel *kernel = &foci_attn_kernels[n];
        if (foci_ctx_allows(ctx, kernel->name) && kernel->can(ctx, normal)) return kernel;
    }
    return NULL;
}

static focal_status fail_pinned(focal_ctx *ctx)
{
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "attn: the pinned kernel %s cannot take this call",
                     focal_ctx_kernel(ctx));
}

focal_status focal_attn_forward(focal_ctx *ctx, const focal_attn_args *args)
{
    if (!ctx) return FOCAL_EINVAL;
    focal_attn_args normal;
    focal_attn_seq single;
    focal_attn_gate gate;
    FOCAL_TRY(foci_attn_normalise(ctx, args, &normal, &single, &gate));
    const foci_attn_kernel *kernel = foci_attn_pick(ctx, &normal);
    return kernel ? kernel->forward(ctx, &normal) : fail_pinned(ctx);
}

static focal_status check_grads(focal_ctx *ctx, const focal_attn_args *a, const focal_attn_grads *g)
{
    if (!g || !g->dout || !g->dq || !g->dk || !g->dv)
        return foci_fail(ctx, FOCAL_EINVAL, "attn: dout, dq, dk and dv must be set");
    if (!a->lse) return foci_fail(ctx, FOCAL_EINVAL, "attn: backward needs the lse of forward");
    if (a->has_q8_keys)
        return foci_fail(ctx, FOCAL_EUNSUPPORTED, "attn: backward takes no keys in q8_0");
    if (a->gate && (!g->dgq || !g->dgk))
        return foci_fail(ctx, FOCAL_EINVAL, "attn: with a gate dgq and dgk must be set");
    int64_t free_row = 0;
    for (int32_t n = 0; n < a->seq_count; n++) {
        const focal_attn_seq *seq = &a->seqs[n];
        if (seq->k_pages || seq->q_head > 0 || (seq->keys && seq->keys->position_row))
            return foci_fail(ctx, FOCAL_EUNSUPPORTED,
                             "attn: backward needs keys as one block in position order");
        if (seq->k_row < free_row)
            return foci_fail(ctx, FOCAL_EINVAL,
                             "attn: the keys of sequence %d overlap those of the one before", n);
        free_row = seq->k_row + seq->S;
    }
    return FOCAL_OK;
}

focal_status focal_attn_backward(focal_ctx *ctx, const focal_attn_args *args,
                                 const focal_attn_grads *grads)
{
    if (!ctx) return FOCAL_EINVAL;
    focal_attn_args normal;
    focal_attn_seq single;
    focal_attn_gate gate;
    FOCAL_TRY(foci_attn_normalise(ctx, args, &normal, &single, &gate));
    FOCAL_TRY(check_grads(ctx, &normal, grads));
    const foci_attn_kernel *kernel = foci_attn_pick(ctx, &normal);
    return kernel ? kernel->backward(ctx, &normal, grads) : fail_pinned(ctx);
}

/* One choice serves both directions, so that both see the same roundings. */
const char *focal_attn_kernel_name(focal_ctx *ctx, const focal_attn_args *args)
{
    if (!ctx) return NULL;
    focal_attn_args normal;
    focal_attn_seq single;
    focal_attn_gate gate;
    if (foci_attn_normalise(ctx, args, &normal, &single, &gate) != FOCAL_OK) return NULL;
    const foci_attn_kernel *kernel = foci_attn_pick(ctx, &normal);
    return kernel ? kernel->name : NULL;
}

const char *focal_attn_kernel_at(focal_ctx *ctx, int32_t index, bool *is_usable)
{
    if (index < 0 || (size_t)index >= foci_attn_kernel_count) return NULL;
    /* A kernel is usable when it takes the plainest call of one of the types. */
    if (is_usable) {
        *is_usable = false;
        for (int dtype = FOCAL_F32; ctx && dtype <= FOCAL_BF16; dtype++) {
            static const float one[64];
            static float result[64];
            const focal_attn_args args = {.T = 1,
                                          .S = 1,
                                          .H = 1,
                                          .G = 1,
                                          .D = 64,
                                          .dtype = (focal_dtype)dtype,
                                          .q = one,
                                          .k = one,
                                          .v = one,
                                          .out = result};
            focal_attn_args normal;
            focal_attn_seq single;
            focal_attn_gate gate;
            if (foci_attn_normalise(ctx, &args, &normal, &single, &gate) == FOCAL_OK)
                *is_usable |= foci_attn_kernels[index].can(ctx, &normal);
        }
    }
    return foci_attn_kernels[index].name;
}

/* Pairs of one query head that the router serves. */
static int64_t head_pairs(const focal_attn_args *a, const focal_attn_seq *seq, int32_t router)
{
    int64_t pairs = 0;
    const bool is_gated = a->gate && a->gate->kind != FOCAL_GATE_STRAIGHT;
    for (int32_t i = 0; i < seq->T; i++) {
        const foci_local local = foci_attn_local(a, seq, i);
        pairs += is_gated ? local.hi : local.hi - local.lo + local.sink_hi;
    }
    const focal_keys *keys = seq->keys;
    for (int32_t c = 0; keys && c < keys->K; c++) {
        const int32_t *from = keys->query_begin + (int64_t)router * (keys->K + 1) + c;
        for (int32_t n = from[0]; n < from[1]; n++) {
            const int64_t at = router * keys->query_stride + n;
            const int32_t end = keys->query_end[at];
            if (keys->mode == FOCAL_DIRECTED) {
                pairs += end;
                continue;
            }
            const uint64_t mask = keys->query_mask[(int64_t)router * keys->T + keys->query[at]];
            const int32_t *row = keys->key_row + router * keys->key_stride +
                                 keys->key_begin[(int64_t)router * keys->K + c];
            const uint64_t *key_mask = keys->key_mask + router * keys->key_mask_stride;
            for (int32_t m = 0; m < end; m++) pairs += foci_meets_in(mask, key_mask[row[m]], c);
        }
    }
    return pairs;
}

focal_status focal_attn_pairs(focal_ctx *ctx, const focal_attn_args *args, int64_t *pairs)
{
    if (!ctx || !pairs) return foci_fail(ctx, FOCAL_EINVAL, "attn: no place for the pairs");
    focal_attn_args normal;
    focal_attn_seq single;
    focal_attn_gate gate;
    FOCAL_TRY(foci_attn_normalise(ctx, args, &normal, &single, &gate));
    *pairs = 0;
    for (int32_t n = 0; n < normal.seq_count; n++) {
        const focal_attn_seq *seq = &normal.seqs[n];
        const int32_t routers = seq->keys ? seq->keys->routers : 1;
        int64_t part;
        for (int32_t r = 0; r < routers; r++)
            if (__builtin_mul_overflow(head_pairs(&normal, seq, r), normal.H / routers, &part) ||
                __builtin_add_overflow(*pairs, part, pairs))
                return foci_fail(ctx, FOCAL_EINVAL, "attn: the pairs are too many to count");
    }
    return FOCAL_OK;
}
