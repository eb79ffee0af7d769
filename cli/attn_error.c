/* How far a result is from the reference kernel's, on sampled rows. What a query sees is worked out
 * here from the definition (docs/MATH.md, 3.3), so a wrong key set shows as an error too. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn_error.h"

enum { MIN_ROWS = 8 };

/* The reference's workplace: float32 copies of all keys and values, and room for one call. */
typedef struct bench_reference {
    focal_ctx *ctx;
    float *k, *v;      /* (S,G,D), (S,G,Dv) */
    float *q, *out;    /* (n,H,D), (n,H,Dv): n the rows of one call */
    float *lse, *dout; /* (n,H), (n,H,Dv) */
    float *dq, *dk, *dv;
    float *mine;   /* one row of the result under test */
    int32_t *rows; /* (routers, S) the distant keys of one query */
} bench_reference;

static void close_reference(bench_reference *ref)
{
    void *blocks[] = {ref->k,  ref->v,  ref->q,  ref->out,  ref->lse, ref->dout,
                      ref->dq, ref->dk, ref->dv, ref->mine, ref->rows};
    for (size_t n = 0; n < CLI_COUNT(blocks); n++) free(blocks[n]);
    focal_ctx_close(ref->ctx);
}

static int open_reference(const attn_job *job, bool has_grads, bench_reference *ref)
{
    const attn_setup *setup = &job->setup;
    const int64_t S = setup->S, kD = (int64_t)setup->G * setup->D,
                  vD = (int64_t)setup->G * setup->Dv;
    const int64_t n = has_grads ? setup->T : 1;
    const int64_t width = setup->D > setup->Dv ? setup->D : setup->Dv;
    memset(ref, 0, sizeof *ref);
    const struct {
        float **block;
        int64_t count;
        bool is_grad;
    } parts[] = {
        {&ref->k, S * kD, false},
        {&ref->v, S * vD, false},
        {&ref->q, n * setup->H * setup->D, false},
        {&ref->out, n * setup->H * setup->Dv, false},
        {&ref->lse, n * setup->H, false},
        {&ref->mine, setup->H * width, false},
        {&ref->dout, n * setup->H * setup->Dv, true},
        {&ref->dq, n * setup->H * setup->D, true},
        {&ref->dk, S * kD, true},
        {&ref->dv, S * vD, true},
    };
    for (size_t p = 0; p < CLI_COUNT(parts); p++) {
        if (parts[p].is_grad && !has_grads) continue;
        *parts[p].block = cli_alloc("the reference", (size_t)parts[p].count, sizeof(float));
        if (!*parts[p].block) return CLI_FAILED;
    }
    ref->rows = cli_alloc("the reference", (size_t)S * (size_t)setup->routers, sizeof(int32_t));
    if (!ref->rows) return CLI_FAILED;
    attn_read(attn_kv_dtype(setup), job->tensors->k, 0, S * kD, ref->k);
    attn_read(attn_kv_dtype(setup), job->tensors->v, 0, S * vD, ref->v);
    return cli_open_ctx(focal_ctx_threads(job->ctx), "ref", &ref->ctx);
}

/* Whether the query at position i sees the key at position j <= i by a group of the router. */
static bool shares_group(const attn_job *job, int32_t router, int64_t i, int64_t j)
{
    const attn_setup *setup = &job->setup;
    const int32_t *query = job->groups.query_groups + (i * setup->routers + router) * setup->top;
    const int32_t *key = setup->mode == FOCAL_SHARED
                             ? job->groups.query_groups + (j * setup->routers + router) * setup->top
                             : job->groups.key_groups + j * setup->routers + router;
    const int32_t key_count = setup->mode == FOCAL_SHARED ? setup->top : 1;
    for (int32_t a = 0; a < setup->top; a++)
        for (int32_t b = 0; b < key_count; b++)
            if (query[a] == key[b]) return true;
    return false;
}

bool error_sees(const attn_job *job, int32_t router, int64_t i, int64_t j)
{
    const attn_setup *setup = &job->setup;
    if (j > i) return false;
    if (!setup->has_window || i - j <= setup->window || j < setup->sinks) return true;
    if (setup->K == 0) return false;
    return !attn_has_sets(setup) || shares_group(job, router, i, j); /* the other gates see all */
}

