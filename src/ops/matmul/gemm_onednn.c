/* Products of weights by oneDNN: our threads call it, each for its own outputs, with weights that
 * they expand into scratch. It must not start threads itself, so each call tells its OpenMP so. */
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "ops/matmul/matmul_kernels.h"
#include "ops/matmul/weights.h"

/* Of the OpenMP that oneDNN is built with, whose header not every compiler has. */
extern int omp_get_max_threads(void);
extern void omp_set_num_threads(int threads);

enum {
    CHUNK_BYTES = 512 * 1024, /* of expanded weights, in a cache of 1 MiB */
    CHUNK_STEP = 32,          /* outputs of a chunk are a multiple */
    CHUNKS = 8                /* at least as many where that leaves a step each */
};

/* A product of one shape, ready to run. */
typedef struct gemm {
    dnnl_memory_desc_t x, w, bias, out, scratchpad;
    dnnl_primitive_t primitive; /* NULL: not made */
} gemm;

typedef struct gemm_call {
    const foci_matmul_args *a;
    foci_weights w;
    dnnl_engine_t engine;
    int64_t chunk; /* outputs of an item: by the shape alone, for the bits may depend on it */
    gemm whole, rest;
    char *scratch; /* thread_bytes a thread: scratchpad, then expanded weights */
    size_t pad_bytes, thread_bytes;
    _Atomic dnnl_status_t status;
} gemm_call;

/* Some virtual machines show AMX and hide its palettes: every tile instruction is illegal there,
 * and oneDNN would run them. */
static bool has_broken_amx(void)
{
#if defined(__x86_64__)
    enum { FEATURES = 7, AMX_TILE = 24, PALETTES = 0x1D };
    unsigned a, b, c, d;
    if (!__get_cpuid_count(FEATURES, 0, &a, &b, &c, &d) || !(d >> AMX_TILE & 1U)) return false;
    return !__get_cpuid_count(PALETTES, 1, &a, &b, &c, &d) || a == 0;
#else
    return false;
#endif
}

/* Before oneDNN looks at the processor. */
static void limit_onednn(void)
{
    if (has_broken_amx()) (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
}

static bool can_run(const focal_ctx *ctx, const foci_matmul_args *a)
{
    if (!foci_on_host(ctx) || DNNL_CPU_THREADING_RUNTIME != DNNL_RUNTIME_OMP) return false;

    if (a->x_dtype == FOCAL_BF16 && !foci_has(ctx, FOCI_AVX512BF16)) return false;
    if (a->x_dtype == FOCAL_F32 && a->out_dtype != FOCAL_F32) return false;
    if (a->w_is_transposed && a->w_dtype != a->x_dtype) return false;
    return a->M > FOCI_MATMUL_FEW;
}

static dnnl_data_type_t type_of(focal_dtype dtype)
{
    return dtype == FOCAL_F32 ? dnnl_f32 : dnnl_bf16;
}

/* Runs the calls in turn until one fails. */
#define DNNL_TRY(call)                                                                             \
    do {                                                                                           \
        const dnnl_status_t try_status_ = (call);                                                  \
        if (try_status_ != dnnl_success) return try_status_;                                       \
    } while (0)

static dnnl_status_t describe(dnnl_memory_desc_t *md, int64_t rows, int64_t columns,
                              focal_dtype dtype, int64_t row_stride, int64_t column_stride)
{
    const dnnl_dims_t dims = {rows, columns}, strides = {row_stride, column_stride};
    return dnnl_memory_desc_init_by_strides(md, 2, dims, type_of(dtype), strides);
}

static dnnl_status_t make_attributes(const foci_matmul_args *a, dnnl_primitive_attr_t attributes)
{
    DNNL_TRY(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user));
    if (!a->adds) return dnnl_success;
    dnnl_post_ops_t post = NULL;
    DNNL_TRY(dnnl_post_ops_create(&post));
    dnnl_status_t status = dnnl_post_ops_append_sum(post, 1.0F);
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attributes, post);
    (void)dnnl_post_ops_destroy(post);
    return status;
}

