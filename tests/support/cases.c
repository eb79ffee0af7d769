/* Building attention cases and comparing what a kernel wrote. */
#include "support/cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/f16.h"
#include "base/random.h"
#include "support/check.h"
#include "support/plain_attn.h"

enum {
    STREAM_Q = 1,
    STREAM_K,
    STREAM_V,
    STREAM_DOUT,
    STREAM_GQ,
    STREAM_GK,
    STREAM_KEY_GROUPS,
    STREAM_QUERY_GROUPS,
    STREAM_ROWS,
    STREAMS
};

/* Results, in the order of attn_results. */
enum { OUT, LSE, DQ, DK, DV, DGQ, DGK };

static uint64_t stream_of(int stream, int32_t n)
{
    return (uint64_t)n * STREAMS + (uint64_t)stream;
}

static void *keep(attn_case *c, void *block)
{
    /* The analyzer loses sight of the assignment below and takes the list for released. */
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    void **blocks = realloc(c->blocks, (size_t)(c->block_count + 1) * sizeof *blocks);
    if (!blocks) {
        fail_msg("no memory");
        return NULL;
    }
    c->blocks = blocks;
    c->blocks[c->block_count++] = block;
    return block;
}

static double *keep_doubles(attn_case *c, int64_t count)
{
    return keep(c, new_array((size_t)count, sizeof(double)));
}

static float *keep_floats(attn_case *c, int64_t count)
{
    return keep(c, new_array((size_t)count, sizeof(float)));
}

/* A tensor that ends with its last element, full of NaN. */
static void *new_tensor(attn_case *c, int64_t rows, int64_t stride, int64_t width,
                        focal_dtype dtype)
{
    const size_t shift = c->spec.is_misaligned ? 1 : 0;
    const size_t count = (rows > 0 ? (size_t)((rows - 1) * stride + width) : 0) + shift;
    char *block = keep(c, new_array(count, focal_dtype_bytes(dtype)));
    fill_nan(block, count, dtype);
    return block + shift * focal_dtype_bytes(dtype);
}

enum { Q8_LEVELS = 32, Q8_BYTES = 34 };

/* The same for k and v. In q8_0 every scale is NaN at first. */
static void *new_kv_tensor(attn_case *c, int64_t rows, int64_t stride, int64_t width)
{
    if (!c->spec.has_q8_keys) return new_tensor(c, rows, stride, width, c->spec.dtype);
    const size_t shift = c->spec.is_misaligned ? 1 : 0;
    const int64_t blocks = rows > 0 ? ((rows - 1) * stride + width) / Q8_LEVELS : 0;
    char *block = (char *)keep(c, new_array((size_t)blocks * Q8_BYTES + shift, 1)) + shift;
    for (int64_t n = 0; n < blocks; n++) attn_case_set_scale(block, (int32_t)n * Q8_LEVELS, 0x7E01);
    return block;
}

void attn_case_set_scale(void *row, int32_t d, uint16_t scale)
{
    uint8_t *block = (uint8_t *)row + (int64_t)(d / Q8_LEVELS) * Q8_BYTES;
    block[0] = (uint8_t)scale;
    block[1] = (uint8_t)(scale >> 8);
}

static void *advance(void *data, int64_t elements, focal_dtype dtype)
{
    return (char *)data + elements * (int64_t)focal_dtype_bytes(dtype);
}

static const void *advance_const(const void *data, int64_t elements, focal_dtype dtype)
{
    return (const char *)data + elements * (int64_t)focal_dtype_bytes(dtype);
}

static const void *advance_kv(const attn_case *c, const void *data, int64_t elements)
{
    if (!c->spec.has_q8_keys) return advance_const(data, elements, c->spec.dtype);
    return (const char *)data + elements / Q8_LEVELS * Q8_BYTES;
}

static int32_t value_width(const attn_spec *s)
{
    return s->Dv > 0 ? s->Dv : s->D;
}

static int64_t or_width(int64_t stride, int64_t width)
{
    return stride > 0 ? stride : width;
}

static int64_t q_stride(const attn_case *c)
{
    return or_width(c->args.q_stride, (int64_t)c->spec.H * c->spec.D);
}

static int64_t k_stride(const attn_case *c)
{
    return or_width(c->args.k_stride, (int64_t)c->spec.G * c->spec.D);
}

static int64_t v_stride(const attn_case *c)
{
    return or_width(c->args.v_stride, (int64_t)c->spec.G * value_width(&c->spec));
}

static int64_t out_stride(const attn_case *c)
{
    return or_width(c->args.out_stride, (int64_t)c->spec.H * value_width(&c->spec));
}

/* Rows of each sequence, with unused ones before, between and behind. */
static void place_sequences(attn_case *c)
{
    const attn_spec *s = &c->spec;
    const bool has_list = s->seq_count > 0;
    c->seq_count = has_list ? s->seq_count : 1;
    int64_t q_row = has_list ? 1 : 0, k_row = has_list ? 2 : 0;
    for (int32_t n = 0; n < c->seq_count; n++) {
        focal_attn_seq *seq = &c->seqs[n];
        seq->T = has_list ? s->lengths[n][0] : s->T;
        seq->S = has_list ? s->lengths[n][1] : s->S;
        if (seq->T > seq->S && s->rows == ROWS_TOGETHER) c->spec.rows = ROWS_ODD;
        seq->q_row = q_row;
        seq->k_row = k_row;
        q_row += seq->T + (has_list ? 2 : 0);
        k_row += seq->S + (has_list ? 1 : 0);
        c->query_at[n + 1] = c->query_at[n] + seq->T;
        c->key_at[n + 1] = c->key_at[n] + seq->S;
    }
    if ((s->page_rows > 0 || s->has_q8_keys) && s->rows == ROWS_TOGETHER) c->spec.rows = ROWS_ODD;
    c->q_rows = q_row;
    c->k_rows = k_row;
    if (s->rows != ROWS_TOGETHER) return;
    c->q_rows = k_row;
    for (int32_t n = 0; n < c->seq_count && has_list; n++)
        c->seqs[n].q_row = c->seqs[n].k_row + c->seqs[n].S - c->seqs[n].T;
}

