/* Products to test. */
#include "support/matmul_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/random.h"
#include "base/sizes.h"
#include "focal/quant.h"
#include "ops/interleave.h"
#include "ops/matmul/bytes.h"
#include "ops/matmul/matmul_kernels.h"
#include "support/check.h"

enum { STREAM_X = 1, STREAM_W, STREAM_SCALE, STREAM_BIAS, STREAM_OLD, STREAM_SPEC };

/* Where the float16 scales of a block lie; -1: none. The other bytes may be anything. */
static const struct {
    int at[2];
} scales[] = {
    [FOCAL_Q8_0] = {{0, -1}},   [FOCAL_Q4_0] = {{0, -1}},   [FOCAL_Q4_1] = {{0, 2}},
    [FOCAL_Q5_0] = {{0, -1}},   [FOCAL_Q5_1] = {{0, 2}},    [FOCAL_Q2_K] = {{80, 82}},
    [FOCAL_Q3_K] = {{108, -1}}, [FOCAL_Q4_K] = {{0, 2}},    [FOCAL_Q5_K] = {{0, 2}},
    [FOCAL_Q6_K] = {{208, -1}}, [FOCAL_IQ4_NL] = {{0, -1}},
};

/* A float16 between 2^-7 and 2^-4, of either sign. */
static uint16_t random_half(uint64_t seed, uint64_t n)
{
    const uint32_t bits = foci_random_u32(seed, STREAM_SCALE, n);
    return (uint16_t)((bits & 0x83FFU) | (8U + bits / 65536U % 3U) << 10);
}

/* count elements, whole blocks, of any type. */
static void fill_weights(unsigned char *to, focal_dtype dtype, int64_t count, uint64_t seed)
{
    const int64_t blocks = count / focal_dtype_block(dtype);
    const size_t bytes = focal_dtype_block_bytes(dtype);
    for (int64_t b = 0; b < blocks; b++, to += bytes) {
        if (dtype == FOCAL_F32 || dtype == FOCAL_BF16) {
            const float value = foci_random_normal(seed, STREAM_W, (uint64_t)b);
            const uint16_t half = foci_bf16_from_float(value);
            memcpy(to, dtype == FOCAL_F32 ? (const void *)&value : (const void *)&half, bytes);
            continue;
        }
        if (dtype == FOCAL_F16) {
            const uint16_t half = random_half(seed, (uint64_t)b);
            memcpy(to, &half, bytes);
            continue;
        }
        for (size_t n = 0; n < bytes; n++)
            to[n] = (unsigned char)foci_random_u32(seed, STREAM_W, (uint64_t)b * bytes + n);
        for (int n = 0; n < 2; n++) {
            if (scales[dtype].at[n] < 0) continue;
            const uint16_t half = random_half(seed, (uint64_t)b * 2 + (uint64_t)n);
            memcpy(to + scales[dtype].at[n], &half, sizeof half);
        }
    }
}

/* Rounding to 16 bits, for each 32 elements of a row, leaves these as they are: whole numbers up to
 * 127 * 256, which one of them has, times a power of two. The same for 8 bits and each 16 elements
 * of a bfloat16 x: up to 127. */
static void make_whole(const foci_matmul_args *a, void *x, uint64_t seed, double *numbers)
{
    const bool is_short = a->x_dtype == FOCAL_BF16;
    const int32_t most = is_short ? 127 : 127 * 256;
    const uint32_t run = is_short ? 16 : 32;
    for (int64_t n = 0; n < a->M * a->K; n++) {
        const uint32_t bits = foci_random_u32(seed, STREAM_X, (uint64_t)n);
        const int64_t row = n / a->K, k = n % a->K, at = row * a->x_stride + k;
        const uint32_t block =
            foci_random_u32(seed, STREAM_SCALE, (uint64_t)(row * a->K + k / (int64_t)run));
        const int32_t whole = k % (int64_t)run == (int64_t)(block % run)
                                  ? most
                                  : (int32_t)(bits % (uint32_t)(2 * most + 1)) - most;
        element_set(x, at, a->x_dtype, ldexpf((float)whole, -16 - (int)(block / run % 8U)));
        numbers[n] = (double)element_get(x, at, a->x_dtype);
    }
}

/* Rows and elements of a row of w as it lies, and bytes from row to row. */
static int64_t w_rows(const foci_matmul_args *a)
{
    return a->w_is_transposed ? a->K : a->N;
}