/* The product for `columns` outputs. */
static dnnl_status_t make_gemm(const gemm_call *c, int64_t columns, gemm *g)
{
    const foci_matmul_args *a = c->a;
    const int64_t w_width = a->w_is_transposed ? a->N : a->K;
    const bool keeps_stride = a->w_stride > 0 && foci_weights_in_place(&c->w);
    const int64_t w_stride = keeps_stride ? a->w_stride : w_width;
    DNNL_TRY(describe(&g->x, a->M, a->K, a->x_dtype, a->x_is_transposed ? 1 : a->x_stride,
                      a->x_is_transposed ? a->x_stride : 1));
    DNNL_TRY(describe(&g->w, a->K, columns, a->x_dtype, a->w_is_transposed ? w_stride : 1,
                      a->w_is_transposed ? 1 : w_stride));
    DNNL_TRY(describe(&g->bias, 1, columns, FOCAL_F32, columns, 1));
    DNNL_TRY(describe(&g->out, a->M, columns, a->out_dtype, a->out_stride, 1));
    dnnl_matmul_desc_t desc;
    DNNL_TRY(dnnl_matmul_desc_init(&desc, &g->x, &g->w, a->bias ? &g->bias : NULL, &g->out));
    dnnl_primitive_attr_t attributes = NULL;
    DNNL_TRY(dnnl_primitive_attr_create(&attributes));
    dnnl_primitive_desc_t primitive_desc = NULL;
    dnnl_status_t status = make_attributes(a, attributes);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(&primitive_desc, &desc, attributes, c->engine, NULL);
    if (status == dnnl_success) {
        g->scratchpad = *dnnl_primitive_desc_query_md(primitive_desc, dnnl_query_scratchpad_md, 0);
        status = dnnl_primitive_create(&g->primitive, primitive_desc);
    }
    (void)dnnl_primitive_desc_destroy(primitive_desc);
    (void)dnnl_primitive_attr_destroy(attributes);
    return status;
}

/* What a product is called with. */
typedef struct operand {
    int name;
    const dnnl_memory_desc_t *desc;
    const void *data;
} operand;

enum { OPERANDS = 5 };

static dnnl_status_t execute(const gemm_call *c, const gemm *g, const operand operands[OPERANDS])
{
    dnnl_exec_arg_t args[OPERANDS];
    int count = 0;
    dnnl_stream_t stream = NULL;
    dnnl_status_t status = dnnl_stream_create(&stream, c->engine, dnnl_stream_default_flags);
    for (int n = 0; n < OPERANDS && status == dnnl_success; n++) {
        if (!operands[n].data) continue;
        args[count].arg = operands[n].name;
        args[count].memory = NULL;
        void *data; /* the interface knows no const; output and scratchpad alone are written */
        memcpy(&data, &operands[n].data, sizeof data);
        status = dnnl_memory_create(&args[count].memory, operands[n].desc, c->engine, data);
        count++;
    }
    if (status == dnnl_success) status = dnnl_primitive_execute(g->primitive, stream, count, args);
    for (int n = 0; n < count; n++) (void)dnnl_memory_destroy(args[n].memory);
    (void)dnnl_stream_destroy(stream);
    return status;
}

/* The weights of outputs n .. n + columns, as oneDNN reads them. */
static const void *read_weights(const gemm_call *c, int64_t n, int64_t columns, char *expanded)
{
    const foci_matmul_args *a = c->a;
    if (a->w_is_transposed) return c->w.data + (size_t)n * focal_dtype_bytes(a->w_dtype);
    if (foci_weights_in_place(&c->w)) return foci_weights_row(&c->w, n, 0, a->K, NULL);
    const size_t row_bytes = (size_t)a->K * focal_dtype_bytes(a->x_dtype);
    for (int64_t r = 0; r < columns; r++)
        (void)foci_weights_row(&c->w, n + r, 0, a->K, expanded + (size_t)r * row_bytes);
    return expanded;
}

