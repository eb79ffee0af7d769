/* The context: threads, counted memory with a small store of scratch blocks, CPU features read
 * once, and the last message. The only place that reads the environment. */
#include "base/ctx.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "base/amx.h"
#include "base/bf16.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"

enum {
    MESSAGE_BYTES = 512,
    MAX_THREADS = 1024,
    KEPT_BLOCKS = 32,
    HEADER_BYTES = 64 /* before every block: its size; keeps blocks at a multiple of 64 */
};

static const char *const kernel_names[] = {"ref", "avx2", "avx512", "avx512bf16", "amx", "onednn"};

struct focal_ctx {
    focal_allocator allocator;
    foci_pool *pool;
    int32_t threads;
    unsigned features;
    char feature_names[64];
    const char *kernel; /* one of kernel_names, or NULL */
    char message[MESSAGE_BYTES];
    pthread_mutex_t lock; /* of the message and everything below */
    focal_memory memory;
    void *kept[KEPT_BLOCKS];      /* scratch that waits for its next use; NULL: free place */
    struct foci_profile *profile; /* NULL until the first is started */
};

/* What stands in front of every block. */
typedef struct block_header {
    size_t bytes; /* with the header */
} block_header;

_Static_assert(sizeof(block_header) <= HEADER_BYTES, "the header must fit before a block");

static void *libc_alloc(void *user, size_t bytes)
{
    (void)user;
    return bytes > SIZE_MAX - 63 ? NULL : aligned_alloc(64, (bytes + 63) & ~(size_t)63);
}

static void libc_release(void *user, void *block, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(block);
}

