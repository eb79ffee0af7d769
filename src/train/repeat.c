/* Passages that come twice. */
#include "train/repeat.h"

#include "base/random.h"

enum { REPEAT_STREAM = 1 << 22 /* of random numbers: weights, data and samples have others */ };

/* Four numbers of a sequence: whether, how long, how far from the end. */
static foci_random4 draw(uint64_t seed, int64_t sample, int32_t length, int64_t row)
{
    return foci_random_block(seed, REPEAT_STREAM,
                             (uint64_t)sample * (uint64_t)length + (uint64_t)row);
}

/* 0..bound-1, as even as 32 bits make it. */
static int64_t below(uint32_t word, int64_t bound)
{
    return (int64_t)(((uint64_t)word * (uint64_t)bound) >> 32);
}

static void repeat(foci_windows *rows, const foci_sequence *sequence, foci_random4 random)
{
    int32_t *ids = rows->ids + sequence->start, *targets = rows->targets + sequence->start;
    const int64_t count = sequence->count;
    const int64_t n = targets[count - 1] >= 0 ? count : count - 1; /* the last id is a[n] */
    const int64_t least = n / 16, most = n / 4;
    if (least < 1) return;
    const int64_t l = least + below(random.x[1], most - least), o = below(random.x[2], n / 8);
    const int64_t begin = n + 1 - o - l;
    for (int64_t i = 0; i < l; i++) { /* l is below n / 4: the two do not overlap */
        const int64_t at = begin + i;
        if (at < count) ids[at] = ids[i];
        targets[at - 1] = ids[i];
    }
}

void foci_repeat_passages(foci_windows *rows, int64_t first, int32_t length, double share,
                          uint64_t seed)
{
    for (int64_t n = 0; n < rows->sequence_count; n++) {
        const foci_sequence *sequence = &rows->sequences[n];
        const int64_t sample = first + sequence->start / length;
        const foci_random4 random = draw(seed, sample, length, sequence->start % length);
        if ((double)random.x[0] < share * 4294967296.0) repeat(rows, sequence, random);
    }
}
