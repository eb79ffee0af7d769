/* Matrices as places in memory: whether they fit there, and whether two share any of it. */
#ifndef FOCI_OPS_MATMUL_EXTENT_H
#define FOCI_OPS_MATMUL_EXTENT_H

#include "base/sizes.h"

/* A matrix in memory: bytes of a row, from row to row, and from its first to its last. */
typedef struct foci_extent {
    size_t width, stride, total;
} foci_extent;

/* False when it would not fit in memory. */
static inline bool foci_measure(int64_t rows, int64_t width, int64_t stride, size_t bytes,
                                foci_extent *e)
{
    return foci_size_mul((size_t)width, bytes, &e->width) &&
           foci_size_mul((size_t)stride, bytes, &e->stride) &&
           foci_size_mul((size_t)rows - 1, e->stride, &e->total) &&
           foci_size_add(e->total, e->width, &e->total) && e->total <= PTRDIFF_MAX;
}

static inline bool foci_overlap(const void *a, foci_extent ea, const void *b, foci_extent eb)
{
    const uintptr_t pa = (uintptr_t)a, pb = (uintptr_t)b;
    if (pa >= pb ? pa - pb >= eb.total : pb - pa >= ea.total) return false;
    if (ea.stride != eb.stride) return true;
    /* Columns of one buffer: how far b's begin behind a's, in the row of a that they begin in. */
    const size_t behind = (pb % ea.stride + ea.stride - pa % ea.stride) % ea.stride;
    return behind < ea.width || behind + eb.width > ea.stride;
}

#endif /* FOCI_OPS_MATMUL_EXTENT_H */