/* q, k and v, or their gradients, in the layout of the spec. */
static void new_inputs(attn_case *c, void **q, void **k, void **v)
{
    const attn_spec *s = &c->spec;
    const int64_t wq = (int64_t)s->H * s->D, wk = (int64_t)s->G * s->D;
    const int64_t wv = (int64_t)s->G * value_width(s);
    if (s->rows == ROWS_TOGETHER) {
        char *block = new_tensor(c, c->k_rows, wq + wk + wv, wq + wk + wv, s->dtype);
        const int64_t first = s->seq_count > 0 ? 0 : (s->S - s->T) * (wq + wk + wv);
        *q = advance(block, first, s->dtype);
        *k = advance(block, wq, s->dtype);
        *v = advance(block, wq + wk, s->dtype);
        return;
    }
    *q = new_tensor(c, c->q_rows, q_stride(c), wq, s->dtype);
    *k = new_kv_tensor(c, c->k_rows, k_stride(c), wk);
    *v = new_kv_tensor(c, c->k_rows, v_stride(c), wv);
}

static void set_strides(attn_case *c)
{
    const attn_spec *s = &c->spec;
    const int64_t wq = (int64_t)s->H * s->D, wk = (int64_t)s->G * s->D;
    const int64_t wv = (int64_t)s->G * value_width(s), wo = (int64_t)s->H * value_width(s);
    if (s->rows == ROWS_ODD) {
        c->args.q_stride = wq + 3;
        c->args.k_stride = wk + (s->has_q8_keys ? Q8_LEVELS : 5);
        c->args.v_stride = wv + (s->has_q8_keys ? 2 * Q8_LEVELS : 7);
        c->args.out_stride = wo + 1;
    } else if (s->rows == ROWS_TOGETHER) {
        c->args.q_stride = c->args.k_stride = c->args.v_stride = wq + wk + wv;
    }
}

static void new_pages(attn_case *c, int32_t n)
{
    const attn_spec *s = &c->spec;
    focal_attn_seq *seq = &c->seqs[n];
    const int32_t rows = seq->S + (s->is_permuted ? 3 : 0);
    seq->page_count = (rows + s->page_rows - 1) / s->page_rows;
    const void **k_pages = keep(c, new_array((size_t)seq->page_count, sizeof(void *)));
    const void **v_pages = keep(c, new_array((size_t)seq->page_count, sizeof(void *)));
    for (int64_t page = 0; page < seq->page_count; page++) {
        k_pages[page] = new_kv_tensor(c, s->page_rows, k_stride(c), (int64_t)s->G * s->D);
        v_pages[page] = new_kv_tensor(c, s->page_rows, v_stride(c), (int64_t)s->G * value_width(s));
    }
    seq->k_pages = k_pages;
    seq->v_pages = v_pages;
}

/* `count` different groups of K, from `first` on, as bits. */
static uint64_t random_groups(uint64_t seed, uint64_t stream, int64_t token, int32_t first,
                              int32_t K, int32_t count)
{
    int32_t order[FOCAL_MAX_GROUPS];
    uint64_t bits = 0;
    for (int32_t c = first; c < K; c++) order[c - first] = c;
    for (int32_t n = 0; n < count && n < K - first; n++) {
        const uint64_t at = (uint64_t)token * FOCAL_MAX_GROUPS + (uint64_t)n;
        const int32_t pick =
            n + (int32_t)foci_random_below(seed, stream, at, (uint32_t)(K - first - n));
        bits |= (uint64_t)1 << order[pick];
        order[pick] = order[n];
    }
    return bits;
}

static uint64_t groups_of_key(const attn_case *c, uint64_t seed, int32_t n, int64_t token,
                              int32_t j)
{
    const attn_spec *s = &c->spec;
    const uint64_t last = (uint64_t)1 << (s->K - 1);
    const int32_t count = s->mode == FOCAL_SHARED ? s->top : 1;
    const uint64_t bits =
        random_groups(seed, stream_of(STREAM_KEY_GROUPS, n), token, 0, s->K, count);
    switch (s->groups) {
    case GROUPS_ONE:
        return last;
    case GROUPS_HALF:
        return bits & 0x5555555555555555ULL ? bits & 0x5555555555555555ULL : 1;
    case GROUPS_MISSED:
        return j % 4 == 3 ? last : 1;
    case GROUPS_LONELY:
        return j == c->spec.sinks + 1 ? 1 : last;
    default:
        return bits;
    }
}

static uint64_t groups_of_query(const attn_case *c, uint64_t seed, int32_t n, int64_t token)
{
    const attn_spec *s = &c->spec;
    const bool misses = s->groups == GROUPS_MISSED && s->K > 1;
    const uint64_t bits =
        random_groups(seed, stream_of(STREAM_QUERY_GROUPS, n), token, misses, s->K, s->top);
    return s->groups == GROUPS_LONELY ? bits | 1 : bits;
}

