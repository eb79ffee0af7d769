/* Decoding from memory: caches that take turns, and the sets of a cache kept by group. */
#include "decode_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "focal/bench.h"

static const int64_t rotate_bytes = 512LL * 1000 * 1000; /* buffers in all, at least */
static const int64_t turn_bytes = 128LL * 1000 * 1000;   /* read before a copy comes again */
static const int64_t probe_bytes = 64LL * 1024 * 1024;

int decode_caches_make(focal_ctx *ctx, const attn_setup *setup, double share, decode_caches *caches)
{
    memset(caches, 0, sizeof *caches);
    caches->ctx = ctx;
    const int64_t k = (int64_t)setup->S * setup->G * setup->D;
    const int64_t v = (int64_t)setup->S * setup->G * setup->Dv;
    caches->k_bytes = (attn_kv_bytes(setup, k) + 63) / 64 * 64;
    caches->v_bytes = (attn_kv_bytes(setup, v) + 63) / 64 * 64;
    const int64_t copy = caches->k_bytes + caches->v_bytes;
    const double turns = (double)turn_bytes / (share * (double)copy);
    caches->copy_count = rotate_bytes / copy + 1;
    if (turns > (double)caches->copy_count)
        caches->copy_count = (int64_t)fmin(turns, 8.0 * (double)caches->copy_count) + 1;
    if (!cli_fits_memory((double)copy * (double)caches->copy_count)) return CLI_FAILED;
    caches->block = cli_alloc("the caches", (size_t)copy, (size_t)caches->copy_count);
    if (!caches->block) return CLI_FAILED;
    memset(caches->block, 0, (size_t)copy);
    const focal_dtype dtype = attn_kv_dtype(setup);
    attn_fill_normal(dtype, caches->block, k, 1.0F, setup->seed + 1);
    attn_fill_normal(dtype, caches->block + caches->k_bytes, v, 1.0F, setup->seed + 2);
    for (int64_t n = 1; n < caches->copy_count; n++)
        memcpy(caches->block + n * copy, caches->block, (size_t)copy);
    return CLI_DONE;
}

void decode_caches_free(decode_caches *caches)
{
    free(caches->block);
    memset(caches, 0, sizeof *caches);
}

bool decode_read_probe(void *arg, double *gb_per_s)
{
    decode_caches *caches = arg;
    const int64_t total = (caches->k_bytes + caches->v_bytes) * caches->copy_count;
    if (caches->read_at + probe_bytes > total) caches->read_at = 0;
    const focal_status status = focal_bench_read(caches->ctx, caches->block + caches->read_at,
                                                 (size_t)probe_bytes, gb_per_s);
    caches->read_at += probe_bytes;
    if (status != FOCAL_OK) (void)cli_fail_ctx(caches->ctx, status);
    return status == FOCAL_OK;
}

/* Lays the positions of a router out in rows: sinks, the distant keys group by group in position
 * order, the window. groups: (S) each key's, or to be drawn. */
static void lay_out(decode_job *job, int32_t router, const int32_t *groups)
{
    const attn_setup *setup = &job->setup;
    int32_t *begin = job->key_begin + (int64_t)router * setup->K;
    int32_t *end = job->key_end + (int64_t)router * setup->K;
    int32_t *position_row = job->position_row + (int64_t)router * setup->S;
    const int32_t sinks = setup->sinks < setup->S ? setup->sinks : setup->S;
    const int32_t near = setup->S - 1 - setup->window; /* the first position of the window */
    int32_t row = sinks;
    for (int32_t j = 0; j < sinks; j++) position_row[j] = j;
    for (int32_t c = 0; c < setup->K; c++) {
        begin[c] = row;
        for (int32_t j = sinks; j < near; j++)
            if (groups[j] == c) position_row[j] = row++;
        end[c] = row;
    }
    for (int32_t j = near > sinks ? near : sinks; j < setup->S; j++) position_row[j] = row++;
}

