/* Products of small heights in registers, in the vocabulary of simd/: ROWS rows of a by three
 * vectors of b at a time. Each element is one chain of multiply-adds in ascending order, so a row
 * has the same bits alone and in company. Included by route_body.h only; the file that includes
 * it defines ROWS. */
#ifndef FOCI_OPS_ROUTE_ROUTE_TILES_H
#define FOCI_OPS_ROUTE_ROUTE_TILES_H

#include <stdint.h>

enum { PANEL = 3 }; /* vectors of b that a tile takes: ROWS x 3 sums stay in registers */

/* out = a b, with out (rows, vectors * VL) and depth the length of the sums. */
typedef struct product {
    int64_t rows, vectors, depth;
    const float *a; /* element (i,k) at a[i * a_row + k * a_step] */
    int64_t a_row, a_step;
    const float *b;     /* the vectors come in blocks of block_vectors neighbours, */
    int64_t b_step;     /* one k to the next, */
    int64_t block_step; /* one block to the next */
    int64_t block_vectors;
    float *out;
    int64_t out_row;
} product;

/* Columns of a panel. */
static inline int64_t panel_columns(void)
{
    return (int64_t)PANEL * VL;
}

static inline const float *vector_of_b(const product *p, int64_t v)
{
    return p->b + v / p->block_vectors * p->block_step + v % p->block_vectors * VL;
}

/* rows and vectors are constants where this is called, so that the sums get registers. */
static inline __attribute__((always_inline)) void
multiply_tile(const product *p, int64_t row, int64_t first, const int rows, const int vectors)
{
    vec sum[ROWS][PANEL];
    const float *b[PANEL];
    const float *a = p->a + row * p->a_row;
    for (int v = 0; v < vectors; v++) b[v] = vector_of_b(p, first + v);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) sum[r][v] = v_zero();
    for (int64_t k = 0; k < p->depth; k++) {
        vec column[PANEL];
        for (int v = 0; v < vectors; v++) column[v] = v_load(b[v] + k * p->b_step);
        for (int r = 0; r < rows; r++) {
            const vec x = v_set1(a[r * p->a_row + k * p->a_step]);
            for (int v = 0; v < vectors; v++) sum[r][v] = v_fma(x, column[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            v_store(p->out + (row + r) * p->out_row + (first + v) * VL, sum[r][v]);
}

static inline __attribute__((always_inline)) void multiply_rows(const product *p, int64_t row,
                                                                const int rows)
{
    int64_t v = 0;
    for (; v + PANEL <= p->vectors; v += PANEL) multiply_tile(p, row, v, rows, PANEL);
    if (p->vectors - v == 2) multiply_tile(p, row, v, rows, 2);
    if (p->vectors - v == 1) multiply_tile(p, row, v, rows, 1);
}

static void multiply(const product *p)
{
    int64_t row = 0;
    for (; row + ROWS <= p->rows; row += ROWS) multiply_rows(p, row, ROWS);
    for (; row < p->rows; row++) multiply_rows(p, row, 1);
}

#endif /* FOCI_OPS_ROUTE_ROUTE_TILES_H */