static int64_t w_width(const foci_matmul_args *a)
{
    return a->w_is_transposed ? a->N : a->K;
}

static size_t w_row_bytes(const foci_matmul_args *a)
{
    const int64_t stride = a->w_stride > 0 ? a->w_stride : w_width(a);
    return (size_t)(stride / focal_dtype_block(a->w_dtype)) * focal_dtype_block_bytes(a->w_dtype);
}

/* The weights as the definition means them: (N,K), rounded where x is bfloat16 and meets them as
 * such. */
static void read_weights(const matmul_case *c, double *to)
{
    const foci_matmul_args *a = &c->args;
    const int64_t rows = w_rows(a), width = w_width(a);
    float *values = new_array((size_t)width, sizeof *values);
    for (int64_t r = 0; r < rows; r++) {
        const char *row = (const char *)a->w + (size_t)r * w_row_bytes(a);
        assert_int_equal(focal_dequantize(a->w_dtype, row, width, values), FOCAL_OK);
        for (int64_t i = 0; i < width; i++) {
            const float value = a->x_dtype == FOCAL_BF16 && !foci_takes_levels(a)
                                    ? foci_bf16_to_float(foci_bf16_from_float(values[i]))
                                    : values[i];
            to[a->w_is_transposed ? i * a->K + r : r * a->K + i] = (double)value;
        }
    }
    free(values);
}

/* Random elements with gaps of NaN between the rows, and the same as numbers. */
static void *new_matrix(int64_t rows, int64_t width, int64_t stride, focal_dtype dtype,
                        uint64_t seed, uint64_t stream, double *numbers)
{
    void *data = new_array((size_t)(rows * stride), focal_dtype_bytes(dtype));
    fill_nan(data, (size_t)(rows * stride), dtype);
    for (int64_t m = 0; m < rows; m++) {
        for (int64_t n = 0; n < width; n++) {
            const uint64_t at = (uint64_t)(m * width + n);
            element_set(data, m * stride + n, dtype, foci_random_normal(seed, stream, at));
            numbers[at] = (double)element_get(data, m * stride + n, dtype);
        }
    }
    return data;
}

/* An x that lies transposed. */
static void *new_columns(const foci_matmul_args *a, uint64_t seed, double *numbers)
{
    double *lying = new_array((size_t)(a->K * a->M), sizeof *lying);
    void *x = new_matrix(a->K, a->M, a->x_stride, a->x_dtype, seed, STREAM_X, lying);
    for (int64_t m = 0; m < a->M; m++)
        for (int64_t k = 0; k < a->K; k++) numbers[m * a->K + k] = lying[k * a->M + m];
    free(lying);
    return x;
}

static void interleave(matmul_case *c)
{
    foci_matmul_args *a = &c->args;
    const size_t bytes = FOCI_INTERLEAVED_ROWS * w_row_bytes(a);
    char *group = (char *)c->w + c->spec.w_shift, *rows = new_array(bytes, 1);
    assert_true(foci_interleave_can(a->w_dtype, w_rows(a), w_width(a)));
    for (int64_t r = 0; r < w_rows(a); r += FOCI_INTERLEAVED_ROWS, group += bytes) {
        memcpy(rows, group, bytes);
        foci_interleave_group(a->w_dtype, w_width(a), rows, group);
    }
    a->w_is_interleaved = true;
    free(rows);
}

static void fill_case(matmul_case *c, uint64_t seed)
{
    foci_matmul_args *a = &c->args;
    const matmul_spec *s = &c->spec;
    double *x = c->numbers, *w = x + a->M * a->K, *bias = w + a->N * a->K, *old = bias + a->N;
    c->x = s->x_is_transposed ? new_columns(a, seed, x)
                              : new_matrix(a->M, a->K, a->x_stride, s->x, seed, STREAM_X, x);
    if (s->rounds) make_whole(a, c->x, seed, x);
    c->before = new_matrix(a->M, a->N, a->out_stride, s->out, seed, STREAM_OLD, old);
    c->bias = new_matrix(1, a->N, a->N, FOCAL_F32, seed, STREAM_BIAS, bias);
    if (!s->adds) fill_nan(c->before, (size_t)(a->M * a->out_stride), s->out);
    const size_t row = w_row_bytes(a), last = (size_t)(w_width(a) / focal_dtype_block(s->w)) *
                                              focal_dtype_block_bytes(s->w);
    c->w = new_array((size_t)(w_rows(a) - 1) * row + last + s->w_shift, 1);
    for (int64_t r = 0; r < w_rows(a); r++)
        fill_weights((unsigned char *)c->w + s->w_shift + (size_t)r * row, s->w, w_width(a),
                     seed + (uint64_t)r * 1000);
    a->x = c->x;
    a->w = (char *)c->w + s->w_shift;
    a->out = c->out;
    a->bias = s->has_bias ? c->bias : NULL;
    read_weights(c, w);
    if (s->is_interleaved) interleave(c);
    c->problem =
        (matmul_problem){a->M, a->N, a->K, x, w, s->has_bias ? bias : NULL, s->adds ? old : NULL};
}

