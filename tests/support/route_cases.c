/* Routing cases. */
#include "support/route_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { STRIDE_GAP = 5 };

static const int32_t all_T[] = {1, 2, 7, 16, 17, 31, 33, 100, 257};
static const int32_t all_C[] = {1, 5, 16, 48, 64, 100, 576};
static const int32_t all_R[] = {1, 3, 16, 17};
static const int32_t all_K[] = {1, 2, 3, 4, 16, 17, 64};
static const unsigned all_flags[] = {
    CASE_OFFSETS | CASE_BETA,
    CASE_STRIDE,
    CASE_ONE | CASE_OFFSETS | CASE_BETA | CASE_MISALIGNED,
    CASE_RAW | CASE_ONE,
    CASE_RAW | CASE_OFFSETS | CASE_BETA | CASE_STRIDE | CASE_MISALIGNED,
};

int64_t route_shape_count(void)
{
    return (int64_t)(FOCAL_COUNT(all_T) * FOCAL_COUNT(all_C) +
                     FOCAL_COUNT(all_R) * FOCAL_COUNT(all_K));
}

route_shape route_shape_at(int64_t index)
{
    const int64_t Ts = FOCAL_COUNT(all_T), Cs = FOCAL_COUNT(all_C), Rs = FOCAL_COUNT(all_R),
                  Ks = FOCAL_COUNT(all_K), flag_count = FOCAL_COUNT(all_flags);
    route_shape s = {.routers = index % 2 ? 3 : 1, .flags = all_flags[index % flag_count]};
    if (index < Ts * Cs) {
        s.T = all_T[index % Ts];
        s.C = all_C[index / Ts];
        s.R = all_R[(index + index / Ts) % Rs];
        s.K = all_K[(index + index / Ts) % Ks];
    } else {
        index -= Ts * Cs;
        s.T = 33;
        s.C = 48;
        s.R = all_R[index % Rs];
        s.K = all_K[index / Rs];
    }
    return s;
}

const char *route_shape_text(route_shape s)
{
    static char text[128];
    (void)snprintf(text, sizeof text, "T %d C %d R %d K %d routers %d flags %u", s.T, s.C, s.R, s.K,
                   s.routers, s.flags);
    return text;
}

static void *keep(route_case *c, void *block)
{
    assert_true(c->block_count < (int)FOCAL_COUNT(c->blocks));
    c->blocks[c->block_count++] = block;
    return block;
}

float *route_case_floats(route_case *c, int64_t count)
{
    const int64_t shift = c->shape.flags & CASE_MISALIGNED ? 1 : 0;
    const size_t bytes = ((size_t)(count + shift + 1) * sizeof(float) + 63) & ~(size_t)63;
    float *block = keep(c, aligned_alloc(64, bytes));
    assert_non_null(block);
    fill_nan(block, bytes / sizeof(float), FOCAL_F32);
    return block + shift;
}

double *route_case_doubles(route_case *c, int64_t count)
{
    return keep(c, new_array((size_t)count, sizeof(double)));
}

void assert_end_untouched(const char *name, const float *x, int64_t count)
{
    if (!is_fill_nan(x, (size_t)count, FOCAL_F32)) fail_msg("%s: written past its end", name);
}

void fill_normals(float *x, int64_t n, float scale, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++) x[i] = scale * foci_random_normal(seed, 11, (uint64_t)i);
}

double *to_doubles(const float *x, int64_t n)
{
    double *y = new_array((size_t)n, sizeof *y);
    for (int64_t i = 0; i < n; i++) y[i] = (double)x[i];
    return y;
}

/* n normals, kept as floats and as doubles. */
static float *both(route_case *c, int64_t n, float scale, uint64_t seed, double **doubles)
{
    float *x = route_case_floats(c, n);
    fill_normals(x, n, scale, seed);
    *doubles = keep(c, to_doubles(x, n));
    return x;
}

