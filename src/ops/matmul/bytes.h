/* Products of integers: rows of x, rounded to 16 bits, against quantised weights. Both are whole
 * numbers times a scale that a run of elements shares, so whole runs are multiplied and summed
 * exactly and only then scaled:
 *
 *     y = sum over runs of  d_w d_x (sum of q_w q_x)  +  m_w d_x (sum of q_x)
 *
 * where a weight is d_w q_w + m_w with q_w from 0 on. The dot products of processors take bytes:
 * q_x = 256 high + low. */
#ifndef FOCI_OPS_MATMUL_BYTES_H
#define FOCI_OPS_MATMUL_BYTES_H

#include "ops/matmul/matmul.h"

enum {
    FOCI_BYTE_SPAN = 256,  /* elements: x is padded with zeros to a multiple */
    FOCI_BYTE_FACTORS = 32 /* floats a span: d_x and d_x (sum of q_x) of at most 16 runs */
};

/* How the bytes of x lie, for a type of weights. */
typedef enum foci_byte_order {
    FOCI_BYTES_PLAIN, /* as they are */
    FOCI_BYTES_HALVES /* of each four blocks of 32, the first halves, then the second ones */
} foci_byte_order;

typedef struct foci_byte_type {
    focal_dtype dtype;
    foci_byte_order order;
    int32_t run;   /* elements that share d_w: 16 or 32 */
    int32_t group; /* runs whose scales a kernel makes at once */
    float offset;  /* of types without m_w: m_w = offset d_w; else 0 */
    int largest;   /* level; of types whose levels have a sign 255, as without it */
} foci_byte_type;

/* NULL: not a quantised type. */
const foci_byte_type *foci_byte_type_of(focal_dtype dtype);

/* Whether a call is one of these. */
static inline bool foci_takes_bytes(const foci_matmul_args *args)
{
    return args->rounds_x && args->x_dtype == FOCAL_F32 && args->K % 32 == 0 &&
           !args->x_is_transposed && !args->w_is_transposed && args->w_stride == 0 &&
           foci_byte_type_of(args->w_dtype) != NULL;
}

/* Whether a call may round bfloat16 x to 8 bits, a scale for each 16 elements: many rows, and
 * levels of which pairs of products with bytes can be summed in 16 bits. */
static inline bool foci_takes_levels(const foci_matmul_args *args)
{
    const foci_byte_type *type = foci_byte_type_of(args->w_dtype);
    return args->rounds_x && args->x_dtype == FOCAL_BF16 && args->M > FOCI_MATMUL_FEW &&
           !args->x_is_transposed && !args->w_is_transposed && !args->w_is_interleaved &&
           args->w_stride == 0 && type && type->largest < 64;
}

/* Rows of x, rounded and unpacked. */
typedef struct foci_byte_rows {
    int64_t spans; /* of a row */
    int8_t *high;  /* (M, spans, FOCI_BYTE_SPAN) */
    int8_t *low;   /* the same */
    float *factor; /* (M, spans, FOCI_BYTE_FACTORS): of each group of runs d_x, then d_x (sum of
                      q_x), times the offset where the type has one */
} foci_byte_rows;

/* In scratch memory; FOCAL_ENOMEM. Kernels fill them (bytes_round_body.h): what a row does not fill
 * is 0; a block of 32 that holds an infinity or a NaN gets d_x = NaN. */
focal_status foci_byte_rows_new(focal_ctx *ctx, const foci_matmul_args *args, foci_byte_rows *rows);
void foci_byte_rows_free(focal_ctx *ctx, foci_byte_rows *rows);

#endif /* FOCI_OPS_MATMUL_BYTES_H */
