/* Packing of weights, from either way that they may lie, into panels of packed words. Included by
 * one file an instruction set, after its dialect. */
#ifndef FOCI_OPS_MATMUL_MATMUL_PACK_BODY_H
#define FOCI_OPS_MATMUL_MATMUL_PACK_BODY_H

#include "ops/matmul/bytes.h"
#include "ops/matmul/matmul_product_body.h"
#ifdef FOCI_HAS_LEVELS
#include "ops/matmul/levels_avx2.h"
#else
#include "ops/matmul/levels_none.h"
#endif

_Static_assert(NV % 2 == 0 || PACK == 1, "columns of two rows are packed two vectors at a time");

enum {
    PACK_AHEAD = 24, /* rows, that those to be packed next are asked for */
    CACHE_LINE = 64
};

/* The stretch of a sum that panels hold: elements [begin, end), begin at a multiple of
 * FOCI_WEIGHT_PIECE, and words from panel to panel. */
typedef struct sum_span {
    int64_t begin, end;
    int64_t panel_words;
} sum_span;

/* The weights of outputs n .. n + NR (zeros past N) as packed words [w][NR]. */
static void pack_panel(const product *p, sum_span span, int64_t n, float *panel, char *rows)
{
    for (int64_t k = span.begin; k < span.end; k += FOCI_WEIGHT_PIECE) {
        const int64_t count = foci_min64(span.end - k, FOCI_WEIGHT_PIECE);
        const char *row[NR] = {NULL};
        foci_weights_rows(&p->w, n, foci_min64(p->a->N - n, NR), k, count, rows, row);
        pack_transposed(panel + (k - span.begin) / PACK * NR, row, p->w.row_dtype, count);
    }
}

/* Asks for elements [begin, end) of rows [first, last) as they lie: parts of rows far apart, which
 * a cache does not foresee. Interleaved rows stand together. */
static inline void expect_rows(const foci_weights *w, int64_t first, int64_t last, int64_t begin,
                               int64_t end)
{
    for (int64_t k = first; k < last && !w->is_interleaved; k++) {
        const char *row = w->data + (size_t)k * w->row_bytes;
        const char *stop = row + (size_t)(end / w->block) * w->block_bytes;
        for (row += (size_t)(begin / w->block) * w->block_bytes; row < stop; row += CACHE_LINE)
            __builtin_prefetch(row);
    }
}

/* The same, `count` panels side by side, of weights that lie transposed: NR columns of PACK rows
 * make a row of words. What is expanded begins and ends at whole blocks. */
static void pack_panels_transposed(const product *p, sum_span span, int64_t n, int64_t count,
                                   float *panels, char *rows)
{
    const int64_t N = p->a->N;
    const int64_t begin = n / p->w.block * p->w.block;
    const int64_t width = foci_min64(foci_round_up(n + count * NR, p->w.block), N) - begin;
    for (int64_t k = span.begin; k < span.end; k += PACK, panels += NR) {
        const char *row[PACK];
        expect_rows(&p->w, k + PACK_AHEAD, foci_min64(span.end, k + PACK_AHEAD + PACK), n,
                    foci_min64(N, n + count * NR));
        for (int64_t i = 0; i < PACK; i++) {
            char *buffer = rows + i * width * (int64_t)sizeof(float);
            row[i] = k + i < span.end ? foci_weights_row(&p->w, k + i, begin, width, buffer) : NULL;
        }
        for (int64_t c = 0; c < count; c++) {
            float *to = panels + c * span.panel_words;
            const int64_t column = n - begin + c * NR;
            for (int at = 0; at + VL < NR; at += 2 * VL) {
                vec lo, hi;
                load_columns(row[0], row[PACK - 1], p->w.row_dtype, column + at, width, &lo, &hi);
                v_zip(&lo, &hi);
                v_store(to + at, lo);
                v_store(to + at + VL, hi);
            }
            if (NV % 2 == 1) /* of single floats: a vector is a vector of words */
                v_store(to + NR - VL, words_at(row[0], p->w.row_dtype, column + NR - VL, width));
        }
    }
}

static void pack_panels(const product *p, sum_span span, int64_t n, int64_t count, float *panels,
                        char *rows)
{
    if (p->a->w_is_transposed) {
        pack_panels_transposed(p, span, n, count, panels, rows);
        return;
    }
    for (int64_t c = 0; c < count; c++) {
        float *panel = panels + c * span.panel_words;
        if (p->by_levels)
            pack_levels(p, n + c * NR, panel);
        else
            pack_panel(p, span, n + c * NR, panel, rows);
    }
}

#endif /* FOCI_OPS_MATMUL_MATMUL_PACK_BODY_H */