static int compare_ints(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int make_sets(decode_job *job)
{
    const attn_setup *setup = &job->setup;
    const size_t S = (size_t)setup->S, routers = (size_t)setup->routers, K = (size_t)setup->K;
    const size_t top = (size_t)setup->top;
    const struct {
        int32_t **list;
        size_t count;
    } lists[] = {
        {&job->key_row, routers * S},
        {&job->key_begin, routers * K},
        {&job->key_end, routers * K},
        {&job->position_row, routers * S},
        {&job->step_groups, DECODE_STEPS * routers * top},
        {&job->query, routers * top},
        {&job->query_end, routers * top},
        {&job->query_begin, routers * (K + 1)},
    };
    for (size_t n = 0; n < CLI_COUNT(lists); n++) {
        *lists[n].list = cli_alloc("the key sets", lists[n].count, sizeof(int32_t));
        if (!*lists[n].list) return CLI_FAILED;
        memset(*lists[n].list, 0, lists[n].count * sizeof(int32_t));
    }
    int32_t *groups = cli_alloc("the keys' groups", S, sizeof(int32_t));
    if (!groups) return CLI_FAILED;
    uint64_t state = setup->seed ^ 0x6465636F6465U;
    for (int32_t r = 0; r < setup->routers; r++) {
        for (size_t j = 0; j < S; j++) groups[j] = attn_random_below(&state, setup->K);
        lay_out(job, r, groups);
    }
    free(groups);
    for (size_t n = 0; n < routers * S; n++) job->key_row[n] = (int32_t)(n % S);
    for (size_t n = 0; n < DECODE_STEPS * routers; n++) {
        attn_random_distinct(&state, setup->K, setup->top, job->step_groups + n * top);
        qsort(job->step_groups + n * top, top, sizeof(int32_t), compare_ints);
    }
    return CLI_DONE;
}

/* The sets of one sequence: of all routers, or of one that has a cache of its own. */
static focal_keys keys_of(const decode_job *job, int32_t router, int32_t routers)
{
    const attn_setup *setup = &job->setup;
    return (focal_keys){
        .mode = FOCAL_DIRECTED,
        .K = setup->K,
        .routers = routers,
        .T = 1,
        .S = setup->S,
        .key_row = job->key_row + (int64_t)router * setup->S,
        .key_begin = job->key_begin + (int64_t)router * setup->K,
        .key_end = job->key_end + (int64_t)router * setup->K,
        .key_stride = setup->S,
        .query = job->query + (int64_t)router * setup->top,
        .query_end = job->query_end + (int64_t)router * setup->top,
        .query_begin = job->query_begin + (int64_t)router * (setup->K + 1),
        .query_stride = setup->top,
        .position_row = job->position_row + (int64_t)router * setup->S,
        .position_stride = setup->S,
    };
}

int decode_job_make(focal_ctx *ctx, const attn_setup *setup, const decode_caches *caches,
                    decode_layout layout, decode_job *job)
{
    memset(job, 0, sizeof *job);
    job->ctx = ctx;
    job->setup = *setup;
    job->caches = caches;
    job->layout = layout;
    const int64_t rows = (int64_t)setup->T * setup->H;
    const size_t bytes = focal_dtype_bytes(setup->dtype);
    job->q = cli_alloc("q", (size_t)(rows * setup->D), bytes);
    job->out = cli_alloc("out", (size_t)(rows * setup->Dv), bytes);
    job->lse = cli_alloc("lse", (size_t)rows, sizeof(float));
    if (!job->q || !job->out || !job->lse) return CLI_FAILED;
    attn_fill_normal(setup->dtype, job->q, rows * setup->D, 1.0F / sqrtf((float)setup->D),
                     setup->seed);
    if (setup->K > 0 && make_sets(job) != CLI_DONE) return CLI_FAILED;
    const bool is_split = layout == DECODE_HEADS;
    job->args = (focal_attn_args){
        .T = setup->T,
        .S = setup->S,
        .H = is_split ? setup->H / setup->G : setup->H, /* (1,H,D) is (G,H/G,D) */
        .G = is_split ? 1 : setup->G,
        .D = setup->D,
        .Dv = setup->Dv,
        .dtype = setup->dtype,
        .has_q8_keys = setup->has_q8_keys,
        .q = job->q,
        .k = caches->block,
        .v = caches->block + caches->k_bytes,
        .has_window = setup->has_window,
        .window = setup->window,
        .sinks = setup->sinks,
        .softcap = setup->softcap,
        .out = job->out,
        .lse = job->lse,
    };
    for (int32_t g = 0; is_split && g < setup->G; g++) {
        if (setup->K > 0) job->keys[g] = keys_of(job, setup->routers > 1 ? g : 0, 1);
        job->seqs[g] = (focal_attn_seq){.T = 1,
                                        .S = setup->S,
                                        .q_row = g,
                                        .k_row = (int64_t)g * setup->S,
                                        .keys = setup->K > 0 ? &job->keys[g] : NULL};
    }
    if (is_split) {
        job->args.seqs = job->seqs;
        job->args.seq_count = setup->G;
    } else if (setup->K > 0) {
        job->keys[0] = keys_of(job, 0, setup->routers);
        job->args.keys = &job->keys[0];
    }
    return CLI_DONE;
}

void decode_job_free(decode_job *job)
{
    void *blocks[] = {job->q,           job->out,         job->lse,      job->key_row,
                      job->key_begin,   job->key_end,     job->query,    job->position_row,
                      job->step_groups, job->query_begin, job->query_end};
    for (size_t n = 0; n < CLI_COUNT(blocks); n++) free(blocks[n]);
    memset(job, 0, sizeof *job);
}

/* What a step of decoding does for its one query: which groups, and how far into each. */
static void list_query(decode_job *job)
{
    const attn_setup *setup = &job->setup;
    const int64_t turn = job->step % DECODE_STEPS;
    for (int32_t r = 0; r < setup->routers; r++) {
        const int32_t *groups = job->step_groups + (turn * setup->routers + r) * setup->top;
        const int32_t *begin = job->key_begin + (int64_t)r * setup->K;
        const int32_t *end = job->key_end + (int64_t)r * setup->K;
        int32_t *query_begin = job->query_begin + (int64_t)r * (setup->K + 1);
        int32_t count = 0;
        for (int32_t c = 0; c < setup->K; c++) {
            query_begin[c] = count;
            if (count < setup->top && groups[count] == c) {
                job->query[r * setup->top + count] = 0;
                job->query_end[r * setup->top + count++] = end[c] - begin[c];
            }
        }
        query_begin[setup->K] = count;
    }
}

bool decode_step(void *arg)
{
    decode_job *job = arg;
    const decode_caches *caches = job->caches;
    const char *copy =
        caches->block + job->step % caches->copy_count * (caches->k_bytes + caches->v_bytes);
    if (job->setup.K > 0) list_query(job);
    job->args.k = copy;
    job->args.v = copy + caches->k_bytes;
    job->step++;
    const focal_status status = focal_attn_forward(job->ctx, &job->args);
    if (status != FOCAL_OK) (void)cli_fail_ctx(job->ctx, status);
    return status == FOCAL_OK;
}

int decode_pairs(decode_job *job, int64_t *pairs)
{
    const focal_status status = focal_attn_pairs(job->ctx, &job->args, pairs);
    return status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(job->ctx, status);
}

/* Whether the query at position i sees row `row` of router r: sinks and window by position, the
 * rest when it lies in the chain of one of the step's groups. */
static bool sees_row(const decode_job *job, int32_t r, int32_t i, int32_t row)
{
    const attn_setup *setup = &job->setup;
    if (!setup->has_window) return row <= i;
    if (setup->K == 0) return row <= i && (row >= i - setup->window || row < setup->sinks);
    if (row < setup->sinks || row >= i - setup->window) return true; /* laid out at the two ends */
    const int64_t turn = (job->step - 1) % DECODE_STEPS;
    const int32_t *groups = job->step_groups + (turn * setup->routers + r) * setup->top;
    for (int32_t n = 0; n < setup->top; n++) {
        const int64_t at = (int64_t)r * setup->K + groups[n];
        if (row >= job->key_begin[at] && row < job->key_end[at]) return true;
    }
    return false;
}

/* The reference on one query and key head: the rows it sees, gathered, and no set at all. */
static int head_error(const decode_job *job, focal_ctx *ref, int32_t i, int32_t g, float *room,
                      double *error)
{
    const attn_setup *setup = &job->setup;
    const int32_t heads = setup->H / setup->G, D = setup->D, Dv = setup->Dv;
    float *q = room, *out = q + (int64_t)heads * D, *mine = out + (int64_t)heads * Dv;
    float *k = mine + (int64_t)heads * Dv, *v = k + (int64_t)setup->S * D;
    int32_t count = 0;
    for (int32_t row = 0; row < setup->S; row++) {
        if (!sees_row(job, setup->routers > 1 ? g : 0, setup->S - setup->T + i, row)) continue;
        const int64_t at =
            job->layout == DECODE_HEADS ? (int64_t)g * setup->S + row : (int64_t)row * setup->G + g;
        attn_read(attn_kv_dtype(setup), job->args.k, at * D, D, k + (int64_t)count * D);
        attn_read(attn_kv_dtype(setup), job->args.v, at * Dv, Dv, v + (int64_t)count * Dv);
        count++;
    }
    const int64_t row = (int64_t)i * setup->G + g; /* of (T*G, heads, width) */
    attn_read(setup->dtype, job->q, row * heads * D, (int64_t)heads * D, q);
    attn_read(setup->dtype, job->out, row * heads * Dv, (int64_t)heads * Dv, mine);
    const focal_attn_args args = {.T = 1,
                                  .S = count,
                                  .H = heads,
                                  .G = 1,
                                  .D = D,
                                  .Dv = Dv,
                                  .q = q,
                                  .k = k,
                                  .v = v,
                                  .softcap = setup->softcap,
                                  .out = out};
    const focal_status status = focal_attn_forward(ref, &args);
    if (status != FOCAL_OK) return cli_fail_ctx(ref, status);
    for (int64_t h = 0; h < heads; h++) {
        double difference = 0.0, largest = 0.0;
        for (int64_t d = h * Dv; d < (h + 1) * Dv; d++) {
            const double e = fabs((double)mine[d] - (double)out[d]);
            if (!(e <= difference)) difference = e;
            largest = fmax(largest, fabs((double)out[d]));
        }
        const double e = difference == 0.0 ? 0.0 : difference / largest;
        if (!(e <= *error)) *error = e;
    }
    return CLI_DONE;
}

int decode_error(const decode_job *job, double *error)
{
    const attn_setup *setup = &job->setup;
    const int64_t heads = setup->H / setup->G;
    const int64_t count =
        heads * (setup->D + 2 * setup->Dv) + (int64_t)setup->S * (setup->D + setup->Dv);
    focal_ctx *ref = NULL;
    float *room = cli_alloc("the reference", (size_t)count, sizeof(float));
    int code = room ? cli_open_ctx(focal_ctx_threads(job->ctx), "ref", &ref) : CLI_FAILED;
    *error = 0.0;
    for (int32_t i = 0; i < setup->T; i++)
        for (int32_t g = 0; code == CLI_DONE && g < setup->G; g++)
            code = head_error(job, ref, i, g, room, error);
    focal_ctx_close(ref);
    free(room);
    return code;
}