/* Rows of k and v for each position, another order for each router. */
static int32_t *random_rows(attn_case *c, uint64_t seed, int32_t n, int32_t rows)
{
    const int32_t S = c->seqs[n].S;
    int32_t *result = keep(c, new_array((size_t)c->routers * (size_t)S, sizeof *result));
    int32_t *order = new_array((size_t)rows, sizeof *order);
    for (int32_t router = 0; router < c->routers; router++) {
        for (int32_t j = 0; j < rows; j++) order[j] = j;
        for (int32_t j = 0; j < S; j++) {
            const uint64_t at = (uint64_t)router * (uint64_t)S + (uint64_t)j;
            const int32_t pick = j + (int32_t)foci_random_below(seed, stream_of(STREAM_ROWS, n), at,
                                                                (uint32_t)(rows - j));
            result[(int64_t)router * S + j] = order[pick];
            order[pick] = order[j];
        }
    }
    free(order);
    return result;
}

static void new_groups(attn_case *c, uint64_t seed, int32_t n)
{
    const attn_spec *s = &c->spec;
    const focal_attn_seq *seq = &c->seqs[n];
    uint64_t *query = keep(c, new_array((size_t)c->routers * (size_t)seq->T, sizeof *query));
    uint64_t *key = keep(c, new_array((size_t)c->routers * (size_t)seq->S, sizeof *key));
    for (int32_t router = 0; router < c->routers; router++) {
        for (int32_t j = 0; j < seq->S; j++) {
            const int64_t at = (int64_t)router * seq->S + j;
            key[at] = groups_of_key(c, seed, n, at, j);
        }
        for (int32_t i = 0; i < seq->T; i++) {
            const int64_t at = (int64_t)router * seq->T + i, position = seq->S - seq->T + i;
            /* Shared: a token has one membership, as key and as query. */
            query[at] = s->mode == FOCAL_SHARED && position >= 0
                            ? key[(int64_t)router * seq->S + position]
                            : groups_of_query(c, seed, n, at);
        }
    }
    int32_t rows = seq->S;
    if (s->page_rows > 0) rows = (int32_t)seq->page_count * s->page_rows;
    const slow_keys_options options = {
        .mode = s->mode,
        .K = s->K,
        .routers = c->routers,
        .T = seq->T,
        .S = seq->S,
        .window = s->window,
        .sinks = s->sinks,
        .query_groups = query,
        .key_groups = key,
        .position_row = s->is_permuted ? random_rows(c, seed, n, rows) : NULL,
        .rows = rows,
        .gap = (int32_t)(seed % 3),
        .has_masks = s->mode == FOCAL_SHARED || s->gate == FOCAL_GATE_STRAIGHT || seed % 2 == 0};
    c->sets[n] = slow_keys_new(&options);
    c->seqs[n].keys = &c->sets[n]->view;
    c->problems[n].query_groups = query;
    c->problems[n].key_groups = key;
}

static int32_t router_of_key_head(const attn_case *c, int32_t g)
{
    return c->routers == 1 ? 0 : g;
}

static const void *key_place(const attn_case *c, int32_t n, int32_t j, int32_t g, bool is_value)
{
    const focal_attn_seq *seq = &c->seqs[n];
    const focal_keys *keys = seq->keys;
    int64_t row = j;
    if (keys && keys->position_row)
        row = keys->position_row[router_of_key_head(c, g) * keys->position_stride + j];
    const int64_t stride = is_value ? v_stride(c) : k_stride(c);
    const int64_t column = (int64_t)g * (is_value ? value_width(&c->spec) : c->spec.D);
    if (seq->k_pages) {
        const void *page = (is_value ? seq->v_pages : seq->k_pages)[row / c->spec.page_rows];
        return advance_kv(c, page, row % c->spec.page_rows * stride + column);
    }
    return advance_kv(c, is_value ? c->args.v : c->args.k, (seq->k_row + row) * stride + column);
}

/* The tensors of a case are its own, whatever the arguments promise not to change. */
static void *unlock(const void *data)
{
    void *result;
    memcpy(&result, &data, sizeof result);
    return result;
}

void *attn_case_key(const attn_case *c, int32_t n, int32_t j, int32_t g)
{
    return unlock(key_place(c, n, j, g, false));
}

void *attn_case_value(const attn_case *c, int32_t n, int32_t j, int32_t g)
{
    return unlock(key_place(c, n, j, g, true));
}

int64_t attn_case_q_offset(const attn_case *c, int32_t n, int32_t i)
{
    return (c->seqs[n].q_row + i) * q_stride(c);
}

/* Random values that the type can hold, into a tensor and into the oracle's copy. */
static void fill_values(void *data, double *copy, int32_t count, focal_dtype dtype, uint64_t seed,
                        uint64_t stream, int64_t at, float scale)
{
    for (int32_t d = 0; d < count; d++) {
        element_set(data, d, dtype,
                    scale * foci_random_normal(seed, stream, (uint64_t)at + (uint64_t)d));
        copy[d] = (double)element_get(data, d, dtype);
    }
}

/* Scales as no quantiser makes them: 0, negative, subnormal, down to the smallest there is. */
static const uint16_t odd_scales[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x0010, 0x03FF, 0x0400};

