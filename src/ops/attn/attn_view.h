/* How kernels reach into a call: rows of k and v in a block or in pages, the interval of
 * positions a query sees, and the groups each query looks into. */
#ifndef FOCI_OPS_ATTN_ATTN_VIEW_H
#define FOCI_OPS_ATTN_ATTN_VIEW_H

#include "base/sizes.h"
#include "focal/attn.h"

/* Rows of k or of v of one sequence and one key head. */
typedef struct foci_rows {
    const char *base;         /* of row 0, when there are no pages */
    const void *const *pages; /* or NULL */
    int64_t row_bytes;
    int64_t head_bytes; /* where the head's elements begin in a row */
    int32_t page_rows;
} foci_rows;

/* The type of k and v. */
static inline focal_dtype foci_attn_kv_dtype(const focal_attn_args *args)
{
    return args->has_q8_keys ? FOCAL_Q8_0 : args->dtype;
}

/* Bytes of `elements` elements of k or v, whole blocks of them. */
static inline int64_t foci_attn_kv_bytes(const focal_attn_args *args, int64_t elements)
{
    const focal_dtype dtype = foci_attn_kv_dtype(args);
    return elements / focal_dtype_block(dtype) * (int64_t)focal_dtype_block_bytes(dtype);
}

foci_rows foci_attn_k_rows(const focal_attn_args *args, const focal_attn_seq *seq, int32_t g);
foci_rows foci_attn_v_rows(const focal_attn_args *args, const focal_attn_seq *seq, int32_t g);

static inline const char *foci_row(const foci_rows *rows, int64_t row)
{
    if (!rows->pages) return rows->base + row * rows->row_bytes + rows->head_bytes;
    const char *page = (const char *)rows->pages[row / rows->page_rows];
    return page + row % rows->page_rows * rows->row_bytes + rows->head_bytes;
}

/* How many rows from this one on lie side by side. */
static inline int64_t foci_rows_in_line(const foci_rows *rows, int64_t row)
{
    return rows->pages ? rows->page_rows - row % rows->page_rows : INT32_MAX;
}

/* The router (row of a key set's arrays) that serves key head g. */
static inline int32_t foci_router_of(int32_t routers, int32_t g)
{
    return routers == 1 ? 0 : g;
}

/* The row of k and v that holds position j. */
static inline int64_t foci_position_row(const focal_keys *keys, int32_t router, int64_t position)
{
    if (!keys || !keys->position_row) return position;
    return keys->position_row[router * keys->position_stride + position];
}

/* The positions a query sees without groups: [lo, hi), and the sinks [0, sink_hi) before them. */
typedef struct foci_local {
    int32_t lo, hi, sink_hi;
} foci_local;

/* Of query i of a sequence (docs/MATH.md, 1 and 3.3). */
static inline foci_local foci_attn_local(const focal_attn_args *args, const focal_attn_seq *seq,
                                         int32_t i)
{
    const int64_t position = (int64_t)seq->S - seq->T + i;
    int64_t lo = 0, hi = args->is_bidirectional ? seq->S : foci_max64(position + 1, 0);
    if (args->has_window) {
        lo = foci_min64(foci_max64(position - args->window, 0), hi);
        if (args->is_bidirectional)
            hi = foci_max64(foci_min64(position + args->window + 1, seq->S), lo);
    }
    const int64_t sink_hi = args->has_window ? foci_min64(args->sinks, lo) : 0;
    return (foci_local){(int32_t)lo, (int32_t)hi, (int32_t)sink_hi};
}

/* The same sets turned around: for each query the groups it looks into, ascending, with how far.
 * One allocation; begin has one row of T + 1 entries a router. */
typedef struct foci_visits {
    int32_t *begin; /* (routers, T+1) into group and end */
    int32_t *group; /* (routers, query_stride) */
    int32_t *end;   /* (routers, query_stride) */
    int64_t stride;
} foci_visits;

/* Fails with ENOMEM. Release with foci_scratch_free(ctx, visits.begin). */
focal_status foci_visits_make(focal_ctx *ctx, const focal_keys *keys, foci_visits *visits);

/* True when a distant pair of a shared set is met in group c: c is its lowest common group. */
static inline bool foci_meets_in(uint64_t query_mask, uint64_t key_mask, int32_t c)
{
    return (query_mask & key_mask & (((uint64_t)1 << c) - 1)) == 0;
}

#endif /* FOCI_OPS_ATTN_ATTN_VIEW_H */
