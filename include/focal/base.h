/* What every part of focal shares: status, element types, and the context that holds threads,
 * memory and the last error message.
 *
 * A context serves one call at a time; use one a thread for concurrent calls. Nothing in the
 * library prints, exits or keeps changing global state. */
#ifndef FOCAL_BASE_H
#define FOCAL_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define FOCAL_BEGIN_DECLS extern "C" {
#define FOCAL_END_DECLS }
#else
#define FOCAL_BEGIN_DECLS
#define FOCAL_END_DECLS
#endif

#if defined(__GNUC__)
#define FOCAL_API __attribute__((visibility("default")))
#else
#define FOCAL_API
#endif

#define FOCAL_VERSION_MAJOR 0
#define FOCAL_VERSION_MINOR 1
#define FOCAL_VERSION_PATCH 0

FOCAL_BEGIN_DECLS

/* Every fallible call returns one of these; focal_ctx_error() then has the sentence. */
#define FOCAL_STATUS_LIST(X)                                                                       \
    X(FOCAL_OK, 0, "done")                                                                         \
    X(FOCAL_EINVAL, 1, "an argument is wrong")                                                     \
    X(FOCAL_ENOMEM, 2, "out of memory")                                                            \
    X(FOCAL_EUNSUPPORTED, 3, "not supported here")                                                 \
    X(FOCAL_EIO, 4, "reading or writing failed")                                                   \
    X(FOCAL_EFORMAT, 5, "a file is not what it claims to be")

#define FOCAL_STATUS_ENUM(name, value, text) name = (value),
typedef enum focal_status { FOCAL_STATUS_LIST(FOCAL_STATUS_ENUM) } focal_status;
#undef FOCAL_STATUS_ENUM

/* A short lower-case sentence for a status; never NULL. */
FOCAL_API const char *focal_status_text(focal_status status);

/* Element types of tensors. Behind float32, bfloat16 and float16 stand GGUF's quantised types,
 * whose elements come in blocks that share their scales (focal/quant.h): they hold weights, and
 * caches in q8_0, while the operations compute in the first two. Name, value, text, elements and
 * bytes of a block. */
#define FOCAL_DTYPE_LIST(X)                                                                        \
    X(FOCAL_F32, 0, "f32", 1, 4)                                                                   \
    X(FOCAL_BF16, 1, "bf16", 1, 2)                                                                 \
    X(FOCAL_F16, 2, "f16", 1, 2)                                                                   \
    X(FOCAL_Q8_0, 3, "q8_0", 32, 34)                                                               \
    X(FOCAL_Q4_0, 4, "q4_0", 32, 18)                                                               \
    X(FOCAL_Q4_1, 5, "q4_1", 32, 20)                                                               \
    X(FOCAL_Q5_0, 6, "q5_0", 32, 22)                                                               \
    X(FOCAL_Q5_1, 7, "q5_1", 32, 24)                                                               \
    X(FOCAL_Q2_K, 8, "q2_k", 256, 84)                                                              \
    X(FOCAL_Q3_K, 9, "q3_k", 256, 110)                                                             \
    X(FOCAL_Q4_K, 10, "q4_k", 256, 144)                                                            \
    X(FOCAL_Q5_K, 11, "q5_k", 256, 176)                                                            \
    X(FOCAL_Q6_K, 12, "q6_k", 256, 210)                                                            \
    X(FOCAL_IQ4_NL, 13, "iq4_nl", 32, 18)

#define FOCAL_DTYPE_ENUM(name, value, text, elements, bytes) name = (value),
typedef enum focal_dtype { FOCAL_DTYPE_LIST(FOCAL_DTYPE_ENUM) } focal_dtype;
#undef FOCAL_DTYPE_ENUM

/* "f32", "q4_1", ..., or "?" for anything else. */
FOCAL_API const char *focal_dtype_name(focal_dtype dtype);
/* The type of that name, in either case; false when there is none, and *dtype stays. */
FOCAL_API bool focal_dtype_parse(const char *name, focal_dtype *dtype);
/* Bytes of one element of float32, bfloat16 or float16; 0 for every other. */
FOCAL_API size_t focal_dtype_bytes(focal_dtype dtype);
/* Elements and bytes of a block, 1 and the element's for the first three; 0 when there is no such
 * type. A row holds whole blocks. */
FOCAL_API int32_t focal_dtype_block(focal_dtype dtype);
FOCAL_API size_t focal_dtype_block_bytes(focal_dtype dtype);

/* bfloat16 is the upper half of a float; rounding is to nearest, ties to even, NaN stays NaN. */
FOCAL_API uint16_t focal_bf16_from_float(float x);
FOCAL_API float focal_bf16_to_float(uint16_t x);

/* Where memory comes from. alloc returns bytes (> 0) at a multiple of 64, or NULL; release takes
 * what alloc gave, with the same size. Both may be called from several threads. */
typedef struct focal_allocator {
    void *user;
    void *(*alloc)(void *user, size_t bytes);
    void (*release)(void *user, void *block, size_t bytes);
} focal_allocator;

typedef struct focal_ctx focal_ctx;

/* All zero is the default. */
typedef struct focal_ctx_options {
    int32_t threads;           /* 1..1024; 0: OMP_NUM_THREADS, else the cores this process may use,
                                  at most 1024 */
    const char *kernel;        /* pin one kernel of every operation that has it (ref, avx2, avx512,
                                  avx512bf16, amx, onednn); NULL: FOCAL_KERNEL, else the fastest
                                  that fits */
    focal_allocator allocator; /* alloc NULL: the C library's */
} focal_ctx_options;

/* options may be NULL. EINVAL on a wrong option and, where no option overrules it, on a wrong
 * OMP_NUM_THREADS or FOCAL_KERNEL (an empty one counts as not set); ENOMEM without memory or
 * threads. On failure *ctx is NULL and error, when not NULL, points at a static sentence that says
 * why. */
FOCAL_API focal_status focal_ctx_open(const focal_ctx_options *options, focal_ctx **ctx,
                                      const char **error);
FOCAL_API void focal_ctx_close(focal_ctx *ctx); /* NULL is fine */

/* The sentence of the last call that failed on this context, "" when none did. It stays valid
 * until the next call on the context. */
FOCAL_API const char *focal_ctx_error(const focal_ctx *ctx);

/* The calls below need a context; NULL is the caller's fault. */

FOCAL_API int32_t focal_ctx_threads(const focal_ctx *ctx);

/* The pinned kernel's name, or NULL. */
FOCAL_API const char *focal_ctx_kernel(const focal_ctx *ctx);

/* Space-separated names of the instruction sets in use ("avx2 avx512 avx512bf16 amx"); "" for none.
 */
FOCAL_API const char *focal_ctx_features(const focal_ctx *ctx);

/* Bytes the context holds now and the most it ever held since the last reset. Scratch memory is
 * kept for reuse until focal_ctx_trim() or close. */
typedef struct focal_memory {
    size_t now_bytes, peak_bytes;
    uint64_t alloc_count;
} focal_memory;
FOCAL_API focal_memory focal_ctx_memory(const focal_ctx *ctx);
FOCAL_API void focal_ctx_memory_reset(focal_ctx *ctx); /* peak = now, alloc_count = 0 */
FOCAL_API void focal_ctx_trim(focal_ctx *ctx);         /* gives kept scratch back */

FOCAL_END_DECLS
#endif /* FOCAL_BASE_H */