/* The same in blocks: one of eight has an odd scale, and so has one column of blocks of eight in
 * all rows, or in all but one of sixteen; and with the level that no quantiser uses. A block counts
 * beside one that is 2^18 times larger only where the larger one's levels are 0; it must then be as
 * right as any other. */
static void fill_blocks(void *data, double *copy, int32_t count, uint64_t seed, uint64_t stream,
                        int64_t at)
{
    const uint64_t blocks = 1ULL << 40, columns = 1ULL << 41;
    for (int32_t n = 0; n < count; n += Q8_LEVELS) {
        const uint64_t place = (uint64_t)at + (uint64_t)n;
        const uint32_t kind = foci_random_below(seed, stream, place ^ blocks, 128);
        const uint32_t column = foci_random_below(seed, stream, (uint64_t)n ^ columns, 16);
        const bool is_odd = kind % 8 == 0 || column == 0 || (column == 1 && kind / 8 != 0);
        const uint16_t usual = foci_f16_from_float(kind == 1 ? -2.5F / 127.0F : 2.5F / 127.0F);
        const uint16_t half =
            is_odd ? odd_scales[(place / Q8_LEVELS + kind) % FOCAL_COUNT(odd_scales)] : usual;
        int8_t *levels = (int8_t *)data + (int64_t)(n / Q8_LEVELS) * Q8_BYTES + 2;
        attn_case_set_scale(data, n, half);
        for (int32_t d = 0; d < Q8_LEVELS; d++) {
            const float x = foci_random_normal(seed, stream, (uint64_t)at + (uint64_t)(n + d));
            levels[d] = (int8_t)fmaxf(-128.0F, fminf(127.0F, roundf(x * 127.0F / 2.5F)));
            copy[n + d] = (double)foci_f16_to_float(half) * (double)levels[d];
        }
    }
}

/* Values of one key head. */
static void fill_kv(const attn_case *c, void *data, double *copy, int32_t count, uint64_t seed,
                    uint64_t stream, int64_t at)
{
    if (c->spec.has_q8_keys)
        fill_blocks(data, copy, count, seed, stream, at);
    else
        fill_values(data, copy, count, c->spec.dtype, seed, stream, at, 1.0F);
}

static void fill_sequence(attn_case *c, uint64_t seed, int32_t n)
{
    const attn_spec *s = &c->spec;
    const focal_attn_seq *seq = &c->seqs[n];
    const int32_t Dv = value_width(s);
    double *q = keep_doubles(c, (int64_t)seq->T * s->H * s->D);
    double *k = keep_doubles(c, (int64_t)seq->S * s->G * s->D);
    double *v = keep_doubles(c, (int64_t)seq->S * s->G * Dv);
    const float heat = s->heat > 0.0F ? s->heat : 1.0F;
    const float q_scale = heat / sqrtf((float)s->D);
    for (int32_t i = 0; i < seq->T; i++)
        fill_values(advance(unlock(c->args.q), attn_case_q_offset(c, n, i), s->dtype),
                    q + (int64_t)i * s->H * s->D, s->H * s->D, s->dtype, seed,
                    stream_of(STREAM_Q, n), (int64_t)i * s->H * s->D, q_scale);
    for (int64_t at = 0; at < (int64_t)seq->S * s->G; at++) {
        const int32_t j = (int32_t)(at / s->G), g = (int32_t)(at % s->G);
        fill_kv(c, attn_case_key(c, n, j, g), k + at * s->D, s->D, seed, stream_of(STREAM_K, n),
                at * s->D);
        fill_kv(c, attn_case_value(c, n, j, g), v + at * Dv, Dv, seed, stream_of(STREAM_V, n),
                at * Dv);
    }
    oracle_attn *problem = &c->problems[n];
    problem->q = q;
    problem->k = k;
    problem->v = v;
}

/* Memberships: positive, sum 1; every fifth token belongs to one group only, so that some pairs
 * have nothing in common. */
static void fill_memberships(attn_case *c, float *g, double *copy, uint64_t seed, uint64_t stream,
                             int64_t tokens)
{
    const int32_t K = c->spec.K;
    for (int64_t row = 0; row < tokens * c->routers; row++) {
        float sum = 0.0F;
        for (int32_t n = 0; n < K; n++) {
            const float u = foci_random_uniform(seed, stream, (uint64_t)(row * K + n));
            g[row * K + n] = 0.05F + u * u * u;
            if (row % 5 == 0) g[row * K + n] = n == (int32_t)(row / 5 % K) ? 1.0F : 0.0F;
            sum += g[row * K + n];
        }
        for (int32_t n = 0; n < K; n++) {
            g[row * K + n] /= sum;
            copy[row * K + n] = (double)g[row * K + n];
        }
    }
}

static void new_gate(attn_case *c, uint64_t seed)
{
    const attn_spec *s = &c->spec;
    const int64_t width = (int64_t)c->routers * s->K;
    float *gq = new_tensor(c, c->q_rows, width, width, FOCAL_F32);
    float *gk = new_tensor(c, c->k_rows, width, width, FOCAL_F32);
    c->gate = (focal_attn_gate){
        .kind = s->gate, .K = s->K, .routers = c->routers, .lambda = 0, .gq = gq, .gk = gk};
    c->args.gate = &c->gate;
    for (int32_t n = 0; n < c->seq_count; n++) {
        const focal_attn_seq *seq = &c->seqs[n];
        double *query = keep_doubles(c, seq->T * width), *key = keep_doubles(c, seq->S * width);
        fill_memberships(c, gq + seq->q_row * width, query, seed, stream_of(STREAM_GQ, n), seq->T);
        fill_memberships(c, gk + seq->k_row * width, key, seed, stream_of(STREAM_GK, n), seq->S);
        c->problems[n].gq = query;
        c->problems[n].gk = key;
    }
}