const char *focal_status_text(focal_status status)
{
    switch (status) {
#define STATUS_CASE(name, value, text)                                                             \
    case name:                                                                                     \
        return text;
        FOCAL_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

uint16_t focal_bf16_from_float(float x)
{
    return foci_bf16_from_float(x);
}

float focal_bf16_to_float(uint16_t x)
{
    return foci_bf16_to_float(x);
}

focal_status foci_fail(focal_ctx *ctx, focal_status status, const char *format, ...)
{
    if (!ctx) return status;
    va_list values;
    va_start(values, format);
    pthread_mutex_lock(&ctx->lock); /* work items may run out of memory together */
    (void)vsnprintf(ctx->message, sizeof ctx->message, format, values);
    /* It may quote a file, which must not break the line or steer a terminal. */
    for (char *c = ctx->message; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F) *c = '?';
    pthread_mutex_unlock(&ctx->lock);
    va_end(values);
    return status;
}

static unsigned detect_features(void)
{
    unsigned features = 0;
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    /* F16C came before AVX2 in every processor that has both */
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) features |= FOCI_AVX2;
    if (features && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        features |= FOCI_AVX512;
    /* Every machine with the second has the first; its kernels use both. */
    if ((features & FOCI_AVX512) && __builtin_cpu_supports("avx512vnni") &&
        __builtin_cpu_supports("avx512bf16"))
        features |= FOCI_AVX512BF16;
    if ((features & FOCI_AVX512BF16) && foci_amx_ask()) features |= FOCI_AMX;
#endif
    return features;
}

static void name_features(focal_ctx *ctx)
{
    (void)snprintf(ctx->feature_names, sizeof ctx->feature_names, "%s%s%s%s",
                   ctx->features & FOCI_AVX2 ? "avx2" : "",
                   ctx->features & FOCI_AVX512 ? " avx512" : "",
                   ctx->features & FOCI_AVX512BF16 ? " avx512bf16" : "",
                   ctx->features & FOCI_AMX ? " amx" : "");
}

/* OMP_NUM_THREADS may be a list, one entry a nesting level: the first is ours. 0: not set, -1: not
 * a number of threads. */
static int32_t threads_from_environment(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    if (!text || !*text) return 0;
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || (*end != '\0' && *end != ',')) return -1;
    return value < 1 || value > MAX_THREADS ? -1 : (int32_t)value;
}

/* The entry of kernel_names equal to name, or NULL. */
static const char *known_kernel(const char *name)
{
    for (size_t n = 0; n < FOCAL_COUNT(kernel_names); n++)
        if (strcmp(kernel_names[n], name) == 0) return kernel_names[n];
    return NULL;
}

focal_status focal_ctx_open(const focal_ctx_options *options, focal_ctx **out, const char **error)
{
    static const focal_ctx_options defaults;
    const char *ignored;
    if (!error) error = &ignored;
    *error = "";
    if (!out) {
        *error = "ctx: no place for the context";
        return FOCAL_EINVAL;
    }
    *out = NULL;
    if (!options) options = &defaults;
    if (options->threads < 0 || options->threads > MAX_THREADS) {
        *error = "ctx: threads must be 0 to 1024";
        return FOCAL_EINVAL;
    }
    int32_t threads = options->threads;
    if (threads == 0) threads = threads_from_environment();
    if (threads < 0) {
        *error = "ctx: OMP_NUM_THREADS must be a number of threads, 1 to 1024";
        return FOCAL_EINVAL;
    }
    if (threads == 0) threads = foci_usable_cores();
    const char *pin = options->kernel ? options->kernel : getenv("FOCAL_KERNEL");
    const char *kernel = pin && *pin ? known_kernel(pin) : NULL;
    if (pin && *pin && !kernel) {
        *error =
            options->kernel
                ? "ctx: the kernel must be one of ref, avx2, avx512, avx512bf16, amx, onednn"
                : "ctx: FOCAL_KERNEL must be one of ref, avx2, avx512, avx512bf16, amx, onednn";
        return FOCAL_EINVAL;
    }
    if (options->allocator.alloc && !options->allocator.release) {
        *error = "ctx: an allocator needs both alloc and release";
        return FOCAL_EINVAL;
    }
    focal_allocator allocator = options->allocator;
    if (!allocator.alloc) allocator = (focal_allocator){NULL, libc_alloc, libc_release};
    focal_ctx *ctx = allocator.alloc(allocator.user, sizeof *ctx);
    if (!ctx) {
        *error = "ctx: no memory";
        return FOCAL_ENOMEM;
    }
    memset(ctx, 0, sizeof *ctx);
    ctx->allocator = allocator;
    ctx->kernel = kernel;
    ctx->features = detect_features();
    name_features(ctx);
    ctx->threads = threads < MAX_THREADS ? threads : MAX_THREADS;
    pthread_mutex_init(&ctx->lock, NULL);
    ctx->pool = foci_pool_new(ctx->threads);
    if (!ctx->pool) {
        focal_ctx_close(ctx);
        *error = "ctx: the threads could not be started";
        return FOCAL_ENOMEM;
    }
    *out = ctx;
    return FOCAL_OK;
}

void focal_ctx_close(focal_ctx *ctx)
{
    if (!ctx) return;
    foci_free(ctx, ctx->profile);
    focal_ctx_trim(ctx);
    foci_pool_free(ctx->pool);
    pthread_mutex_destroy(&ctx->lock);
    ctx->allocator.release(ctx->allocator.user, ctx, sizeof *ctx);
}

const char *focal_ctx_error(const focal_ctx *ctx)
{
    return ctx ? ctx->message : "no context";
}

int32_t focal_ctx_threads(const focal_ctx *ctx)
{
    return ctx->threads;
}

const char *focal_ctx_kernel(const focal_ctx *ctx)
{
    return ctx->kernel;
}

const char *focal_ctx_features(const focal_ctx *ctx)
{
    return ctx->feature_names;
}

bool foci_has(const focal_ctx *ctx, unsigned features)
{
    return (ctx->features & features) == features;
}

void foci_ctx_mask_features(focal_ctx *ctx, unsigned keep)
{
    ctx->features = detect_features() & keep;
    name_features(ctx);
}

struct foci_profile **foci_ctx_profile(focal_ctx *ctx)
{
    return &ctx->profile;
}

bool foci_on_host(const focal_ctx *ctx)
{
    (void)ctx;
    return true;
}

bool foci_ctx_allows(const focal_ctx *ctx, const char *kernel)
{
    return !ctx->kernel || strcmp(ctx->kernel, kernel) == 0;
}

void foci_parallel(focal_ctx *ctx, int64_t count, foci_work fn, void *arg)
{
    foci_pool_run(ctx->pool, count, fn, arg);
}

void foci_parallel_rows(focal_ctx *ctx, int64_t count, foci_work fn, void *arg)
{
    foci_pool_run_rows(ctx->pool, count, fn, arg);
}

static block_header *header_of(void *block)
{
    return (block_header *)(void *)((char *)block - HEADER_BYTES);
}

static void *take_block(focal_ctx *ctx, size_t bytes)
{
    char *base = ctx->allocator.alloc(ctx->allocator.user, bytes);
    if (!base) return NULL;
    /* A step of training goes through a gigabyte again and again. */
    if (bytes >= 2 * (size_t)FOCI_LARGE_PAGE) foci_use_large_pages(base, bytes);
    ((block_header *)(void *)base)->bytes = bytes;
    pthread_mutex_lock(&ctx->lock);
    ctx->memory.now_bytes += bytes;
    ctx->memory.alloc_count++;
    if (ctx->memory.now_bytes > ctx->memory.peak_bytes)
        ctx->memory.peak_bytes = ctx->memory.now_bytes;
    pthread_mutex_unlock(&ctx->lock);
    return base + HEADER_BYTES;
}

static void give_block(focal_ctx *ctx, void *block)
{
    block_header *header = header_of(block);
    const size_t bytes = header->bytes;
    pthread_mutex_lock(&ctx->lock);
    ctx->memory.now_bytes -= bytes;
    pthread_mutex_unlock(&ctx->lock);
    ctx->allocator.release(ctx->allocator.user, header, bytes);
}

/* Bytes of a block with its header, rounded to a multiple of 64; 0 when it does not fit. */
static size_t block_bytes(size_t count, size_t size)
{
    size_t bytes;
    if (!foci_size_mul(count, size, &bytes) || !foci_size_add(bytes, HEADER_BYTES + 63, &bytes))
        return 0;
    return bytes & ~(size_t)63;
}

static void *no_memory(focal_ctx *ctx, size_t count, size_t size)
{
    (void)foci_fail(ctx, FOCAL_ENOMEM, "no memory for %zu x %zu bytes", count, size);
    return NULL;
}

void *foci_alloc(focal_ctx *ctx, size_t count, size_t size)
{
    const size_t bytes = block_bytes(count, size);
    void *block = bytes ? take_block(ctx, bytes) : NULL;
    return block ? block : no_memory(ctx, count, size);
}

void foci_free(focal_ctx *ctx, void *block)
{
    if (block) give_block(ctx, block);
}

/* The smallest kept block that holds `bytes` and wastes less than half of itself. */
static void *take_kept(focal_ctx *ctx, size_t bytes)
{
    int best = -1;
    pthread_mutex_lock(&ctx->lock);
    for (int n = 0; n < KEPT_BLOCKS; n++) {
        const size_t have = ctx->kept[n] ? header_of(ctx->kept[n])->bytes : 0;
        if (have < bytes || have / 2 > bytes) continue;
        if (best < 0 || have < header_of(ctx->kept[best])->bytes) best = n;
    }
    void *block = best >= 0 ? ctx->kept[best] : NULL;
    if (best >= 0) ctx->kept[best] = NULL;
    pthread_mutex_unlock(&ctx->lock);
    return block;
}

/* Gives the largest kept block back that is too small for `bytes`, but more than half of them:
 * where sizes grow a little from call to call, the last ones would stay beside the one that
 * replaces them. */
static void give_outgrown(focal_ctx *ctx, size_t bytes)
{
    int best = -1;
    pthread_mutex_lock(&ctx->lock);
    for (int n = 0; n < KEPT_BLOCKS; n++) {
        const size_t have = ctx->kept[n] ? header_of(ctx->kept[n])->bytes : 0;
        if (have >= bytes || have <= bytes / 2) continue;
        if (best < 0 || have > header_of(ctx->kept[best])->bytes) best = n;
    }
    void *block = best >= 0 ? ctx->kept[best] : NULL;
    if (best >= 0) ctx->kept[best] = NULL;
    pthread_mutex_unlock(&ctx->lock);
    if (block) give_block(ctx, block);
}

void *foci_scratch(focal_ctx *ctx, size_t count, size_t size)
{
    const size_t bytes = block_bytes(count, size);
    if (!bytes) return no_memory(ctx, count, size);
    void *block = take_kept(ctx, bytes);
    if (!block) {
        give_outgrown(ctx, bytes);
        block = take_block(ctx, bytes);
    }
    if (!block) {
        focal_ctx_trim(ctx); /* kept blocks of other sizes may be what is missing */
        block = take_block(ctx, bytes);
    }
    return block ? block : no_memory(ctx, count, size);
}

void foci_scratch_free(focal_ctx *ctx, void *block)
{
    if (!block) return;
    pthread_mutex_lock(&ctx->lock);
    for (int n = 0; n < KEPT_BLOCKS && block; n++) {
        if (ctx->kept[n]) continue;
        ctx->kept[n] = block;
        block = NULL;
    }
    pthread_mutex_unlock(&ctx->lock);
    if (block) give_block(ctx, block);
}

void foci_use_large_pages(void *block, size_t bytes)
{
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    /* The large pages that lie wholly in the block. */
    const uintptr_t at = (uintptr_t)block;
    const uintptr_t first = (at + FOCI_LARGE_PAGE - 1) / FOCI_LARGE_PAGE * FOCI_LARGE_PAGE;
    const uintptr_t last = (at + bytes) / FOCI_LARGE_PAGE * FOCI_LARGE_PAGE;
    if (first < last) (void)madvise((char *)block + (first - at), last - first, MADV_HUGEPAGE);
#else
    (void)block;
    (void)bytes;
#endif
}

void focal_ctx_trim(focal_ctx *ctx)
{
    for (int n = 0; n < KEPT_BLOCKS; n++) {
        /* Work items that find no memory trim too: a block must leave the list only once. */
        pthread_mutex_lock(&ctx->lock);
        void *block = ctx->kept[n];
        ctx->kept[n] = NULL;
        pthread_mutex_unlock(&ctx->lock);
        if (block) give_block(ctx, block);
    }
}

focal_memory focal_ctx_memory(const focal_ctx *ctx)
{
    return ctx->memory;
}

void focal_ctx_memory_reset(focal_ctx *ctx)
{
    ctx->memory.peak_bytes = ctx->memory.now_bytes;
    ctx->memory.alloc_count = 0;
}
