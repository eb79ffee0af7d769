/* Packing for the register tile: rows of x and panels of weights as packed words, from either way
 * that they may lie. Included by one file an instruction set, after its dialect. */
#ifndef FOCI_OPS_MATMUL_MATMUL_PACK_BODY_H
#define FOCI_OPS_MATMUL_MATMUL_PACK_BODY_H

#include "ops/matmul/matmul_few_body.h"

/* Rows of x that lies transposed are packed in strips, whole tiles and whole vectors, in which they
 * alternate: nothing is turned. */
enum {
    STRIP = 4 * MR,
    PACK_AHEAD = 24, /* rows, that those to be packed next are asked for */
    CACHE_LINE = 64
};
_Static_assert(STRIP % VL == 0, "a strip is whole vectors");

/* Row k of x as it lies; NULL past the last. */
static inline const char *x_line(const foci_matmul_args *a, int64_t k)
{
    if (k >= a->K) return NULL;
    return (const char *)a->x + (size_t)(k * a->x_stride) * focal_dtype_bytes(a->x_dtype);
}

/* Where row m of such an x begins. */
static inline int64_t strip_at(const product *p, int64_t m)
{
    return m / STRIP * STRIP * p->x_words + m % STRIP;
}

/* pack_x() for `rows` rows from `first` on of an x that lies transposed, words [begin, end) of
 * each: PACK of its lines make a line of words, which is cut into strips [w][STRIP]. Whole lines
 * are read, one behind the other, as memory likes it. Past M come zeros. */
static void pack_x_transposed(const product *p, float *x, int64_t first, int64_t rows,
                              int64_t begin, int64_t end)
{
    const foci_matmul_args *a = p->a;
    const int64_t columns = foci_round_up(rows, STRIP);
    for (int64_t w = begin; w < end; w++) {
        const char *line = x_line(a, w * PACK), *last = x_line(a, w * PACK + PACK - 1);
        for (int64_t m = 0; m < columns; m += NR) {
            vec lo, hi;
            load_columns(line, last, a->x_dtype, first + m, a->M, &lo, &hi);
            v_zip(&lo, &hi);
            v_store(x + strip_at(p, m) + w * STRIP, lo);
            if (m + VL < columns) v_store(x + strip_at(p, m + VL) + w * STRIP, hi);
        }
    }
}

/* The weights of outputs n .. n + NR (zeros past N) as packed words [w][NR]. */
static void pack_panel(const product *p, int64_t n, float *panel, char *rows)
{
    for (int64_t k = 0; k < p->a->K; k += FOCI_WEIGHT_PIECE) {
        const int64_t count = foci_min64(p->a->K - k, FOCI_WEIGHT_PIECE);
        const char *row[NR];
        for (int64_t r = 0; r < NR; r++) {
            char *buffer = rows + r * FOCI_WEIGHT_PIECE * (int64_t)sizeof(float);
            row[r] = n + r < p->a->N ? foci_weights_row(&p->w, n + r, k, count, buffer) : NULL;
        }
        pack_transposed(panel + k / PACK * NR, row, p->w.row_dtype, count);
    }
}

/* Asks for elements [begin, end) of rows [first, last) as they lie: parts of rows far apart, which
 * a cache does not foresee. */
static inline void expect_rows(const foci_weights *w, int64_t first, int64_t last, int64_t begin,
                               int64_t end)
{
    for (int64_t k = first; k < last; k++) {
        const char *row = w->data + (size_t)k * w->row_bytes;
        const char *stop = row + (size_t)(end / w->block) * w->block_bytes;
        for (row += (size_t)(begin / w->block) * w->block_bytes; row < stop; row += CACHE_LINE)
            __builtin_prefetch(row);
    }
}

/* The same, `count` panels side by side, of weights that lie transposed: NR columns of PACK rows
 * make a row of words. What is expanded begins and ends at whole blocks. */
static void pack_panels_transposed(const product *p, int64_t n, int64_t count, float *panels,
                                   char *rows)
{
    const int64_t K = p->a->K, N = p->a->N, panel_words = p->words * NR;
    const int64_t begin = n / p->w.block * p->w.block;
    const int64_t width = foci_min64(foci_round_up(n + count * NR, p->w.block), N) - begin;
    for (int64_t k = 0; k < K; k += PACK, panels += NR) {
        const char *row[PACK];
        expect_rows(&p->w, k + PACK_AHEAD, foci_min64(K, k + PACK_AHEAD + PACK), n,
                    foci_min64(N, n + count * NR));
        for (int64_t i = 0; i < PACK; i++) {
            char *buffer = rows + i * width * (int64_t)sizeof(float);
            row[i] = k + i < K ? foci_weights_row(&p->w, k + i, begin, width, buffer) : NULL;
        }
        for (int64_t c = 0; c < count; c++) {
            vec lo, hi;
            load_columns(row[0], row[PACK - 1], p->w.row_dtype, n - begin + c * NR, width, &lo,
                         &hi);
            v_zip(&lo, &hi);
            v_store(panels + c * panel_words, lo);
            v_store(panels + c * panel_words + VL, hi);
        }
    }
}

static void pack_panels(const product *p, int64_t n, int64_t count, float *panels, char *rows)
{
    if (p->a->w_is_transposed) {
        pack_panels_transposed(p, n, count, panels, rows);
        return;
    }
    for (int64_t c = 0; c < count; c++) pack_panel(p, n + c * NR, panels + c * p->words * NR, rows);
}

#endif /* FOCI_OPS_MATMUL_MATMUL_PACK_BODY_H */
