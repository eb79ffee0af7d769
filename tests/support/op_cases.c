/* Arrays with gaps, kernels that can run, golden vectors, thread counts. */
#include "support/op_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/random.h"
#include "support/check.h"

grid grid_new(int64_t rows, int64_t width, focal_dtype dtype, unsigned flags)
{
    grid g = {.dtype = dtype, .rows = rows, .width = width, .stride = width};
    const size_t bytes = focal_dtype_bytes(dtype);
    if (flags & GRID_GAPS) g.stride += 3;
    g.count = g.stride * rows + 1;
    g.block = new_array((size_t)g.count + 1, bytes);
    g.data = (char *)g.block + (flags & GRID_MISALIGNED ? bytes : 0);
    fill_nan(g.data, (size_t)g.count, dtype);
    return g;
}

void grid_free(grid *g)
{
    free(g->block);
}

void grid_fill(const grid *g, const float *packed)
{
    for (int64_t n = 0; n < g->rows * g->width; n++)
        element_set(g->data, n / g->width * g->stride + n % g->width, g->dtype, packed[n]);
}

float *grid_packed(const grid *g)
{
    float *packed = new_array((size_t)(g->rows * g->width), sizeof *packed);
    for (int64_t n = 0; n < g->rows * g->width; n++)
        packed[n] = element_get(g->data, n / g->width * g->stride + n % g->width, g->dtype);
    return packed;
}

void assert_gaps_untouched(const char *name, const grid *g)
{
    for (int64_t n = 0; n < g->count; n++) {
        const bool is_element = n / g->stride < g->rows && n % g->stride < g->width;
        if (!is_element && !is_fill_nan(g->data, (size_t)n, g->dtype))
            fail_msg("%s: wrote element %lld, between or behind its rows", name, (long long)n);
    }
}

const foci_rows_kernel *next_kernel(const focal_ctx *ctx, const foci_rows_op *op, size_t *next)
{
    while (*next < op->kernel_count) {
        const foci_rows_kernel *kernel = &op->kernels[(*next)++];
        if (foci_has(ctx, kernel->features)) return kernel;
    }
    return NULL;
}

float *new_normals(int64_t count, float scale, uint64_t seed)
{
    float *x = new_array((size_t)count, sizeof *x);
    for (int64_t n = 0; n < count; n++) x[n] = scale * foci_random_normal(seed, 7, (uint64_t)n);
    return x;
}

const double *case_doubles(const golden_case *c, const char *name, int64_t count)
{
    const double *data = golden_get(c, name, count);
    if (!data) fail_msg("%s: no %s", c->name, name);
    return data;
}

float *case_floats(const golden_case *c, const char *name, int64_t count)
{
    const double *data = case_doubles(c, name, count);
    float *x = new_array((size_t)count, sizeof *x);
    for (int64_t n = 0; n < count; n++) x[n] = (float)data[n];
    return x;
}

void each_golden_of(const char *file, const char *prefix, int count, void *user,
                    void (*check)(const golden_case *c, void *user))
{
    golden *g = golden_open(file);
    int met = 0;
    for (int n = 0; n < g->case_count; n++) {
        if (strncmp(g->cases[n].name, prefix, strlen(prefix)) != 0) continue;
        check(&g->cases[n], user);
        met++;
    }
    assert_int_equal(met, count);
    golden_close(g);
}

void each_golden(const char *prefix, int count, void *user,
                 void (*check)(const golden_case *c, void *user))
{
    each_golden_of("ops", prefix, count, user, check);
}

void assert_roundings(const char *name, const float *got, const double *expected,
                      const double *sizes, int64_t count, double roundings)
{
    for (int64_t n = 0; n < count; n++) {
        const double limit = roundings * 0x1p-24 * (sizes ? sizes[n] : fabs(expected[n]));
        if (!(fabs((double)got[n] - expected[n]) <= limit))
            fail_msg("%s: element %lld is %.9g, expected %.9g, allowed %.3g", name, (long long)n,
                     (double)got[n], expected[n], limit);
    }
}

void assert_same_bits(const char *name, size_t bytes, const void *problem,
                      void (*make)(focal_ctx *ctx, const void *problem, void *out))
{
    unsigned char *first = new_array(bytes, 1), *other = new_array(bytes, 1);
    for (int32_t threads = 1; threads <= 5; threads++) {
        focal_ctx *ctx = new_ctx(threads);
        memset(other, 0xFF, bytes);
        make(ctx, problem, threads == 1 ? first : other);
        if (threads > 1 && memcmp(first, other, bytes) != 0)
            fail_msg("%s: other bits with %d threads", name, threads);
        focal_ctx_close(ctx);
    }
    free(first);
    free(other);
}

int64_t fail_each_request(focal_ctx *ctx, const void *problem,
                          focal_status (*call)(focal_ctx *ctx, const void *problem))
{
    focal_ctx_trim(ctx);
    const int64_t live = memory_live_blocks();
    for (int64_t n = 1;; n++) {
        memory_fail(n, true);
        const focal_status status = call(ctx, problem);
        const bool was_reached = memory_requests() >= n;
        memory_fail(0, false);
        assert_status(ctx, status, was_reached ? FOCAL_ENOMEM : FOCAL_OK);
        focal_ctx_trim(ctx);
        assert_int_equal(memory_live_blocks(), live);
        if (!was_reached) return n - 1;
    }
}
