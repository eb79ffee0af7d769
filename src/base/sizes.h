/* Sizes that cannot wrap: every product and sum of counts that came from outside. */
#ifndef FOCI_BASE_SIZES_H
#define FOCI_BASE_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each returns false, and leaves *out alone, when the result does not fit. */
static inline bool foci_size_mul(size_t a, size_t b, size_t *out)
{
    size_t result;
    if (__builtin_mul_overflow(a, b, &result)) return false;
    *out = result;
    return true;
}

static inline bool foci_size_add(size_t a, size_t b, size_t *out)
{
    size_t result;
    if (__builtin_add_overflow(a, b, &result)) return false;
    *out = result;
    return true;
}

static inline int64_t foci_min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t foci_max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* How many pieces of `piece` cover `count` (count >= 0, piece > 0), and the rounded-up count. */
static inline int64_t foci_pieces(int64_t count, int64_t piece)
{
    return count / piece + (count % piece != 0);
}

static inline int64_t foci_round_up(int64_t count, int64_t piece)
{
    return foci_pieces(count, piece) * piece;
}

#endif /* FOCI_BASE_SIZES_H */
