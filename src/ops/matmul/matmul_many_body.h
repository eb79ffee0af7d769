/* Products of one x as one list of panels, for kernels of many rows: how a call is cut, which panel
 * belongs to which product, and outputs that an activation joins. Included by one file an
 * instruction set, after its dialect. */
#ifndef FOCI_OPS_MATMUL_MATMUL_MANY_BODY_H
#define FOCI_OPS_MATMUL_MATMUL_MANY_BODY_H

#include "ops/activate_body.h"
#include "ops/matmul/matmul_pack_body.h"

/* Products of one x, one block of its rows, and how they are cut: items of panels, and parts of the
 * rows where there are fewer items than threads. */
typedef struct many_call {
    product *p; /* (count) */
    int32_t count;
    const foci_activation *activation; /* NULL: products; else their panels alternate */
    int64_t row, rows;
    int64_t panels;      /* of all products */
    int64_t panel_words; /* of the longest, for each output */
    int64_t item_panels, item_count;
    int64_t lap;              /* elements of a sum whose panels an item packs at a time */
    int64_t part, part_count; /* tiles of a part */
    float *x;                 /* the block's rows, where they are packed */
    char *scratch;            /* thread_bytes a thread */
    size_t thread_bytes;
} many_call;

/* Outputs n .. n + count of row m: the activation of one sum, times the other. */
FOCI_INLINE void finish_gated(const many_call *c, int64_t m, int64_t n, const float *gate,
                              const float *up, int64_t count)
{
    const foci_matmul_args *a = c->p[0].a, *b = c->p[c->count - 1].a;
    char *row = out_row(a, m);
    for (int64_t i = 0; i < count; i += VL) {
        const int64_t some = foci_min64(count - i, VL);
        vec y = v_load(gate + i);
        if (a->bias) y = v_add(y, load_floats((const char *)a->bias, FOCAL_F32, n + i, some));
        y = activate(*c->activation, y);
        if (up) {
            vec z = v_load(up + i);
            if (b->bias) z = v_add(z, load_floats((const char *)b->bias, FOCAL_F32, n + i, some));
            y = v_mul(y, z);
        }
        store_floats(row, a->out_dtype, n + i, some, y);
    }
}

/* A panel of one of the products, packed. */
typedef struct packed_panel {
    const product *p;
    int64_t n; /* its first output */
    const float *words;
    int64_t begin, end; /* words of the sum that it holds */
} packed_panel;

/* Panel `index` of all: product after product, or of a gate and up in turn. */
static packed_panel find_panel(const many_call *c, int64_t index)
{
    if (c->activation)
        return (packed_panel){.p = &c->p[index % c->count], .n = index / c->count * NR};
    const product *p = c->p;
    for (int64_t own; index >= (own = foci_pieces(p->a->N, NR)); p++) index -= own;
    return (packed_panel){.p = p, .n = index * NR};
}

/* Packs the panels of an item, in `words`, one behind the other; at tells which they are. Returns
 * their number. */
static int64_t pack_item(const many_call *c, sum_span span, int64_t item, packed_panel *at,
                         float *words, char *rows)
{
    const int64_t begin = item * c->item_panels;
    const int64_t count = foci_min64(c->panels - begin, c->item_panels);
    for (int64_t n = 0; n < count; n++) {
        at[n] = find_panel(c, begin + n);
        at[n].words = words + n * span.panel_words;
        at[n].begin = span.begin / PACK;
        at[n].end = words_of(span.end);
    }
    for (int64_t n = 0, run; n < count; n += run) {
        run = 1; /* panels of one product that lie side by side */
        while (n + run < count && at[n + run].p == at[n].p) run++;
        pack_panels(at[n].p, span, at[n].n, run, words + n * span.panel_words, rows);
    }
    return count;
}

/* The largest number of panels, a multiple of `step`, with which no thread has more to do than with
 * others. */
static int64_t choose_panels(int64_t panels, int64_t step, int64_t most, int64_t threads)
{
    int64_t best = step, least = INT64_MAX;
    for (int64_t item = most / step * step; item >= step; item -= step) {
        const int64_t longest = foci_pieces(foci_pieces(panels, item), threads) * item;
        if (longest >= least) continue;
        least = longest;
        best = item;
    }
    return best;
}

#endif /* FOCI_OPS_MATMUL_MATMUL_MANY_BODY_H */
