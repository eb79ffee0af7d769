/* Addition. One rounding an element, so every way of doing it gives the same bits; compilers make
 * vectors of this loop and memory sets its speed: there is one kernel. */
#include "ops/residual/add.h"

#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"

enum { PIECE = 1 << 14 };

typedef struct sum {
    float *out;
    const float *a, *b;
    int64_t count;
} sum;

static void add_piece(void *arg, int64_t index, int32_t thread)
{
    const sum *s = arg;
    const int64_t first = index * PIECE, last = foci_min64(first + PIECE, s->count);
    (void)thread;
    for (int64_t n = first; n < last; n++) s->out[n] = s->a[n] + s->b[n];
}

focal_status foci_add(focal_ctx *ctx, float *out, const float *a, const float *b, int64_t count)
{
    if (!ctx) return FOCAL_EINVAL;
    if (!out || !a || !b) return foci_fail(ctx, FOCAL_EINVAL, "add: out, a and b must be set");
    if (count < 0)
        return foci_fail(ctx, FOCAL_EINVAL, "add: the count is %lld, it must be 0 or more",
                         (long long)count);
    sum s = {.a = a, .b = b, .count = count};
    s.out = out;
    foci_parallel_rows(ctx, foci_pieces(count, PIECE), add_piece, &s);
    return FOCAL_OK;
}