static void set_problem(attn_case *c, int32_t n)
{
    const attn_spec *s = &c->spec;
    c->problems[n] = (oracle_attn){.T = c->seqs[n].T,
                                   .S = c->seqs[n].S,
                                   .H = s->H,
                                   .G = s->G,
                                   .D = s->D,
                                   .Dv = value_width(s),
                                   .is_bidirectional = s->is_bidirectional,
                                   .has_window = s->has_window,
                                   .window = s->window,
                                   .sinks = s->sinks,
                                   .softcap = (double)s->softcap,
                                   .routers = c->routers,
                                   .gate = (int)s->gate,
                                   .K = s->K,
                                   .lambda = 10.0};
}

static double *rounded_copy(const double *x, int64_t count)
{
    double *copy = new_array((size_t)count, sizeof *copy);
    for (int64_t n = 0; n < count; n++)
        copy[n] = (double)foci_bf16_to_float(foci_bf16_from_float((float)x[n]));
    return copy;
}

/* Loops that compute in bfloat16 have keys and values in it too, whatever these lie in. */
static void solve_plain(const attn_case *c, int32_t n, float *out, float *lse)
{
    oracle_attn problem = c->problems[n];
    const bool rounds = c->spec.has_q8_keys && c->spec.dtype == FOCAL_BF16;
    const int64_t rows = (int64_t)problem.S * problem.G;
    double *k = rounds ? rounded_copy(problem.k, rows * problem.D) : NULL;
    double *v = rounds ? rounded_copy(problem.v, rows * problem.Dv) : NULL;
    if (rounds) {
        problem.k = k;
        problem.v = v;
    }
    plain_attn_forward(&problem, c->spec.dtype, out, lse);
    free(k);
    free(v);
}

static void solve_forward(attn_case *c)
{
    const int64_t rows = c->query_at[c->seq_count] * c->spec.H, Dv = value_width(&c->spec);
    c->exact = (oracle_attn_out){keep_doubles(c, rows * Dv), keep_doubles(c, rows * Dv),
                                 keep_doubles(c, rows), keep_doubles(c, rows)};
    c->plain.out = keep_floats(c, rows * Dv);
    c->plain.lse = keep_floats(c, rows);
    for (int32_t n = 0; n < c->seq_count; n++) {
        const int64_t at = c->query_at[n] * c->spec.H;
        const oracle_attn_out part = {c->exact.out + at * Dv, c->exact.out_magnitude + at * Dv,
                                      c->exact.lse + at, c->exact.lse_magnitude + at};
        oracle_attn_forward(&c->problems[n], &part);
        solve_plain(c, n, c->plain.out + at * Dv, c->plain.lse + at);
    }
}

static attn_case *draw_case(const attn_spec *spec, uint64_t seed)
{
    attn_case *c = new_array(1, sizeof *c);
    c->spec = *spec;
    c->seed = seed;
    const attn_spec *s = &c->spec;
    c->routers = s->has_one_router || (s->groups == GROUPS_NONE && !s->gate) ? 1 : s->G;
    place_sequences(c);
    c->args = (focal_attn_args){.T = s->T,
                                .S = s->S,
                                .H = s->H,
                                .G = s->G,
                                .D = s->D,
                                .Dv = s->Dv,
                                .dtype = s->dtype,
                                .has_q8_keys = s->has_q8_keys,
                                .is_bidirectional = s->is_bidirectional,
                                .has_window = s->has_window,
                                .window = s->window,
                                .sinks = s->sinks,
                                .softcap = s->softcap};
    set_strides(c);
    void *q, *k, *v;
    new_inputs(c, &q, &k, &v);
    c->args.q = q;
    c->args.k = k;
    c->args.v = v;
    for (int32_t n = 0; n < c->seq_count; n++) {
        set_problem(c, n);
        if (s->page_rows > 0) new_pages(c, n);
        if (s->groups != GROUPS_NONE) new_groups(c, seed, n);
        fill_sequence(c, seed, n);
    }
    if (s->gate) new_gate(c, seed);
    c->args.page_rows = s->page_rows;
    if (s->seq_count > 0 || s->page_rows > 0) { /* pages need a sequence to carry them */
        c->args.seq_count = c->seq_count;
        c->args.seqs = c->seqs;
    } else {
        c->args.keys = c->seqs[0].keys;
    }
    const int64_t Dv = value_width(s);
    c->args.out = new_tensor(c, c->q_rows, out_stride(c), s->H * Dv, s->dtype);
    c->args.lse = new_tensor(c, c->q_rows, s->H, s->H, FOCAL_F32);
    solve_forward(c);
    return c;
}

void attn_case_free(attn_case *c)
{
    if (!c) return;
    for (int64_t n = 0; n < c->block_count; n++) free(c->blocks[n]);
    for (int32_t n = 0; n < c->seq_count; n++) slow_keys_free(c->sets[n]);
    free(c->blocks);
    free(c);
}

