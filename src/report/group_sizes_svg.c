/* Sizes of groups: a row a layer, a block a router, a cell a group, the fullest first. */
#include <math.h>
#include <string.h>

#include "report/fits_page.h"

enum { WIDTH = 1040, LEFT = 64, RIGHT = 76, ROW = 15, TOP = 24, GAP = 10 };

/* Full colour at four times an even share. */
static double opacity_of(double share, int32_t K)
{
    return fmin(1.0, 0.04 + 0.24 * share * K);
}

static void sort_down(double *values, int32_t count)
{
    for (int32_t n = 1; n < count; n++) {
        const double value = values[n];
        int32_t at = n;
        for (; at > 0 && values[at - 1] < value; at--) values[at] = values[at - 1];
        values[at] = value;
    }
}

/* The picture's measures. */
typedef struct grid {
    int32_t blocks;
    double block, cell;
} grid;

static void write_block(foci_page *page, const grid *g, const foci_fit_sizes *sizes, int32_t K,
                        int32_t row, double *most)
{
    double shares[FOCAL_MAX_GROUPS];
    memcpy(shares, sizes->shares, (size_t)K * sizeof *shares);
    sort_down(shares, K);
    *most = fmax(*most, shares[0]);
    const double left = LEFT + sizes->router * (g->block + GAP);
    (void)fprintf(page->file,
                  "<g><title>layer %d, router %d: %.1f %% in the fullest group, %.1f %% in the "
                  "emptiest</title>\n",
                  sizes->layer, sizes->router, 100.0 * shares[0], 100.0 * shares[K - 1]);
    for (int32_t c = 0; c < K; c++)
        (void)fprintf(page->file,
                      "<rect class=\"cell\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" "
                      "opacity=\"%.2f\"/>",
                      left + c * g->cell, TOP + row * ROW, fmax(g->cell - 0.6, 0.6), ROW - 1,
                      opacity_of(shares[c], K));
    (void)fputs("</g>\n", page->file);
}

void foci_svg_sizes(foci_page *page, const foci_fit_measure *m, int32_t number)
{
    grid g = {0};
    int32_t rows = 0;
    for (int32_t n = 0; n < m->size_count; n++) {
        if (m->sizes[n].router >= g.blocks) g.blocks = m->sizes[n].router + 1;
        rows += m->sizes[n].router == 0;
    }
    if (rows == 0) return;
    g.block = (WIDTH - LEFT - RIGHT - GAP * (g.blocks - 1.0)) / g.blocks;
    g.cell = g.block / m->K;
    (void)fprintf(page->file,
                  "<svg class=\"sizes\" viewBox=\"0 0 %d %d\" role=\"img\" "
                  "aria-labelledby=\"sizes%d-title\"><title id=\"sizes%d-title\">Share of each "
                  "group, layer by layer</title>\n",
                  WIDTH, TOP + rows * ROW + 4, number, number);
    (void)fprintf(page->file, "<text x=\"%d\" y=\"14\" text-anchor=\"end\">layer</text>", LEFT - 8);
    for (int32_t b = 0; b < g.blocks && g.blocks > 1 && g.block > 60.0; b++)
        (void)fprintf(page->file, "<text x=\"%.1f\" y=\"14\">key head %d</text>",
                      LEFT + b * (g.block + GAP), b);
    (void)fprintf(page->file, "<text x=\"%d\" y=\"14\" text-anchor=\"end\">fullest</text>\n",
                  WIDTH - 8);
    for (int32_t n = 0, row = 0; n < m->size_count; row++) {
        double most = 0.0;
        const int32_t layer = m->sizes[n].layer;
        (void)fprintf(page->file, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%d</text>", LEFT - 8,
                      TOP + row * ROW + 11, layer);
        for (; n < m->size_count && m->sizes[n].layer == layer; n++)
            write_block(page, &g, &m->sizes[n], m->K, row, &most);
        (void)fprintf(page->file, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.1f %%</text>\n",
                      WIDTH - 8, TOP + row * ROW + 11, 100.0 * most);
    }
    (void)fputs("</svg>\n", page->file);
}
