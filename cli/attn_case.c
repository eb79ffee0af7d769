/* One attention problem made from a seed, and the ways to run it. */
#include "attn_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "focal/quant.h"
#include "focal/route.h"

/* splitmix64: the program's inputs need not come from the library they test. */
uint64_t attn_random(uint64_t *state)
{
    uint64_t x = *state += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
}

int32_t attn_random_below(uint64_t *state, int32_t bound)
{
    return (int32_t)(((attn_random(state) >> 32) * (uint64_t)bound) >> 32);
}

void attn_random_distinct(uint64_t *state, int32_t K, int32_t count, int32_t *groups)
{
    uint64_t taken = 0;
    for (int32_t n = 0; n < count; n++) {
        int32_t c = attn_random_below(state, K - n); /* the c-th of those that are left */
        int32_t group = 0;
        for (;; group++) {
            if (taken >> group & 1U) continue;
            if (c-- == 0) break;
        }
        taken |= (uint64_t)1 << group;
        groups[n] = group;
    }
}

/* Four uniform numbers of 16 bits, summed: near enough to normal, and four times as fast. */
static float random_normal(uint64_t *state)
{
    const uint64_t x = attn_random(state);
    const int64_t sum =
        (int64_t)((x & 0xFFFF) + (x >> 16 & 0xFFFF) + (x >> 32 & 0xFFFF) + (x >> 48));
    return (float)(sum - 131070) * (1.7320508F / 65536.0F);
}

/* Blocks of 32 with a scale of 2^-5, the float16 0x2800: levels of what is mostly below 4. */
static void fill_blocks(uint8_t *to, int64_t count, float deviation, uint64_t seed)
{
    uint64_t state = seed;
    for (int64_t n = 0; n < count; n++) {
        if (n % 32 == 0) {
            *to++ = 0;
            *to++ = 0x28;
        }
        const float level = roundf(32.0F * deviation * random_normal(&state));
        *to++ = (uint8_t)(int8_t)fmaxf(fminf(level, 127.0F), -127.0F);
    }
}

void attn_fill_normal(focal_dtype dtype, void *to, int64_t count, float deviation, uint64_t seed)
{
    uint64_t state = seed;
    if (dtype == FOCAL_Q8_0) {
        fill_blocks(to, count, deviation, seed);
        return;
    }
    for (int64_t n = 0; n < count; n++) {
        const float value = deviation * random_normal(&state);
        if (dtype == FOCAL_F32)
            ((float *)to)[n] = value;
        else
            ((uint16_t *)to)[n] = focal_bf16_from_float(value);
    }
}

void attn_read(focal_dtype dtype, const void *from, int64_t first, int64_t count, float *to)
{
    if (dtype == FOCAL_F32) {
        memcpy(to, (const float *)from + first, (size_t)count * sizeof *to);
        return;
    }
    if (dtype == FOCAL_Q8_0) { /* whole blocks, so it cannot fail */
        (void)focal_dequantize(dtype, (const char *)from + first / 32 * 34, count, to);
        return;
    }
    for (int64_t n = 0; n < count; n++)
        to[n] = focal_bf16_to_float(((const uint16_t *)from)[first + n]);
}

focal_dtype attn_kv_dtype(const attn_setup *setup)
{
    return setup->has_q8_keys ? FOCAL_Q8_0 : setup->dtype;
}

int64_t attn_kv_bytes(const attn_setup *setup, int64_t count)
{
    const focal_dtype dtype = attn_kv_dtype(setup);
    return count / focal_dtype_block(dtype) * (int64_t)focal_dtype_block_bytes(dtype);
}

bool attn_has_sets(const attn_setup *setup)
{
    return setup->K > 0 && (setup->gate == 0 || setup->gate == FOCAL_GATE_STRAIGHT);
}

double attn_case_bytes(const attn_setup *setup, bool has_grads)
{
    const double q = (double)setup->T * setup->H * setup->D;
    const double out = (double)setup->T * setup->H * setup->Dv;
    const double kv = (double)setup->S * setup->G * (setup->D + setup->Dv);
    const double kv_share = (double)attn_kv_bytes(setup, 32) / 32.0;
    const double bytes = (double)focal_dtype_bytes(setup->dtype);
    const double groups = 4.0 * setup->S * setup->routers * (setup->top + 1);
    const double gate =
        setup->gate ? 8.0 * ((double)setup->T + setup->S) * setup->routers * setup->K : 0.0;
    /* the reference's float32 copies: of keys and values, and for gradients of the rest */
    const double reference = 4.0 * (has_grads ? 2.0 * (q + out + kv) : kv);
    return (has_grads ? 2.0 : 1.0) * (bytes * (q + out) + kv_share * kv) + reference + gate +
           4.0 * (double)setup->T * setup->H + (setup->K > 0 ? 4.0 * groups : 0.0);
}