const char *attn_case_text(const attn_case *c)
{
    static char text[512];
    const attn_spec *s = &c->spec;
    int used = snprintf(
        text, sizeof text,
        "H=%d G=%d D=%d Dv=%d %s%s rows=%d misaligned=%d pages=%d both=%d window=%d:%d sinks=%d "
        "cap=%g heat=%g groups=%d mode=%d K=%d top=%d routers=%d permuted=%d gate=%d T,S=",
        s->H, s->G, s->D, value_width(s), focal_dtype_name(s->dtype), s->has_q8_keys ? "/q8_0" : "",
        (int)s->rows, s->is_misaligned, s->page_rows, s->is_bidirectional, s->has_window, s->window,
        s->sinks, (double)s->softcap, (double)s->heat, (int)s->groups, (int)s->mode, s->K, s->top,
        c->routers, s->is_permuted, (int)s->gate);
    for (int32_t n = 0; n < c->seq_count && used > 0 && used < (int)sizeof text; n++)
        used +=
            snprintf(text + used, sizeof text - (size_t)used, "%d,%d ", c->seqs[n].T, c->seqs[n].S);
    return text;
}

/* Which elements of a tensor belong to a sequence. rows_of: T or S of each. */
typedef struct tensor_view {
    const void *data;
    int64_t stride, width;
    focal_dtype dtype;
    bool is_keys;
} tensor_view;

static bool row_is_used(const attn_case *c, int64_t row, bool is_keys)
{
    for (int32_t n = 0; n < c->seq_count; n++) {
        const focal_attn_seq *seq = &c->seqs[n];
        const int64_t first = is_keys ? seq->k_row : seq->q_row;
        if (row >= first && row < first + (is_keys ? seq->S : seq->T)) return true;
    }
    return false;
}

/* Copies a tensor's sequences one behind the other; NULL data gives NULL. */
static float *gather(const attn_case *c, tensor_view t)
{
    if (!t.data) return NULL;
    const int64_t rows = t.is_keys ? c->key_at[c->seq_count] : c->query_at[c->seq_count];
    float *result = new_array((size_t)(rows * t.width), sizeof *result);
    for (int32_t n = 0; n < c->seq_count; n++) {
        const focal_attn_seq *seq = &c->seqs[n];
        const int64_t first = t.is_keys ? seq->k_row : seq->q_row;
        const int64_t at = t.is_keys ? c->key_at[n] : c->query_at[n];
        for (int64_t row = 0; row < (t.is_keys ? seq->S : seq->T); row++)
            for (int64_t d = 0; d < t.width; d++)
                result[(at + row) * t.width + d] =
                    element_get(t.data, (first + row) * t.stride + d, t.dtype);
    }
    return result;
}

/* Gaps between elements of a row and rows of no sequence must be as they were. Where q, k and v
 * share rows, a gap of one is an element of another: rows only. */
static void check_untouched(const attn_case *c, tensor_view t, const char *name, const char *kernel)
{
    if (!t.data) return;
    const bool shares_rows = c->spec.rows == ROWS_TOGETHER && t.stride != t.width;
    const int64_t rows = t.is_keys ? c->k_rows : c->q_rows;
    if (shares_rows && c->spec.seq_count == 0) return;
    for (int64_t row = 0; row < rows; row++) {
        const bool is_used = row_is_used(c, row, t.is_keys);
        const int64_t end = row + 1 < rows && !shares_rows ? t.stride : t.width;
        for (int64_t d = is_used ? t.width : 0; d < end; d++) {
            if (is_used && shares_rows) break;
            if (!is_fill_nan(t.data, (size_t)(row * t.stride + d), t.dtype))
                fail_msg("%s: %s: row %lld, element %lld was written: %s", kernel, name,
                         (long long)row, (long long)d, attn_case_text(c));
        }
    }
}

static tensor_view view_of(const attn_case *c, const void *data, int64_t stride, int64_t width,
                           bool is_keys)
{
    return (tensor_view){data, stride, width, c->spec.dtype, is_keys};
}

static tensor_view out_view(const attn_case *c)
{
    return view_of(c, c->args.out, out_stride(c), (int64_t)c->spec.H * value_width(&c->spec),
                   false);
}

static tensor_view lse_view(const attn_case *c)
{
    return (tensor_view){c->args.lse, c->spec.H, c->spec.H, FOCAL_F32, false};
}

static tensor_view membership_view(const attn_case *c, const float *data, bool is_keys)
{
    const int64_t width = (int64_t)c->routers * c->spec.K;
    return (tensor_view){data, width, width, FOCAL_F32, is_keys};
}

static tensor_view dq_view(const attn_case *c)
{
    return view_of(c, c->grads.dq, q_stride(c), (int64_t)c->spec.H * c->spec.D, false);
}

static tensor_view dk_view(const attn_case *c)
{
    return view_of(c, c->grads.dk, k_stride(c), (int64_t)c->spec.G * c->spec.D, true);
}

static tensor_view dv_view(const attn_case *c)
{
    return view_of(c, c->grads.dv, v_stride(c), (int64_t)c->spec.G * value_width(&c->spec), true);
}

static tensor_view view_of_result(const attn_case *c, int result)
{
    switch (result) {
    case OUT:
        return out_view(c);
    case LSE:
        return lse_view(c);
    case DQ:
        return dq_view(c);
    case DK:
        return dk_view(c);
    case DV:
        return dv_view(c);
    case DGQ:
        return membership_view(c, c->grads.dgq, false);
    default:
        return membership_view(c, c->grads.dgk, true);
    }
}

