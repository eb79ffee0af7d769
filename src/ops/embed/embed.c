/* The embedding of tokens: check the ids, then expand a row each. */
#include "ops/embed/embed.h"

#include "base/error.h"
#include "base/pool.h"
#include "ops/expand.h"
#include "ops/interleave.h"

typedef struct embed_call {
    const foci_quant_kernel *expand;
    const foci_embed_table *table;
    size_t row_bytes;
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
    const foci_embed_table *table = c->table;
    float *out = c->out + t * table->C;
    if (table->is_interleaved) {
        const foci_interleaved_part row = {.dtype = table->dtype,
                                           .w = table->rows,
                                           .K = table->C,
                                           .row = c->ids[t],
                                           .count = table->C};
        foci_interleaved_expand(&row, c->expand, FOCAL_F32, out);
    } else {
        const char *row = (const char *)table->rows + (size_t)c->ids[t] * c->row_bytes;
        c->expand->to_f32(table->dtype, row, table->C, out);
    }
    if (c->scale == 1.0F) return;
    for (int64_t n = 0; n < table->C; n++) out[n] *= c->scale;
}

static focal_status check_table(focal_ctx *ctx, const foci_embed_table *table)
{
    const int32_t block = focal_dtype_block(table->dtype);
    if (block == 0)
        return foci_fail(ctx, FOCAL_EINVAL, "embed: the table has the unknown type %d",
                         (int)table->dtype);
    if (table->C % block != 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "embed: rows of %lld elements of %s, not whole blocks of %d",
                         (long long)table->C, focal_dtype_name(table->dtype), block);
    if (table->is_interleaved && !foci_interleave_can(table->dtype, table->V, table->C))
        return foci_fail(ctx, FOCAL_EINVAL, "embed: %lld rows of %s do not interleave",
                         (long long)table->V, focal_dtype_name(table->dtype));
    return FOCAL_OK;
}

focal_status foci_embed(focal_ctx *ctx, const foci_embed_table *table, const int32_t *ids,
                        int64_t T, float scale, float *out)
{
    if (!ctx) return FOCAL_EINVAL;
    if (!table || !table->rows || !ids || !out)
        return foci_fail(ctx, FOCAL_EINVAL, "embed: table, ids and out must be set");
    const int64_t V = table->V, C = table->C;
    if (!is_size(V) || !is_size(C) || !is_size(T))
        return foci_fail(ctx, FOCAL_EINVAL, "embed: V %lld, C %lld and T %lld must be 1 to %d",
                         (long long)V, (long long)C, (long long)T, INT32_MAX);
    FOCAL_TRY(check_table(ctx, table));
    FOCAL_TRY(check_ids(ctx, ids, T, V));
    embed_call call = {.expand = foci_quant_pick(ctx), .table = table, .ids = ids, .scale = scale};
    call.row_bytes =
        (size_t)(C / focal_dtype_block(table->dtype)) * focal_dtype_block_bytes(table->dtype);
    call.out = out;
    if (!call.expand)
        return foci_fail(ctx, FOCAL_EUNSUPPORTED, "embed: this machine lacks the pinned kernel %s",
                         focal_ctx_kernel(ctx));
    foci_parallel(ctx, T, embed_row, &call);
    return FOCAL_OK;
}