matmul_case *matmul_case_new(const matmul_spec *spec, uint64_t seed)
{
    matmul_case *c = new_array(1, sizeof *c);
    const int64_t block = focal_dtype_block(spec->w), M = spec->M;
    const int64_t N = spec->is_transposed ? foci_round_up(spec->N, block) : spec->N;
    const int64_t K = spec->is_transposed ? spec->K : foci_round_up(spec->K, block);
    c->spec = *spec;
    c->args = (foci_matmul_args){.M = M,
                                 .N = N,
                                 .K = K,
                                 .x_dtype = spec->x,
                                 .x_stride = (spec->x_is_transposed ? M : K) + spec->x_gap,
                                 .x_is_transposed = spec->x_is_transposed,
                                 .rounds_x = spec->rounds,
                                 .w_dtype = spec->w,
                                 .w_is_transposed = spec->is_transposed,
                                 .adds = spec->adds,
                                 .out_dtype = spec->out,
                                 .out_stride = N + spec->out_gap};
    if (spec->w_gap > 0) c->args.w_stride = (spec->is_transposed ? N : K) + spec->w_gap * block;
    c->count = M * N;
    c->out_bytes = (size_t)(M * c->args.out_stride) * focal_dtype_bytes(spec->out);
    c->out = new_array(c->out_bytes, 1);
    c->numbers = new_array((size_t)(M * K + N * K + N + M * N), sizeof *c->numbers);
    c->exact = new_array((size_t)c->count, sizeof *c->exact);
    c->magnitude = new_array((size_t)c->count, sizeof *c->magnitude);
    c->plain = new_array((size_t)c->count, sizeof *c->plain);
    c->got = new_array((size_t)c->count, sizeof *c->got);
    fill_case(c, seed);
    matmul_case_solve(c);
    return c;
}

void matmul_case_free(matmul_case *c)
{
    free(c->x);
    free(c->w);
    free(c->out);
    free(c->before);
    free(c->bias);
    free(c->numbers);
    free(c->exact);
    free(c->magnitude);
    free(c->plain);
    free(c->got);
    free(c);
}

void matmul_case_solve(matmul_case *c)
{
    oracle_matmul(&c->problem, c->exact, c->magnitude);
    plain_matmul(&c->problem, c->plain);
    if (c->spec.out == FOCAL_F32) return;
    for (int64_t n = 0; n < c->count; n++)
        c->plain[n] = foci_bf16_to_float(foci_bf16_from_float(c->plain[n]));
}

void matmul_case_read_weights(matmul_case *c)
{
    read_weights(c, c->numbers + c->args.M * c->args.K);
    matmul_case_solve(c);
}

void matmul_case_clear(matmul_case *c)
{
    memcpy(c->out, c->before, c->out_bytes);
}

void matmul_case_check(matmul_case *c, const char *kernel)
{
    const foci_matmul_args *a = &c->args;
    const size_t bytes = focal_dtype_bytes(a->out_dtype), row = (size_t)a->out_stride * bytes;
    const size_t width = (size_t)a->N * bytes;
    for (int64_t m = 0; m < a->M; m++) {
        const size_t gap = (size_t)m * row + width;
        if (memcmp((char *)c->out + gap, (char *)c->before + gap, row - width) != 0)
            fail_msg("%s writes behind row %lld: %s", kernel, (long long)m, matmul_case_text(c));
        for (int64_t n = 0; n < a->N; n++)
            c->got[m * a->N + n] = element_get(c->out, m * a->out_stride + n, a->out_dtype);
    }
    const error_bound bound = {.name = kernel,
                               .plain = c->plain,
                               .exact = c->exact,
                               .magnitude = c->magnitude,
                               .count = c->count,
                               .dtype = a->out_dtype,
                               .factor = 2.0};
    const char *text = error_beyond(&bound, c->got);
    if (text) fail_msg("%s: %s", text, matmul_case_text(c));
}