int attn_tensors_make(const attn_setup *setup, bool has_grads, attn_tensors *tensors)
{
    const int64_t q = (int64_t)setup->T * setup->H * setup->D;
    const int64_t out = (int64_t)setup->T * setup->H * setup->Dv;
    const int64_t k = (int64_t)setup->S * setup->G * setup->D;
    const int64_t v = (int64_t)setup->S * setup->G * setup->Dv;
    const struct {
        void **tensor;
        const char *name;
        int64_t count;
        float deviation; /* 0: left as it is, an output */
        focal_dtype dtype;
    } parts[] = {
        {&tensors->q, "q", q, 1.0F / sqrtf((float)setup->D), setup->dtype},
        {&tensors->k, "k", k, 1.0F, attn_kv_dtype(setup)},
        {&tensors->v, "v", v, 1.0F, attn_kv_dtype(setup)},
        {&tensors->dout, "dout", out, 1.0F, setup->dtype},
        {&tensors->dq, "dq", q, 0.0F, setup->dtype},
        {&tensors->dk, "dk", k, 0.0F, setup->dtype},
        {&tensors->dv, "dv", v, 0.0F, setup->dtype},
    };
    memset(tensors, 0, sizeof *tensors);
    for (size_t n = 0; n < (has_grads ? CLI_COUNT(parts) : 3); n++) {
        const focal_dtype dtype = parts[n].dtype;
        const size_t blocks = (size_t)(parts[n].count / focal_dtype_block(dtype));
        *parts[n].tensor = cli_alloc(parts[n].name, blocks, focal_dtype_block_bytes(dtype));
        if (!*parts[n].tensor) return CLI_FAILED;
        if (parts[n].deviation > 0.0F)
            attn_fill_normal(dtype, *parts[n].tensor, parts[n].count, parts[n].deviation,
                             setup->seed + n);
        else
            memset(*parts[n].tensor, 0, blocks * focal_dtype_block_bytes(dtype));
    }
    return CLI_DONE;
}

void attn_tensors_free(attn_tensors *tensors)
{
    void *blocks[] = {tensors->q,  tensors->k,  tensors->v, tensors->dout,
                      tensors->dq, tensors->dk, tensors->dv};
    for (size_t n = 0; n < CLI_COUNT(blocks); n++) free(blocks[n]);
    memset(tensors, 0, sizeof *tensors);
}

void attn_random_groups(const attn_setup *setup, attn_groups *groups)
{
    uint64_t state = setup->seed ^ 0x67726F757073U;
    const int64_t rows = (int64_t)setup->S * setup->routers;
    for (int64_t n = 0; n < rows; n++) {
        attn_random_distinct(&state, setup->K, setup->top, groups->query_groups + n * setup->top);
        int32_t c = attn_random_below(&state, setup->K);
        if (setup->largest_group > 0.0 && setup->K > 1) {
            const double u = (double)(attn_random(&state) >> 11) * 0x1p-53;
            c = u < setup->largest_group ? 0 : 1 + attn_random_below(&state, setup->K - 1);
        }
        groups->key_groups[n] = c;
    }
}

static int make_groups(attn_job *job, const attn_groups *given)
{
    const attn_setup *setup = &job->setup;
    attn_groups *groups = &job->groups;
    const size_t rows = (size_t)setup->S * (size_t)setup->routers;
    groups->query_groups =
        cli_alloc("the queries' groups", rows * (size_t)setup->top, sizeof(int32_t));
    groups->key_groups = cli_alloc("the keys' groups", rows, sizeof(int32_t));
    if (!groups->query_groups || !groups->key_groups) return CLI_FAILED;
    if (given) {
        memcpy(groups->query_groups, given->query_groups,
               rows * (size_t)setup->top * sizeof(int32_t));
        memcpy(groups->key_groups, given->key_groups, rows * sizeof(int32_t));
    } else {
        attn_random_groups(setup, groups);
    }
    const focal_keyset_options options = {
        .mode = setup->mode,
        .K = setup->K,
        .top = setup->top,
        .routers = setup->routers,
        .window = setup->window,
        .sinks = setup->sinks,
    };
    focal_status status = focal_keyset_new(job->ctx, &options, &groups->set);
    if (status == FOCAL_OK && setup->S > setup->T)
        status = focal_keyset_append(groups->set, setup->S - setup->T, groups->query_groups,
                                     groups->key_groups);
    return status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(job->ctx, status);
}