float *attn_case_out(const attn_case *c)
{
    return gather(c, out_view(c));
}

/* The whole tensor, gaps too, becomes NaN. */
static void clear_tensor(const attn_case *c, tensor_view t)
{
    if (!t.data) return;
    const int64_t rows = t.is_keys ? c->k_rows : c->q_rows;
    const bool shares_rows = c->spec.rows == ROWS_TOGETHER && t.stride != t.width;
    if (!shares_rows) {
        fill_nan(unlock(t.data), (size_t)((rows - 1) * t.stride + t.width), t.dtype);
        return;
    }
    for (int64_t row = 0; row < rows; row++) {
        if (c->spec.seq_count == 0 && !row_is_used(c, row, t.is_keys)) continue;
        fill_nan(unlock(advance_const(t.data, row * t.stride, t.dtype)), (size_t)t.width, t.dtype);
    }
}

void attn_case_clear_forward(attn_case *c)
{
    clear_tensor(c, out_view(c));
    clear_tensor(c, lse_view(c));
}

/* What each result is judged by, in the order of attn_results. */
static error_bound bound_of(const attn_case *c, int result)
{
    const oracle_attn_grads *e = &c->exact_grads;
    const attn_results *p = &c->plain;
    const float *const plain[] = {p->out, p->lse, p->dq, p->dk, p->dv, p->dgq, p->dgk};
    const double *const exact[] = {c->exact.out, c->exact.lse, e->dq, e->dk, e->dv, e->dgq, e->dgk};
    const double *const magnitude[] = {
        c->exact.out_magnitude, c->exact.lse_magnitude, e->dq_magnitude, e->dk_magnitude,
        e->dv_magnitude,        e->dgq_magnitude,       e->dgk_magnitude};
    const tensor_view view = view_of_result(c, result);
    const int32_t D = c->spec.D, Dv = value_width(&c->spec);
    const int32_t row[] = {Dv, 0, D, D, Dv, 0, 0}; /* memberships and lse are float32 */
    return (error_bound){
        .plain = plain[result],
        .exact = exact[result],
        .magnitude = magnitude[result],
        .count = view.width * (view.is_keys ? c->key_at[c->seq_count] : c->query_at[c->seq_count]),
        .dtype = view.dtype,
        .factor = 2.0,
        .row = row[result],
        .known_worst = c->worst[result],
        .known_mean = c->mean[result]};
}

/* Widens what is known of plain loops by the results first..last of one draw. */
static void learn_errors(attn_case *c, const attn_case *draw, int first, int last)
{
    for (int result = first; result <= last; result++) {
        const error_bound bound = bound_of(draw, result);
        double worst = 0.0, mean = 0.0;
        if (view_of_result(draw, result).data) measure_error(&bound, bound.plain, &worst, &mean);
        c->worst[result] = fmax(c->worst[result], worst);
        c->mean[result] = fmax(c->mean[result], mean);
    }
}

enum { MORE_DRAWS = 4 };

/* Few results, and quickly had. */
static bool is_small(const attn_case *c)
{
    int64_t work = 0;
    for (int32_t n = 0; n < c->seq_count; n++)
        work += (int64_t)c->seqs[n].T * c->seqs[n].S * c->spec.H * c->spec.D;
    return c->query_at[c->seq_count] * c->spec.H < 1000 && work < 400000;
}

/* lse is float32 whatever the inputs. Products of bfloat16 are exact in float32, and often their
 * sums, so plain loops lose next to nothing there; a kernel that changes the base of its
 * exponentials does not have that gift. It may lose what float32 inputs would. */
static void learn_lse(attn_case *c)
{
    attn_spec spec = c->spec;
    spec.dtype = FOCAL_F32;
    attn_case *draw = draw_case(&spec, c->seed);
    learn_errors(c, draw, LSE, LSE);
    attn_case_free(draw);
}

attn_case *attn_case_new(const attn_spec *spec, uint64_t seed)
{
    attn_case *c = draw_case(spec, seed);
    for (uint64_t n = 1; is_small(c) && n <= MORE_DRAWS; n++) {
        attn_case *draw = draw_case(spec, seed + n * 1000003);
        learn_errors(c, draw, OUT, LSE);
        attn_case_free(draw);
    }
    if (spec->dtype == FOCAL_BF16) learn_lse(c);
    return c;
}

static void check_tensor(attn_case *c, int result, const char *kernel)
{
    static const char *const names[] = {"out", "lse", "dq", "dk", "dv", "dgq", "dgk"};
    const tensor_view view = view_of_result(c, result);
    if (!view.data) return;
    char full_name[640];
    (void)snprintf(full_name, sizeof full_name, "%s: %s: seed %llu: %s\n   ", kernel, names[result],
                   (unsigned long long)c->seed, attn_case_text(c));
    float *got = gather(c, view);
    error_bound bound = bound_of(c, result);
    bound.name = full_name;
    const char *text = error_beyond(&bound, got);
    free(got);
    if (text) fail_msg("%s", text);
    check_untouched(c, view, names[result], kernel);
}

void attn_case_check_forward(attn_case *c, const char *kernel)
{
    check_tensor(c, OUT, kernel);
    check_tensor(c, LSE, kernel);
}