static void multiply_chunk(void *arg, int64_t index, int32_t thread)
{
    gemm_call *c = arg;
    const foci_matmul_args *a = c->a;
    const int64_t n = index * c->chunk, columns = foci_min64(a->N - n, c->chunk);
    const gemm *g = columns == c->chunk ? &c->whole : &c->rest;
    char *scratch = c->scratch + (size_t)thread * c->thread_bytes;
    const operand operands[OPERANDS] = {
        {DNNL_ARG_SRC, &g->x, a->x},
        {DNNL_ARG_WEIGHTS, &g->w, read_weights(c, n, columns, scratch + c->pad_bytes)},
        {DNNL_ARG_BIAS, &g->bias, a->bias ? a->bias + n : NULL},
        {DNNL_ARG_DST, &g->out, (char *)a->out + (size_t)n * focal_dtype_bytes(a->out_dtype)},
        {DNNL_ARG_SCRATCHPAD, &g->scratchpad, scratch},
    };
    const int threads = omp_get_max_threads(); /* of this thread: it may be the caller's */
    omp_set_num_threads(1);
    const dnnl_status_t status = execute(c, g, operands);
    omp_set_num_threads(threads);
    if (status != dnnl_success) atomic_store_explicit(&c->status, status, memory_order_relaxed);
}

static int64_t choose_chunk(const foci_matmul_args *a)
{
    const int64_t row_bytes = a->K * (int64_t)focal_dtype_bytes(a->x_dtype);
    const int64_t fits = foci_max64(CHUNK_BYTES / row_bytes / CHUNK_STEP, 1) * CHUNK_STEP;
    return foci_min64(a->N, foci_min64(fits, foci_round_up(foci_pieces(a->N, CHUNKS), CHUNK_STEP)));
}

static dnnl_status_t make_gemms(gemm_call *c)
{
    static pthread_once_t is_limited = PTHREAD_ONCE_INIT;
    (void)pthread_once(&is_limited, limit_onednn);
    DNNL_TRY(dnnl_engine_create(&c->engine, dnnl_cpu, 0));
    DNNL_TRY(make_gemm(c, c->chunk, &c->whole));
    const int64_t rest = c->a->N % c->chunk;
    if (rest == 0) return dnnl_success;
    return make_gemm(c, rest, &c->rest);
}

static focal_status fail_dnnl(focal_ctx *ctx, dnnl_status_t status)
{
    if (status == dnnl_out_of_memory)
        return foci_fail(ctx, FOCAL_ENOMEM, "matmul: oneDNN has no memory");
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "matmul: oneDNN fails with status %d", (int)status);
}

/* Scratch for every thread, then all chunks. */
static focal_status run_chunks(focal_ctx *ctx, gemm_call *c)
{
    const size_t whole = dnnl_memory_desc_get_size(&c->whole.scratchpad);
    const size_t rest = dnnl_memory_desc_get_size(&c->rest.scratchpad);
    const int64_t row_bytes = c->a->K * (int64_t)focal_dtype_bytes(c->a->x_dtype);
    c->pad_bytes = (size_t)foci_round_up((int64_t)(whole > rest ? whole : rest), 64);
    c->thread_bytes = c->pad_bytes;
    if (!foci_weights_in_place(&c->w))
        c->thread_bytes += (size_t)foci_round_up(c->chunk * row_bytes, 64);
    c->scratch = foci_scratch(ctx, (size_t)focal_ctx_threads(ctx), c->thread_bytes);
    if (!c->scratch) return FOCAL_ENOMEM;
    foci_parallel(ctx, foci_pieces(c->a->N, c->chunk), multiply_chunk, c);
    foci_scratch_free(ctx, c->scratch);
    const dnnl_status_t status = atomic_load(&c->status);
    return status == dnnl_success ? FOCAL_OK : fail_dnnl(ctx, status);
}

static focal_status run(focal_ctx *ctx, const foci_matmul_args *args)
{
    gemm_call c = {.a = args, .w = foci_weights_of(ctx, args, false), .chunk = choose_chunk(args)};
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1); /* a product is planned for as many as there are */
    const dnnl_status_t status = make_gemms(&c);
    omp_set_num_threads(threads);
    const focal_status result =
        status == dnnl_success ? run_chunks(ctx, &c) : fail_dnnl(ctx, status);
    (void)dnnl_primitive_destroy(c.rest.primitive);
    (void)dnnl_primitive_destroy(c.whole.primitive);
    (void)dnnl_engine_destroy(c.engine);
    return result;
}

const foci_matmul_kernel foci_matmul_onednn = {.name = "onednn", .can = can_run, .run = run};
