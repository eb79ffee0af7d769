/* The gradient of an embedding: tokens sorted by id, so that each row of the table is summed by one
 * thread in the order of its tokens. */
#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "ops/embed/embed.h"
#include "ops/rows.h"

enum {
    DIGIT_BITS = 8,
    DIGITS = 1 << DIGIT_BITS,
    PIECE_TOKENS = 16, /* of the sorted order; a piece makes the rows whose first token it has */
    COLUMNS = 256      /* a common id keeps only so much of the work with one thread */
};

/* (id, token) pairs, so that a pass of the sort reads in order. */
typedef struct entry {
    int32_t id, token;
} entry;

typedef struct call {
    const foci_embed_backward_args *args;
    const entry *order; /* (T) by id, then by token */
    int64_t column_blocks;
} call;

/* A stable counting sort by the digit of id that begins at bit `shift`. */
static void sort_by_digit(const entry *from, entry *to, int64_t count, int shift)
{
    int64_t starts[DIGITS + 1] = {0};
    for (int64_t n = 0; n < count; n++) starts[((from[n].id >> shift) & (DIGITS - 1)) + 1]++;
    for (int digit = 0; digit < DIGITS; digit++) starts[digit + 1] += starts[digit];
    for (int64_t n = 0; n < count; n++)
        to[starts[(from[n].id >> shift) & (DIGITS - 1)]++] = from[n];
}

/* Sorts what is in a; returns a or b, whichever has it in the end. */
static entry *sort_by_id(entry *a, entry *b, int64_t count, int64_t V)
{
    for (int shift = 0; shift < 31 && (V - 1) >> shift > 0; shift += DIGIT_BITS) {
        sort_by_digit(a, b, count, shift);
        entry *sorted = b;
        b = a;
        a = sorted;
    }
    return a;
}

/* Columns first .. last - 1 of the row of order[begin .. end - 1], which have one id: (4.6.1), in
 * double, so that one kernel is enough and it is the definition. */
static void add_row(const call *c, int64_t begin, int64_t end, int64_t first, int64_t last)
{
    const foci_embed_backward_args *a = c->args;
    double sums[COLUMNS] = {0};
    float *row = a->dtable + (int64_t)c->order[begin].id * a->C;
    for (int64_t n = begin; n < end; n++) {
        const float *dx = a->dx + (int64_t)c->order[n].token * a->dx_stride;
        for (int64_t k = first; k < last; k++) sums[k - first] += (double)dx[k];
    }
    for (int64_t k = first; k < last; k++)
        row[k] = (float)((double)row[k] + (double)a->scale * sums[k - first]);
}

static void add_piece(void *arg, int64_t index, int32_t thread)
{
    const call *c = arg;
    const int64_t T = c->args->T, first = index % c->column_blocks * COLUMNS;
    int64_t begin = index / c->column_blocks * PIECE_TOKENS;
    const int64_t last = foci_min64(begin + PIECE_TOKENS, T);
    (void)thread;
    while (begin > 0 && begin < last && c->order[begin].id == c->order[begin - 1].id) begin++;
    while (begin < last) {
        int64_t end = begin + 1;
        while (end < T && c->order[end].id == c->order[begin].id) end++;
        add_row(c, begin, end, first, foci_min64(first + COLUMNS, c->args->C));
        begin = end;
    }
}

static focal_status check(focal_ctx *ctx, const foci_embed_backward_args *a, int64_t *stride)
{
    if (!a || !a->ids || !a->dx || !a->dtable)
        return foci_fail(ctx, FOCAL_EINVAL, "embed backward: ids, dx and dtable must be set");
    if (a->V < 1 || a->C < 1 || a->T < 1 || a->V > INT32_MAX || a->C > INT32_MAX ||
        a->T > INT32_MAX)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "embed backward: V %lld, C %lld and T %lld must be 1 to %d",
                         (long long)a->V, (long long)a->C, (long long)a->T, INT32_MAX);
    *stride = a->dx_stride;
    FOCAL_TRY(foci_rows_check(ctx, "embed backward: dx", a->T, a->C, stride));
    for (int64_t t = 0; t < a->T; t++)
        if (a->ids[t] < 0 || a->ids[t] >= a->V)
            return foci_fail(ctx, FOCAL_EINVAL,
                             "embed backward: token %lld has the id %d, the table %lld rows",
                             (long long)t, a->ids[t], (long long)a->V);
    return FOCAL_OK;
}

focal_status foci_embed_backward(focal_ctx *ctx, const foci_embed_backward_args *args)
{
    foci_embed_backward_args normal;
    int64_t stride = 0;
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(check(ctx, args, &stride));
    normal = *args;
    normal.dx_stride = stride;
    entry *entries = foci_scratch(ctx, (size_t)normal.T, 2 * sizeof *entries);
    if (!entries) return FOCAL_ENOMEM;
    for (int64_t t = 0; t < normal.T; t++) entries[t] = (entry){normal.ids[t], (int32_t)t};
    call c = {.args = &normal,
              .order = sort_by_id(entries, entries + normal.T, normal.T, normal.V),
              .column_blocks = foci_pieces(normal.C, COLUMNS)};
    foci_parallel(ctx, foci_pieces(normal.T, PIECE_TOKENS) * c.column_blocks, add_piece, &c);
    foci_scratch_free(ctx, entries);
    return FOCAL_OK;
}