/* Random memberships: softmax of normal scores, so a token has a few groups that matter. */
static int make_gate(attn_job *job)
{
    const attn_setup *setup = &job->setup;
    const int64_t q_rows = (int64_t)setup->T * setup->routers;
    const int64_t k_rows = (int64_t)setup->S * setup->routers;
    const struct {
        float **array;
        int64_t rows;
        uint64_t seed; /* 0: an output */
    } parts[] = {{&job->gq, q_rows, setup->seed + 101},
                 {&job->gk, k_rows, setup->seed + 102},
                 {&job->dgq, q_rows, 0},
                 {&job->dgk, k_rows, 0}};
    for (size_t n = 0; n < CLI_COUNT(parts); n++) {
        const int64_t count = parts[n].rows * setup->K;
        float *array = cli_alloc("the memberships", (size_t)count, sizeof(float));
        *parts[n].array = array;
        if (!array) return CLI_FAILED;
        memset(array, 0, (size_t)count * sizeof *array);
        if (parts[n].seed == 0) continue;
        attn_fill_normal(FOCAL_F32, array, count, 2.0F, parts[n].seed);
        const focal_status status =
            focal_route_soften(job->ctx, parts[n].rows, setup->K, array, array);
        if (status != FOCAL_OK) return cli_fail_ctx(job->ctx, status);
    }
    job->gate = (focal_attn_gate){.kind = setup->gate,
                                  .K = setup->K,
                                  .routers = setup->routers,
                                  .gq = job->gq,
                                  .gk = job->gk};
    job->args.gate = &job->gate;
    job->grads.dgq = job->dgq;
    job->grads.dgk = job->dgk;
    return CLI_DONE;
}

int attn_job_make(focal_ctx *ctx, const attn_setup *setup, const attn_tensors *tensors,
                  const attn_groups *given, attn_job *job)
{
    memset(job, 0, sizeof *job);
    job->ctx = ctx;
    job->setup = *setup;
    job->tensors = tensors;
    const size_t rows = (size_t)setup->T * (size_t)setup->H;
    job->out = cli_alloc("out", rows * (size_t)setup->Dv, focal_dtype_bytes(setup->dtype));
    job->lse = cli_alloc("lse", rows, sizeof(float));
    if (!job->out || !job->lse) return CLI_FAILED;
    memset(job->out, 0, rows * (size_t)setup->Dv * focal_dtype_bytes(setup->dtype));
    memset(job->lse, 0, rows * sizeof(float));
    job->args = (focal_attn_args){
        .T = setup->T,
        .S = setup->S,
        .H = setup->H,
        .G = setup->G,
        .D = setup->D,
        .Dv = setup->Dv,
        .dtype = setup->dtype,
        .has_q8_keys = setup->has_q8_keys,
        .q = tensors->q,
        .k = tensors->k,
        .v = tensors->v,
        .has_window = setup->has_window,
        .window = setup->window,
        .sinks = setup->sinks,
        .softcap = setup->softcap,
        .out = job->out,
        .lse = job->lse,
    };
    job->grads = (focal_attn_grads){
        .dout = tensors->dout, .dq = tensors->dq, .dk = tensors->dk, .dv = tensors->dv};
    int code = CLI_DONE;
    if (attn_has_sets(setup)) code = make_groups(job, given);
    if (code == CLI_DONE && setup->gate) code = make_gate(job);
    return code;
}

void attn_job_free(attn_job *job)
{
    focal_keyset_free(job->groups.set);
    free(job->groups.query_groups);
    free(job->groups.key_groups);
    free(job->out);
    free(job->lse);
    free(job->gq);
    free(job->gk);
    free(job->dgq);
    free(job->dgk);
    memset(job, 0, sizeof *job);
}

bool attn_step_forward(void *arg)
{
    attn_job *job = arg;
    const attn_setup *setup = &job->setup;
    focal_status status = FOCAL_OK;
    if (job->groups.set) {
        const int64_t before = (int64_t)(setup->S - setup->T) * setup->routers;
        status = focal_keyset_truncate(job->groups.set, setup->S - setup->T);
        if (status == FOCAL_OK)
            status = focal_keyset_append(job->groups.set, setup->T,
                                         job->groups.query_groups + before * setup->top,
                                         job->groups.key_groups + before);
        if (status == FOCAL_OK) job->keys = focal_keyset_view(job->groups.set);
        job->args.keys = &job->keys;
    }
    if (status == FOCAL_OK) status = focal_attn_forward(job->ctx, &job->args);
    if (status != FOCAL_OK) (void)cli_fail_ctx(job->ctx, status);
    return status == FOCAL_OK;
}

bool attn_step_backward(void *arg)
{
    attn_job *job = arg;
    const focal_status status = focal_attn_backward(job->ctx, &job->args, &job->grads);
    if (status != FOCAL_OK) (void)cli_fail_ctx(job->ctx, status);
    return status == FOCAL_OK;
}

int attn_pairs(attn_job *job, int64_t *pairs)
{
    const focal_status status = focal_attn_pairs(job->ctx, &job->args, pairs);
    return status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(job->ctx, status);
}

double attn_flops(const attn_setup *setup, int64_t pairs, bool is_backward)
{
    /* s and o forward; s, dp, dv, dq and dk backward: two operations an element each */
    const double a_pair =
        is_backward ? 6.0 * setup->D + 4.0 * setup->Dv : 2.0 * (setup->D + setup->Dv);
    return a_pair * (double)pairs;
}
