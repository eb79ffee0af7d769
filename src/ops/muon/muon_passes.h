/* What Muon does between its products, element by element: kernels have one function for the four
 * passes. */
#ifndef FOCI_OPS_MUON_MUON_PASSES_H
#define FOCI_OPS_MUON_MUON_PASSES_H

#include "ops/muon/muon.h"
#include "ops/rows.h"

typedef enum foci_muon_kind {
    FOCI_MUON_MOMENTUM, /* momentum and gradient of args: out is what is made orthogonal (5.3.1) */
    FOCI_MUON_MIX,      /* out = alpha x + beta y; out may be x or y */
    FOCI_MUON_TURN,     /* out (cols, rows) = x (rows, cols)^T, float32 */
    FOCI_MUON_UPDATE    /* weights of args: w - (alpha x + beta w), x float32 (5.3.5) */
} foci_muon_kind;

typedef struct foci_muon_pass {
    foci_muon_kind kind;
    const foci_muon_args *args;
    double alpha, beta;
    const void *x;
    focal_dtype x_dtype;
    const float *y; /* NULL: none */
    void *out;
    focal_dtype out_dtype;
    int64_t rows, cols, x_stride, out_stride; /* of a turn; rows and cols are those of x */
} foci_muon_pass;

/* Rows are elements, and for a turn bands of FOCI_MUON_BAND rows of out. */
enum { FOCI_MUON_BAND = 16 };
extern const foci_rows_op foci_muon_op;

void foci_muon_ref(const void *args, int64_t first, int64_t count);
void foci_muon_avx2(const void *args, int64_t first, int64_t count);
void foci_muon_avx512(const void *args, int64_t first, int64_t count);

#endif /* FOCI_OPS_MUON_MUON_PASSES_H */
