/* Stands in for levels_avx2.h where many rows meet quantised weights faster in another way. */
#ifndef FOCI_OPS_MATMUL_LEVELS_NONE_H
#define FOCI_OPS_MATMUL_LEVELS_NONE_H

#include "ops/matmul/matmul_product_body.h"

enum { HAS_LEVELS = false };

static inline int64_t level_panel_words(const foci_matmul_args *a)
{
    return a->K;
}

static inline int64_t level_x_words(int64_t K)
{
    return K;
}

static inline void pack_level_strip(const product *p, const float *x, int64_t first, int64_t m,
                                    int64_t rows)
{
    (void)p;
    (void)x;
    (void)first;
    (void)m;
    (void)rows;
}

static inline void pack_levels(const product *p, int64_t n, const float *panel)
{
    (void)p;
    (void)n;
    (void)panel;
}

static inline void sum_levels(const product *p, int64_t m, int64_t rows, const float *panel,
                              const float *sums)
{
    (void)p;
    (void)m;
    (void)rows;
    (void)panel;
    (void)sums;
}

#endif /* FOCI_OPS_MATMUL_LEVELS_NONE_H */