/* The reference call for one query: its distant keys as one group of their own. */
static focal_status run_row(const attn_job *job, bench_reference *ref, int32_t row,
                            bool is_backward)
{
    const attn_setup *setup = &job->setup;
    const int64_t position = (int64_t)setup->S - setup->T + row;
    const int64_t q_width = (int64_t)setup->H * setup->D, out_width = (int64_t)setup->H * setup->Dv;
    int32_t key_end[ATTN_MAX_HEADS] = {0};
    static const int32_t zeros[ATTN_MAX_HEADS] = {0};
    int32_t query_begin[2 * ATTN_MAX_HEADS];
    for (int32_t r = 0; attn_has_sets(setup) && r < setup->routers; r++) {
        for (int64_t j = setup->sinks; j < position - setup->window; j++)
            if (shares_group(job, r, position, j))
                ref->rows[(int64_t)r * setup->S + key_end[r]++] = (int32_t)j;
        query_begin[2 * (size_t)r] = 0;
        query_begin[2 * (size_t)r + 1] = 1;
    }
    const focal_keys keys = {
        .mode = FOCAL_DIRECTED,
        .K = 1,
        .routers = setup->routers,
        .T = 1,
        .S = (int32_t)(position + 1),
        .key_row = ref->rows,
        .key_begin = zeros,
        .key_end = key_end,
        .key_stride = setup->S,
        .query = zeros,
        .query_end = key_end,
        .query_begin = query_begin,
        .query_stride = 1,
    };
    focal_attn_args args = job->args;
    args.dtype = FOCAL_F32;
    args.T = 1;
    args.S = (int32_t)(position + 1);
    args.q = ref->q;
    args.k = ref->k;
    args.v = ref->v;
    args.out = ref->out;
    args.lse = ref->lse;
    args.keys = attn_has_sets(setup) ? &keys : NULL;
    args.gate = NULL; /* straight-through runs the sets alone */
    focal_attn_gate gate = job->gate;
    if (setup->gate && !attn_has_sets(setup)) {
        gate.gq += (int64_t)row * setup->routers * setup->K;
        args.gate = &gate;
    }
    attn_read(setup->dtype, job->tensors->q, row * q_width, q_width, ref->q);
    if (!is_backward) return focal_attn_forward(ref->ctx, &args);
    attn_read(setup->dtype, job->out, row * out_width, out_width, ref->out);
    attn_read(setup->dtype, job->tensors->dout, row * out_width, out_width, ref->dout);
    memcpy(ref->lse, job->lse + (int64_t)row * setup->H, (size_t)setup->H * sizeof(float));
    const focal_attn_grads grads = {.dout = ref->dout, .dq = ref->dq, .dk = ref->dk, .dv = ref->dv};
    return focal_attn_backward(ref->ctx, &args, &grads);
}

/* dk and dv of one key and key head: the queries that see it, against this one key. Their lse and
 * out are those of all their keys, so the reference's weights are too. */
static focal_status run_key(const attn_job *job, bench_reference *ref, int64_t key, int32_t g)
{
    const attn_setup *setup = &job->setup;
    const int32_t heads = setup->H / setup->G;
    const int64_t q_width = (int64_t)heads * setup->D, out_width = (int64_t)heads * setup->Dv;
    int32_t count = 0;
    for (int64_t i = 0; i < setup->T; i++) {
        const int64_t position = (int64_t)setup->S - setup->T + i;
        if (!error_sees(job, setup->routers > 1 ? g : 0, position, key)) continue;
        const int64_t row = i * setup->G + g; /* of (T*G, heads, width) */
        attn_read(setup->dtype, job->tensors->q, row * q_width, q_width, ref->q + count * q_width);
        attn_read(setup->dtype, job->out, row * out_width, out_width, ref->out + count * out_width);
        attn_read(setup->dtype, job->tensors->dout, row * out_width, out_width,
                  ref->dout + count * out_width);
        memcpy(ref->lse + (int64_t)count * heads, job->lse + row * heads,
               (size_t)heads * sizeof(float));
        count++;
    }
    if (count == 0) {
        memset(ref->dk, 0, (size_t)setup->D * sizeof(float));
        memset(ref->dv, 0, (size_t)setup->Dv * sizeof(float));
        return FOCAL_OK;
    }
    const focal_attn_args args = {
        .T = count,
        .S = 1,
        .H = heads,
        .G = 1,
        .D = setup->D,
        .Dv = setup->Dv,
        .q = ref->q,
        .k = ref->k + (key * setup->G + g) * setup->D,
        .v = ref->v + (key * setup->G + g) * setup->Dv,
        .is_bidirectional = true,
        .softcap = setup->softcap,
        .out = ref->out,
        .lse = ref->lse,
    };
    const focal_attn_grads grads = {.dout = ref->dout, .dq = ref->dq, .dk = ref->dk, .dv = ref->dv};
    return focal_attn_backward(ref->ctx, &args, &grads);
}

void error_add_row(row_errors *errors, const float *mine, const float *exact, int64_t count)
{
    double difference = 0.0, largest = 0.0;
    for (int64_t n = 0; n < count; n++) {
        const double d = fabs((double)mine[n] - (double)exact[n]);
        if (!(d <= difference)) difference = d; /* so that NaN stays */
        largest = fmax(largest, fabs((double)exact[n]));
    }
    errors->difference[errors->count] = difference;
    errors->largest[errors->count++] = largest;
}

