/* Rotary positions (docs/MATH.md, 4.2): frequencies from a model's description, cosines and sines
 * of a call's tokens, and the rotation of queries and keys by them. */
#ifndef FOCI_OPS_ROPE_ROPE_H
#define FOCI_OPS_ROPE_ROPE_H

#include "focal/base.h"
#include "ops/rows.h"

enum { FOCI_ROPE_MAX_WIDTH = 1 << 16 };

/* How the frequencies of a longer context follow from the first ones. */
typedef enum foci_rope_kind {
    FOCI_ROPE_PLAIN,
    FOCI_ROPE_LINEAR, /* all divided by factor */
    FOCI_ROPE_LLAMA3, /* the slow ones divided by factor, between low and high in part */
    FOCI_ROPE_YARN    /* likewise, by how often they turn in the original context */
} foci_rope_kind;

/* All zero but rotated and base is plain. What a kind does not name is not looked at. */
typedef struct foci_rope_config {
    int32_t rotated; /* how much of a head turns: even, at most D */
    double base;     /* "theta" */
    foci_rope_kind kind;
    double factor;                 /* all but plain */
    double original_context;       /* llama3, yarn: tokens */
    double low, high;              /* llama3: low_freq_factor, high_freq_factor */
    double beta_fast, beta_slow;   /* yarn; 0: 32 and 1 */
    bool is_untruncated;           /* yarn: its range is not rounded to whole pairs */
    double mscale, mscale_all_dim; /* yarn: both not 0: they make the attention factor */
    double attention_factor;       /* multiplies cosines and sines; 0: the kind's own rule */
    const float *divisors;         /* (rotated / 2) GGUF's rope_freqs.weight; NULL: none */
} foci_rope_config;

/* inv_freq (rotated / 2) gets radians a token, *scale what cosines and sines are multiplied by.
 * Rounds where transformers rounds: of the frequencies tested 1 in 90 differs from its own, in the
 * last bit. Computed in double they would be off by up to 4e-7 of themselves, and angles by that
 * times the position. FOCAL_EINVAL names what is out of range. */
focal_status foci_rope_table(focal_ctx *ctx, const foci_rope_config *config, float *inv_freq,
                             float *scale);

/* Once a call: all heads and all layers with this table share the result. */
typedef struct foci_rope_angles_args {
    int32_t T, rotated;
    const int32_t *positions; /* (T), each 0 or more */
    const float *inv_freq;    /* (rotated / 2) */
    float scale;              /* of the table */
    bool is_exact; /* the angle is position times frequency; false: that product rounded to float32,
                      which is what transformers takes the cosine of */
    float *cos, *sin; /* (T, rotated / 2) */
} foci_rope_angles_args;

focal_status foci_rope_angles(focal_ctx *ctx, const foci_rope_angles_args *args);

typedef enum foci_rope_style {
    FOCI_ROPE_HALVES, /* element i turns with i + rotated / 2: Hugging Face's order */
    FOCI_ROPE_PAIRS   /* element 2i with 2i + 1: Meta's, and GGUF's for the llama families */
} foci_rope_style;

/* T tokens, each H heads of D side by side. */
typedef struct foci_rope_args {
    int32_t T, H, D, rotated; /* elements of a head from `rotated` on are only scaled; 0: all */
    foci_rope_style style;
    const float *cos, *sin;  /* (T, rotated / 2) of foci_rope_angles(); NULL when nothing turns */
    const float *x;          /* (T, H, D) */
    int64_t x_stride;        /* floats from token to token; 0: H D */
    float scale;             /* multiplies every element: attention's factor, for q; 0: 1 */
    const float *row_scales; /* multiply beside it: (T), or (T, H) with has_head_scales. This is how
                                a temperature divides q. NULL: none */
    bool has_head_scales;
    void *out;             /* (T, H, D); may be x, float32 with the same stride */
    focal_dtype out_dtype; /* float32 or bfloat16 */
    int64_t out_stride;
} foci_rope_args;

focal_status foci_rope_apply(focal_ctx *ctx, const foci_rope_args *args);

/* Checks the call and fills in strides and scale; kernels take what comes out. */
focal_status foci_rope_normalise(focal_ctx *ctx, const foci_rope_args *args,
                                 foci_rope_args *normal);
extern const foci_rows_op foci_rope_op;

/* Of token t and head h; 1 without. */
static inline float foci_rope_row_scale(const float *row_scales, bool has_head_scales, int64_t H,
                                        int64_t t, int64_t h)
{
    return row_scales ? row_scales[has_head_scales ? t * H + h : t] : 1.0F;
}

void foci_rope_ref(const void *args, int64_t first, int64_t count);
void foci_rope_avx2(const void *args, int64_t first, int64_t count);
void foci_rope_avx512(const void *args, int64_t first, int64_t count);

#endif /* FOCI_OPS_ROPE_ROPE_H */
