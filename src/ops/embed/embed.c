/* The embedding of tokens: check the ids, then expand a row each. */
#include "ops/embed/embed.h"

#include "base/error.h"
#include "base/pool.h"
#include "ops/expand.h"

typedef struct embed_call {
    const foci_quant_kernel *expand;
    const char *table;
    focal_dtype dtype;
    size_t row_bytes;
    int64_t C;
    const int32_t *ids;
    float scale;
    float *out;
} embed_call;

static bool is_size(int64_t n)
{
    return n >= 1 && n <= INT32_MAX;
}

static focal_status check_ids(focal_ctx *ctx, const int32_t *ids, int64_t T, int64_t V)
{
    for (int64_t t = 0; t < T; t++)
        if (ids[t] < 0 || ids[t] >= V)
            return foci_fail(ctx, FOCAL_EINVAL,
                             "embed: token %lld has the id %d, the table %lld rows", (long long)t,
                             ids[t], (long long)V);
    return FOCAL_OK;
}

static void embed_row(void *arg, int64_t t, int32_t thread)
{
    (void)thread;
    const embed_call *c = arg;
    float *out = c->out + t * c->C;
    c->expand->to_f32(c->dtype, c->table + (size_t)c->ids[t] * c->row_bytes, c->C, out);
    if (c->scale == 1.0F) return;
    for (int64_t n = 0; n < c->C; n++) out[n] *= c->scale;
}

focal_status foci_embed(focal_ctx *ctx, const void *table, focal_dtype dtype, int64_t V, int64_t C,
                        const int32_t *ids, int64_t T, float scale, float *out)
{
    if (!ctx) return FOCAL_EINVAL;
    if (!table || !ids || !out)
        return foci_fail(ctx, FOCAL_EINVAL, "embed: table, ids and out must be set");
    if (!is_size(V) || !is_size(C) || !is_size(T))
        return foci_fail(ctx, FOCAL_EINVAL, "embed: V %lld, C %lld and T %lld must be 1 to %d",
                         (long long)V, (long long)C, (long long)T, INT32_MAX);
    const int32_t block = focal_dtype_block(dtype);
    if (block == 0)
        return foci_fail(ctx, FOCAL_EINVAL, "embed: the table has the unknown type %d", (int)dtype);
    if (C % block != 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "embed: rows of %lld elements of %s, not whole blocks of %d", (long long)C,
                         focal_dtype_name(dtype), block);
    FOCAL_TRY(check_ids(ctx, ids, T, V));
    embed_call call = {.expand = foci_quant_pick(ctx),
                       .table = table,
                       .dtype = dtype,
                       .row_bytes = (size_t)(C / block) * focal_dtype_block_bytes(dtype),
                       .C = C,
                       .ids = ids,
                       .scale = scale};
    call.out = out;
    if (!call.expand)
        return foci_fail(ctx, FOCAL_EUNSUPPORTED, "embed: this machine lacks the pinned kernel %s",
                         focal_ctx_kernel(ctx));
    foci_parallel(ctx, T, embed_row, &call);
    return FOCAL_OK;
}