double error_worst(const row_errors *errors, double floor)
{
    double most = 0.0, error = 0.0;
    for (int32_t n = 0; n < errors->count; n++) most = fmax(most, errors->largest[n]);
    for (int32_t n = 0; n < errors->count; n++) {
        const double scale = fmax(errors->largest[n], floor * most);
        const double e = errors->difference[n] == 0.0 ? 0.0 : errors->difference[n] / scale;
        if (!(e <= error)) error = e;
    }
    return error;
}

int32_t error_sample_count(const attn_setup *setup, int32_t rows)
{
    const double a_row = (double)setup->H * (double)setup->S * (setup->D + setup->Dv);
    const double count = fmin(fmax(1e9 / a_row, MIN_ROWS), ERROR_MAX_ROWS);
    return count < rows ? (int32_t)count : rows;
}

int32_t error_sampled(int32_t n, int32_t count, int32_t rows)
{
    return count == 1 ? rows - 1 : (int32_t)((int64_t)n * (rows - 1) / (count - 1));
}

int attn_error_forward(const attn_job *job, double *error)
{
    const attn_setup *setup = &job->setup;
    const int32_t count = error_sample_count(setup, setup->T);
    bench_reference ref;
    row_errors *errors = calloc(1, sizeof *errors);
    if (!errors) return cli_fail("not enough memory for the errors");
    int code = open_reference(job, false, &ref);
    for (int32_t n = 0; code == CLI_DONE && n < count; n++) {
        const int32_t row = error_sampled(n, count, setup->T);
        cli_progress("checking row %d of %d", n + 1, count);
        const focal_status status = run_row(job, &ref, row, false);
        if (status != FOCAL_OK) code = cli_fail_ctx(ref.ctx, status);
        for (int64_t h = 0; code == CLI_DONE && h < setup->H; h++) {
            attn_read(setup->dtype, job->out, (row * (int64_t)setup->H + h) * setup->Dv, setup->Dv,
                      ref.mine);
            error_add_row(errors, ref.mine, ref.out + h * setup->Dv, setup->Dv);
        }
    }
    if (code == CLI_DONE) *error = error_worst(errors, 0.0);
    cli_progress("%s", "");
    close_reference(&ref);
    free(errors);
    return code;
}

/* Compares one row of a gradient that has `heads` heads of `width`. */
static void compare_heads(const attn_setup *setup, const void *mine, int64_t first, int32_t heads,
                          int32_t width, const float *exact, float *room, row_errors *errors)
{
    for (int64_t h = 0; h < heads; h++) {
        attn_read(setup->dtype, mine, first + h * width, width, room);
        error_add_row(errors, room, exact + h * width, width);
    }
}

int attn_error_backward(const attn_job *job, double *error)
{
    if (job->setup.gate) return gate_error_backward(job, error);
    const attn_setup *setup = &job->setup;
    const int32_t count = error_sample_count(setup, setup->T < setup->S ? setup->T : setup->S);
    bench_reference ref;
    row_errors *errors = calloc(3, sizeof *errors); /* of dq, dk, dv */
    if (!errors) return cli_fail("not enough memory for the errors");
    int code = open_reference(job, true, &ref);
    for (int32_t n = 0; code == CLI_DONE && n < count; n++) {
        cli_progress("checking row %d of %d", n + 1, count);
        const int64_t row = error_sampled(n, count, setup->T);
        focal_status status = run_row(job, &ref, (int32_t)row, true);
        if (status == FOCAL_OK)
            compare_heads(setup, job->grads.dq, row * setup->H * setup->D, setup->H, setup->D,
                          ref.dq, ref.mine, &errors[0]);
        const int64_t key = error_sampled(n, count, setup->S);
        for (int32_t g = 0; status == FOCAL_OK && g < setup->G; g++) {
            status = run_key(job, &ref, key, g);
            if (status != FOCAL_OK) break;
            const int64_t at = key * setup->G + g;
            compare_heads(setup, job->grads.dk, at * setup->D, 1, setup->D, ref.dk, ref.mine,
                          &errors[1]);
            compare_heads(setup, job->grads.dv, at * setup->Dv, 1, setup->Dv, ref.dv, ref.mine,
                          &errors[2]);
        }
        if (status != FOCAL_OK) code = cli_fail_ctx(ref.ctx, status);
    }
    if (code == CLI_DONE) {
        *error = 0.0;
        for (int tensor = 0; tensor < 3; tensor++) {
            const double e = error_worst(&errors[tensor], 0.01);
            if (!(e <= *error)) *error = e;
        }
    }
    cli_progress("%s", "");
    close_reference(&ref);
    free(errors);
    return code;
}
