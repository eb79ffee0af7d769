/* Yardsticks: the best multiply-add and read rates of the machine, over the context's threads. */
#include "focal/bench.h"

#include <stdatomic.h>
#include <time.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "bench/yardstick_kernels.h"

enum {
    ITEMS_A_THREAD = 8,       /* pieces small enough that a late thread costs little */
    READ_PIECE = 1024 * 1024, /* bytes an item of the read probe */
    READ_LANES = 8,
    PLAIN_WIDTH = 4
};

/* Fastest first; the last one runs everywhere. `rounds` makes an item last about 0.3 ms. */
static const struct peak_kernel {
    unsigned features;
    focal_dtype dtype;
    int32_t width; /* multiply-adds an instruction */
    int64_t rounds;
    float (*run)(int64_t rounds);
} peak_kernels[] = {
    {FOCI_AMX, FOCAL_BF16, 16 * 16 * 32, 5000, foci_peak_amx},
    {FOCI_AVX512BF16, FOCAL_BF16, 32, 80000, foci_peak_avx512bf16},
    {FOCI_AVX512, FOCAL_F32, 16, 80000, foci_peak_avx512},
    {FOCI_AVX2, FOCAL_F32, 8, 160000, foci_peak_avx2},
    {0, FOCAL_F32, PLAIN_WIDTH, 80000, foci_peak_plain},
};

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Registers of four floats, which compilers make of what every machine of the kind has. */
typedef float plain_lanes __attribute__((vector_size(PLAIN_WIDTH * sizeof(float))));

float foci_peak_plain(int64_t rounds)
{
    /* volatile: with known factors a compiler may work the sums out beforehand */
    static const volatile float halves = 0.5F, ones = 1.0F;
    const plain_lanes half = halves - (plain_lanes){0}, one = ones - (plain_lanes){0};
    plain_lanes sum[FOCI_PEAK_CHAINS];
    for (int n = 0; n < FOCI_PEAK_CHAINS; n++) sum[n] = (float)n * one;
    for (int64_t r = 0; r < rounds; r++)
        for (int n = 0; n < FOCI_PEAK_CHAINS; n++) sum[n] = sum[n] * half + one;
    for (int n = 1; n < FOCI_PEAK_CHAINS; n++) sum[0] += sum[n];
    return sum[0][0];
}

typedef struct peak_work {
    const struct peak_kernel *kernel;
    _Atomic float sink; /* written, never used: keeps the loops from being dropped */
} peak_work;

static void peak_item(void *arg, int64_t index, int32_t thread)
{
    (void)index;
    (void)thread;
    peak_work *work = arg;
    atomic_store_explicit(&work->sink, work->kernel->run(work->kernel->rounds),
                          memory_order_relaxed);
}

focal_status focal_bench_peak(focal_ctx *ctx, focal_dtype dtype, double *gflops)
{
    if (!gflops) return foci_fail(ctx, FOCAL_EINVAL, "bench: no place for the peak");
    if (dtype != FOCAL_F32 && dtype != FOCAL_BF16)
        return foci_fail(ctx, FOCAL_EINVAL, "bench: unknown element type %d", (int)dtype);
    peak_work work = {.kernel = peak_kernels};
    while ((dtype == FOCAL_F32 && work.kernel->dtype != FOCAL_F32) ||
           !foci_has(ctx, work.kernel->features))
        work.kernel++;
    const int64_t items = (int64_t)ITEMS_A_THREAD * focal_ctx_threads(ctx);
    const double start = seconds_now();
    foci_parallel(ctx, items, peak_item, &work);
    const double seconds = seconds_now() - start;
    const double flops = 2.0 * FOCI_PEAK_CHAINS * (double)work.kernel->width *
                         (double)work.kernel->rounds * (double)items;
    *gflops = 1e-9 * flops / seconds;
    return FOCAL_OK;
}

typedef struct read_work {
    const uint64_t *words;
    int64_t count;
    _Atomic uint64_t sink;
} read_work;

static void read_item(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    read_work *work = arg;
    const int64_t piece = READ_PIECE / (int64_t)sizeof(uint64_t);
    const int64_t begin = index * piece;
    const int64_t end = foci_min64(begin + piece, work->count);
    uint64_t sum[READ_LANES] = {0};
    for (int64_t n = begin; n < end; n += READ_LANES)
        for (int lane = 0; lane < READ_LANES; lane++) sum[lane] += work->words[n + lane];
    for (int lane = 1; lane < READ_LANES; lane++) sum[0] += sum[lane];
    atomic_fetch_add_explicit(&work->sink, sum[0], memory_order_relaxed);
}

focal_status focal_bench_read(focal_ctx *ctx, const void *block, size_t bytes, double *gb_per_s)
{
    const size_t line = READ_LANES * sizeof(uint64_t);
    if (!block || !gb_per_s || bytes < line)
        return foci_fail(ctx, FOCAL_EINVAL, "bench: a block of at least %zu bytes is needed", line);
    read_work work = {.words = block, .count = (int64_t)(bytes / line) * READ_LANES};
    const int64_t items = foci_pieces(work.count * (int64_t)sizeof(uint64_t), READ_PIECE);
    const double start = seconds_now();
    foci_parallel(ctx, items, read_item, &work);
    const double seconds = seconds_now() - start;
    *gb_per_s = 1e-9 * (double)work.count * (double)sizeof(uint64_t) / seconds;
    return FOCAL_OK;
}