static int64_t pick(uint64_t seed, uint64_t n, const int64_t *from, size_t count)
{
    return from[foci_random_below(seed, STREAM_SPEC, n, (uint32_t)count)];
}

static bool coin(uint64_t seed, uint64_t n)
{
    return foci_random_below(seed, STREAM_SPEC, n, 2) == 1;
}

matmul_spec matmul_spec_random(uint64_t seed)
{
    static const int64_t M[] = {1, 2, 3, 4, 5, 7, 8, 12, 17, 37, 64, 65, 70, 71, 73, 84};
    static const int64_t N[] = {1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 61, 64, 65, 97, 129, 211};
    static const int64_t K[] = {1, 2, 3, 15, 16, 31, 32, 33, 63, 65, 96, 160, 255, 257, 513, 577};
    matmul_spec s = {.M = pick(seed, 0, M, FOCAL_COUNT(M)),
                     .N = pick(seed, 1, N, FOCAL_COUNT(N)),
                     .K = pick(seed, 2, K, FOCAL_COUNT(K)),
                     .x = coin(seed, 3) ? FOCAL_BF16 : FOCAL_F32,
                     .w = (focal_dtype)foci_random_below(seed, STREAM_SPEC, 4, FOCAL_IQ4_NL + 1),
                     .out = coin(seed, 5) ? FOCAL_BF16 : FOCAL_F32,
                     .is_transposed = foci_random_below(seed, STREAM_SPEC, 6, 4) == 0,
                     .has_bias = coin(seed, 7),
                     .adds = coin(seed, 8),
                     .x_gap = foci_random_below(seed, STREAM_SPEC, 9, 4),
                     .out_gap = foci_random_below(seed, STREAM_SPEC, 10, 4),
                     .w_shift = foci_random_below(seed, STREAM_SPEC, 11, 5),
                     .x_is_transposed = foci_random_below(seed, STREAM_SPEC, 12, 3) == 0,
                     .w_gap =
                         foci_max64(0, (int64_t)foci_random_below(seed, STREAM_SPEC, 14, 6) - 3)};
    if (!s.is_transposed && !s.x_is_transposed && focal_dtype_block(s.w) > 1 && coin(seed, 13)) {
        s.x = FOCAL_F32;
        s.rounds = true;
    }
    s.is_interleaved = s.w_gap == 0 && foci_interleave_can(s.w, s.is_transposed ? s.K : s.N, 256) &&
                       coin(seed, 15);
    return s;
}

const char *matmul_case_text(const matmul_case *c)
{
    static char text[320];
    const foci_matmul_args *a = &c->args;
    (void)snprintf(
        text, sizeof text,
        "%lld x %lld x %lld, x %s%s%s, w %s%s%s, out %s%s%s, gaps %lld %lld %lld, shift %zu",
        (long long)a->M, (long long)a->N, (long long)a->K, focal_dtype_name(a->x_dtype),
        a->rounds_x ? " rounded" : "", a->x_is_transposed ? " transposed" : "",
        focal_dtype_name(a->w_dtype), a->w_is_transposed ? " transposed" : "",
        a->w_is_interleaved ? " interleaved" : "", focal_dtype_name(a->out_dtype),
        a->bias ? ", bias" : "", a->adds ? ", adds" : "", (long long)c->spec.x_gap,
        (long long)c->spec.w_gap, (long long)c->spec.out_gap, c->spec.w_shift);
    return text;
}

bool matmul_case_is_for(const matmul_case *c, const foci_matmul_kernel *kernel)
{
    return !foci_takes_levels(&c->args) || kernel->has_levels;
}

void matmul_case_run(focal_ctx *ctx, const char *what, matmul_case *c)
{
    for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
        const foci_matmul_kernel *kernel = foci_matmul_kernels[n];
        if (!kernel->can(ctx, &c->args)) continue;
        if (!matmul_case_is_for(c, kernel)) continue;
        matmul_case_clear(c);
        assert_status(ctx, kernel->run(ctx, &c->args), FOCAL_OK);
        matmul_case_check(c, kernel->name);
        note_ran(what, kernel->name);
    }
}