/* Puts what an exact forward would leave into out and lse. */
static void leave_forward(attn_case *c)
{
    const int64_t wo = (int64_t)c->spec.H * value_width(&c->spec);
    for (int32_t n = 0; n < c->seq_count; n++) {
        for (int32_t i = 0; i < c->seqs[n].T; i++) {
            const int64_t row = c->seqs[n].q_row + i, at = c->query_at[n] + i;
            for (int64_t d = 0; d < wo; d++)
                element_set(c->args.out, row * out_stride(c) + d, c->spec.dtype,
                            (float)c->exact.out[at * wo + d]);
            for (int32_t h = 0; h < c->spec.H; h++)
                c->args.lse[row * c->spec.H + h] = (float)c->exact.lse[at * c->spec.H + h];
        }
    }
}

static void fill_dout(attn_case *c)
{
    const int64_t wo = (int64_t)c->spec.H * value_width(&c->spec);
    void *dout = new_tensor(c, c->q_rows, out_stride(c), wo, c->spec.dtype);
    c->grads.dout = dout;
    c->dout = keep_doubles(c, c->query_at[c->seq_count] * wo);
    for (int32_t n = 0; n < c->seq_count; n++)
        for (int32_t i = 0; i < c->seqs[n].T; i++)
            fill_values(advance(dout, (c->seqs[n].q_row + i) * out_stride(c), c->spec.dtype),
                        c->dout + (c->query_at[n] + i) * wo, (int32_t)wo, c->spec.dtype, c->seed,
                        stream_of(STREAM_DOUT, n), i * wo, 1.0F);
}

static void solve_backward(attn_case *c)
{
    const attn_spec *s = &c->spec;
    const int64_t wq = (int64_t)s->H * s->D, wk = (int64_t)s->G * s->D, Dv = value_width(s);
    const int64_t wv = s->G * Dv, wo = s->H * Dv, wg = s->gate ? (int64_t)c->routers * s->K : 0;
    const int64_t T = c->query_at[c->seq_count], S = c->key_at[c->seq_count];
    oracle_attn_grads *e = &c->exact_grads;
    *e = (oracle_attn_grads){keep_doubles(c, T * wq), keep_doubles(c, T * wq),
                             keep_doubles(c, S * wk), keep_doubles(c, S * wk),
                             keep_doubles(c, S * wv), keep_doubles(c, S * wv),
                             keep_doubles(c, T * wg), keep_doubles(c, T * wg),
                             keep_doubles(c, S * wg), keep_doubles(c, S * wg)};
    attn_results *p = &c->plain;
    p->dq = keep_floats(c, T * wq);
    p->dk = keep_floats(c, S * wk);
    p->dv = keep_floats(c, S * wv);
    p->dgq = keep_floats(c, T * wg);
    p->dgk = keep_floats(c, S * wg);
    float *out = gather(c, out_view(c)), *lse = gather(c, lse_view(c));
    for (int32_t n = 0; n < c->seq_count; n++) {
        const int64_t t = c->query_at[n], u = c->key_at[n];
        const oracle_attn_grads part = {e->dq + t * wq,
                                        e->dq_magnitude + t * wq,
                                        e->dk + u * wk,
                                        e->dk_magnitude + u * wk,
                                        e->dv + u * wv,
                                        e->dv_magnitude + u * wv,
                                        s->gate ? e->dgq + t * wg : NULL,
                                        s->gate ? e->dgq_magnitude + t * wg : NULL,
                                        s->gate ? e->dgk + u * wg : NULL,
                                        s->gate ? e->dgk_magnitude + u * wg : NULL};
        oracle_attn_backward(&c->problems[n], c->dout + t * wo, &part);
        const plain_attn_grads twin = {p->dq + t * wq, p->dk + u * wk, p->dv + u * wv,
                                       s->gate ? p->dgq + t * wg : NULL,
                                       s->gate ? p->dgk + u * wg : NULL};
        plain_attn_backward(&c->problems[n], s->dtype, out + t * wo, lse + t * s->H,
                            c->dout + t * wo, &twin);
    }
    free(out);
    free(lse);
}

static void draw_gradients(attn_case *c)
{
    fill_dout(c);
    new_inputs(c, &c->grads.dq, &c->grads.dk, &c->grads.dv);
    if (c->spec.gate) {
        const int64_t width = (int64_t)c->routers * c->spec.K;
        c->grads.dgq = new_tensor(c, c->q_rows, width, width, FOCAL_F32);
        c->grads.dgk = new_tensor(c, c->k_rows, width, width, FOCAL_F32);
    }
    leave_forward(c);
    solve_backward(c);
}

void attn_case_want_gradients(attn_case *c)
{
    if (c->grads.dout) return;
    draw_gradients(c);
    for (uint64_t n = 1; is_small(c) && n <= MORE_DRAWS; n++) {
        attn_case *draw = draw_case(&c->spec, c->seed + n * 1000003);
        draw_gradients(draw);
        learn_errors(c, draw, DQ, DGK);
        attn_case_free(draw);
    }
}

void attn_case_clear_backward(attn_case *c)
{
    attn_case_clear_forward(c);
    leave_forward(c);
    clear_tensor(c, dq_view(c));
    clear_tensor(c, dk_view(c));
    clear_tensor(c, dv_view(c));
    clear_tensor(c, membership_view(c, c->grads.dgq, false));
    clear_tensor(c, membership_view(c, c->grads.dgk, true));
}

void attn_case_check_backward(attn_case *c, const char *kernel)
{
    for (int result = DQ; result <= DGK; result++) check_tensor(c, result, kernel);
}