static void make_tokens(route_case *c, uint64_t seed)
{
    const int64_t T = c->shape.T, C = c->shape.C;
    const int64_t stride = c->shape.flags & CASE_STRIDE ? C + STRIDE_GAP : C;
    c->h_count = (T - 1) * stride + C;
    float *h = route_case_floats(c, c->h_count);
    for (int64_t i = 0; i < T; i++) fill_normals(h + i * stride, C, 1.0F, seed + (uint64_t)i * 64);
    c->h = route_case_doubles(c, T * C);
    for (int64_t n = 0; n < T * C; n++) c->h[n] = (double)h[n / C * stride + n % C];
    c->args.h = h;
    c->args.h_stride = c->shape.flags & CASE_STRIDE ? stride : 0;
}

route_case *route_case_new(route_shape s, uint64_t seed)
{
    route_case *c = new_array(1, sizeof *c);
    const float p_scale = s.flags & CASE_RAW ? 0.25F : 1.0F;
    double *x;
    seed *= 1000003;
    c->shape = s;
    c->s_count = (int64_t)s.T * s.routers * s.K;
    c->p_count = (int64_t)s.routers * s.C * s.R;
    c->a_count = (int64_t)s.routers * s.R;
    c->e_count = (int64_t)s.routers * s.K * s.R;
    focal_router *t = &c->router;
    *t = (focal_router){.C = s.C,
                        .R = s.R,
                        .K = s.K,
                        .routers = s.routers,
                        .is_raw = (s.flags & CASE_RAW) != 0,
                        .sharpness = s.flags & CASE_RAW ? 0.75F : 0.0F};
    c->exact = (oracle_router){.C = s.C,
                               .R = s.R,
                               .K = s.K,
                               .routers = s.routers,
                               .is_raw = t->is_raw,
                               .sharpness = t->is_raw ? 0.75 : 10.0};
    t->pk = both(c, c->p_count, p_scale, seed + 1, &x);
    c->exact.pk = x;
    t->e = both(c, c->e_count, 1.0F, seed + 2, &x);
    c->exact.e = x;
    if (!(s.flags & CASE_ONE)) {
        t->pq = both(c, c->p_count, p_scale, seed + 3, &x);
        c->exact.pq = x;
    }
    if (s.flags & CASE_OFFSETS) {
        t->ak = both(c, c->a_count, 1.0F, seed + 4, &x);
        c->exact.ak = x;
    }
    if ((s.flags & CASE_OFFSETS) && !(s.flags & CASE_ONE)) {
        t->aq = both(c, c->a_count, 1.0F, seed + 5, &x);
        c->exact.aq = x;
    }
    if (s.flags & CASE_BETA) {
        t->beta = both(c, (int64_t)s.routers * s.K, 1.0F, seed + 6, &x);
        c->exact.beta = x;
    }
    c->dsk = both(c, c->s_count, 1.0F, seed + 7, &c->dsk64);
    c->dsq = both(c, c->s_count, 1.0F, seed + 8, &c->dsq64);
    c->args = (focal_route_args){.router = t, .T = s.T};
    make_tokens(c, seed + 9);
    return c;
}

void route_case_free(route_case *c)
{
    for (int n = 0; n < c->block_count; n++) free(c->blocks[n]);
    free(c);
}

bool kernel_takes(focal_ctx *ctx, const foci_route_kernel *kernel, const focal_route_args *args)
{
    focal_route_args normal;
    focal_router router;
    assert_status(ctx, foci_route_normalise(ctx, args, &normal, &router), FOCAL_OK);
    return kernel->can(ctx, &normal);
}

void run_forward(focal_ctx *ctx, const foci_route_kernel *kernel, const focal_route_args *args)
{
    focal_route_args normal;
    focal_router router;
    assert_status(ctx, foci_route_normalise(ctx, args, &normal, &router), FOCAL_OK);
    assert_status(ctx, kernel->forward(ctx, &normal), FOCAL_OK);
}

void run_backward(focal_ctx *ctx, const foci_route_kernel *kernel, const focal_route_args *args,
                  const focal_route_grads *grads)
{
    focal_route_args normal;
    focal_router router;
    assert_status(ctx, foci_route_normalise(ctx, args, &normal, &router), FOCAL_OK);
    assert_status(ctx, kernel->backward(ctx, &normal, grads), FOCAL_OK);
}
