/* The attention cases: sizes around tile edges, one of everything, and seeded mixtures. */
#include "base/error.h"
#include "base/random.h"
#include "support/cases.h"

/* clang-format off */
const attn_spec attn_specs[] = {
    {.T = 1, .S = 1, .H = 1, .G = 1, .D = 1},
    {.T = 2, .S = 2, .H = 3, .G = 1, .D = 3, .Dv = 1},
    {.T = 67, .S = 67, .H = 4, .G = 2, .D = 40},
    {.T = 129, .S = 129, .H = 8, .G = 1, .D = 128, .rows = ROWS_TOGETHER},
    {.T = 31, .S = 31, .H = 5, .G = 5, .D = 64, .Dv = 96, .is_misaligned = true},
    {.T = 12, .S = 257, .H = 9, .G = 3, .D = 64, .rows = ROWS_ODD},
    {.T = 33, .S = 5, .H = 2, .G = 1, .D = 16}, /* 28 queries see nothing */
    {.T = 33, .S = 5, .H = 2, .G = 1, .D = 16, .is_bidirectional = true},
    {.T = 13, .S = 48, .H = 2, .G = 2, .D = 256, .is_bidirectional = true},
    {.T = 13, .S = 48, .H = 2, .G = 2, .D = 8, .Dv = 256, .dtype = FOCAL_BF16},
    {.T = 49, .S = 49, .H = 2, .G = 1, .D = 16, .is_bidirectional = true, .has_window = true,
     .window = 7, .sinks = 2},
    {.T = 49, .S = 49, .H = 2, .G = 1, .D = 16, .has_window = true},
    {.T = 49, .S = 49, .H = 2, .G = 1, .D = 16, .has_window = true, .window = 5, .sinks = 99},
    {.T = 128, .S = 128, .H = 2, .G = 1, .D = 64, .has_window = true, .window = 999, .sinks = 4},
    {.T = 47, .S = 47, .H = 4, .G = 2, .D = 64, .softcap = 2.0F, .heat = 3.0F},
    {.T = 47, .S = 47, .H = 4, .G = 2, .D = 64, .heat = 40.0F}, /* weights of 0 and 1 */
    {.T = 64, .S = 64, .H = 4, .G = 2, .D = 80, .dtype = FOCAL_BF16, .heat = 40.0F},
    {.T = 32, .S = 100, .H = 9, .G = 3, .D = 64, .dtype = FOCAL_BF16, .page_rows = 16},
    {.T = 3, .S = 127, .H = 3, .G = 1, .D = 64, .page_rows = 1, .is_misaligned = true},
    {.T = 3, .S = 127, .H = 3, .G = 1, .D = 64, .page_rows = 1000, .rows = ROWS_ODD},
    {.H = 4, .G = 2, .D = 64, .seq_count = 5,
     .lengths = {{1, 1}, {1, 300}, {67, 67}, {16, 130}, {2, 2}}},
    {.H = 9, .G = 3, .D = 64, .seq_count = 4, .dtype = FOCAL_BF16, .page_rows = 7, .lengths = {{1,
     211}, {5, 64}, {49, 49}, {16, 17}}},
    {.H = 4, .G = 2, .D = 32, .seq_count = 3, .rows = ROWS_TOGETHER, .lengths = {{40, 40}, {1, 33},
     {48, 96}}},
    {.T = 200, .S = 200, .H = 9, .G = 3, .D = 64, .has_window = true, .window = 16, .sinks = 4,
     .groups = GROUPS_RANDOM, .K = 16, .top = 2},
    {.T = 200, .S = 200, .H = 9, .G = 3, .D = 64, .has_window = true, .window = 16, .sinks = 4,
     .groups = GROUPS_RANDOM, .K = 16, .top = 2, .dtype = FOCAL_BF16},
    {.T = 200, .S = 200, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 16, .sinks = 1,
     .groups = GROUPS_RANDOM, .mode = FOCAL_SHARED, .K = 4, .top = 2, .has_one_router = true},
    {.T = 150, .S = 150, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 0, .groups =
     GROUPS_RANDOM, .mode = FOCAL_SHARED, .K = 64, .top = 33, .dtype = FOCAL_BF16},
    {.T = 130, .S = 130, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 9, .groups =
     GROUPS_RANDOM, .K = 3, .top = 3}, /* k = K: dense */
    {.T = 130, .S = 130, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 9, .groups =
     GROUPS_ONE, .K = 16, .top = 4},
    {.T = 130, .S = 130, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 9, .sinks = 3,
     .groups = GROUPS_HALF, .K = 8, .top = 2},
    {.T = 130, .S = 130, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 9, .groups =
     GROUPS_MISSED, .K = 8, .top = 2},
    {.T = 130, .S = 130, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 9, .sinks = 1,
     .groups = GROUPS_LONELY, .K = 8, .top = 1},
    {.T = 60, .S = 60, .H = 2, .G = 1, .D = 16, .has_window = true, .window = 100, .groups =
     GROUPS_RANDOM, .K = 8, .top = 2}, /* nothing is distant */
    {.T = 60, .S = 60, .H = 2, .G = 1, .D = 16, .has_window = true, .window = 3, .sinks = 80,
     .groups = GROUPS_RANDOM, .K = 8, .top = 2}, /* every key is a sink */
    {.T = 1, .S = 1, .H = 2, .G = 1, .D = 16, .has_window = true, .groups = GROUPS_RANDOM, .K = 1,
     .top = 1},
    {.T = 1, .S = 300, .H = 9, .G = 3, .D = 64, .has_window = true, .window = 20, .sinks = 4,
     .groups = GROUPS_RANDOM, .K = 16, .top = 4, .dtype = FOCAL_BF16},
    {.T = 9, .S = 300, .H = 9, .G = 3, .D = 64, .has_window = true, .window = 20, .sinks = 4,
     .groups = GROUPS_RANDOM, .K = 8, .top = 2, .page_rows = 16, .is_permuted = true},
    {.T = 90, .S = 300, .H = 6, .G = 3, .D = 64, .has_window = true, .window = 20, .sinks = 4,
     .groups = GROUPS_RANDOM, .K = 8, .top = 2, .is_permuted = true, .mode = FOCAL_SHARED},
    {.T = 40, .S = 12, .H = 6, .G = 3, .D = 8, .has_window = true, .window = 2, .sinks = 1, .groups
     = GROUPS_RANDOM, .K = 2, .top = 1}, /* more queries than keys */
    {.H = 6, .G = 3, .D = 64, .has_window = true, .window = 12, .sinks = 4, .groups = GROUPS_RANDOM,
     .K = 4, .top = 2, .softcap = 20.0F, .seq_count = 4, .lengths = {{1, 200}, {70, 70}, {16, 129},
     {3, 3}}},
};
/* clang-format on */
const size_t attn_spec_count = FOCAL_COUNT(attn_specs);

/* clang-format off */
const attn_spec attn_long_specs[] = {
    {.T = 700, .S = 700, .H = 3, .G = 1, .D = 64},
    {.T = 700, .S = 700, .H = 3, .G = 1, .D = 64, .dtype = FOCAL_BF16, .rows = ROWS_TOGETHER},
    {.T = 1024, .S = 1024, .H = 2, .G = 1, .D = 32, .has_window = true, .window = 128, .sinks = 4},
    {.T = 1500, .S = 1500, .H = 2, .G = 2, .D = 64, .has_window = true, .window = 128, .sinks = 4,
     .groups = GROUPS_RANDOM, .K = 16, .top = 2},
    {.T = 1300, .S = 1300, .H = 3, .G = 1, .D = 64, .has_window = true, .window = 128, .sinks = 4,
     .groups = GROUPS_RANDOM, .K = 16, .top = 4, .dtype = FOCAL_BF16},
    {.T = 1000, .S = 1000, .H = 2, .G = 1, .D = 64, .has_window = true, .window = 64, .sinks = 4,
     .groups = GROUPS_RANDOM, .mode = FOCAL_SHARED, .K = 8, .top = 2},
    {.T = 900, .S = 900, .H = 2, .G = 1, .D = 32, .has_window = true, .window = 33, .groups =
     GROUPS_ONE, .K = 16, .top = 4, .dtype = FOCAL_BF16},
    {.H = 3, .G = 1, .D = 64, .seq_count = 3, .dtype = FOCAL_BF16, .page_rows = 64, .lengths = {{1,
     3000}, {16, 1500}, {300, 500}}},
    {.H = 3, .G = 1, .D = 64, .seq_count = 2, .has_window = true, .window = 100, .sinks = 4, .groups
     = GROUPS_RANDOM, .K = 16, .top = 2, .lengths = {{1, 4000}, {500, 800}}},
    /* about where tiles go from hiding keys to lists of them */
    {.T = 1024, .S = 1024, .H = 3, .G = 1, .D = 64, .has_window = true, .window = 128, .sinks = 4,
     .groups = GROUPS_RANDOM, .K = 16, .top = 4, .dtype = FOCAL_BF16, .page_rows = 32,
     .is_permuted = true},
    {.T = 300, .S = 1025, .H = 3, .G = 1, .D = 64, .has_window = true, .window = 128, .sinks = 4,
     .groups = GROUPS_RANDOM, .K = 16, .top = 4, .dtype = FOCAL_BF16, .page_rows = 32,
     .is_permuted = true},
    {.T = 513, .S = 513, .H = 2, .G = 1, .D = 40, .has_window = true, .window = 20, .sinks = 20,
     .groups = GROUPS_RANDOM, .K = 16, .top = 1, .dtype = FOCAL_BF16, .softcap = 5.0F},
    {.T = 512, .S = 512, .H = 2, .G = 1, .D = 40, .has_window = true, .window = 20, .sinks = 20,
     .groups = GROUPS_RANDOM, .K = 64, .top = 1, .dtype = FOCAL_BF16, .softcap = 5.0F},
    {.T = 1100, .S = 1100, .H = 2, .G = 1, .D = 64, .has_window = true, .window = 64, .sinks = 4,
     .groups = GROUPS_RANDOM, .mode = FOCAL_SHARED, .K = 8, .top = 2, .dtype = FOCAL_BF16},
};
/* clang-format on */
const size_t attn_long_spec_count = FOCAL_COUNT(attn_long_specs);

/* clang-format off */
const attn_spec attn_gate_specs[] = {
    {.T = 40, .S = 40, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 5, .sinks = 2, .K = 4,
     .gate = FOCAL_GATE_PAPER},
    {.T = 67, .S = 67, .H = 3, .G = 1, .D = 40, .Dv = 24, .has_window = true, .window = 0, .K = 3,
     .gate = FOCAL_GATE_PAPER, .softcap = 5.0F, .heat = 3.0F},
    {.T = 129, .S = 129, .H = 9, .G = 3, .D = 64, .has_window = true, .window = 16, .sinks = 4, .K =
     16, .gate = FOCAL_GATE_PAPER, .has_one_router = true, .dtype = FOCAL_BF16},
    {.T = 40, .S = 40, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 5, .sinks = 2, .K = 4,
     .gate = FOCAL_GATE_LOG},
    {.T = 20, .S = 77, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 5, .K = 64, .gate =
     FOCAL_GATE_LOG, .softcap = 4.0F, .heat = 2.0F, .rows = ROWS_ODD},
    {.T = 130, .S = 130, .H = 6, .G = 2, .D = 64, .has_window = true, .window = 12, .sinks = 4, .K =
     7, .gate = FOCAL_GATE_LOG, .dtype = FOCAL_BF16, .has_one_router = true},
    {.T = 40, .S = 40, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 5, .sinks = 2, .K = 4,
     .top = 1, .gate = FOCAL_GATE_STRAIGHT, .groups = GROUPS_RANDOM},
    {.T = 130, .S = 130, .H = 9, .G = 3, .D = 64, .has_window = true, .window = 16, .sinks = 4, .K =
     16, .top = 2, .gate = FOCAL_GATE_STRAIGHT, .groups = GROUPS_RANDOM},
    {.T = 130, .S = 130, .H = 9, .G = 3, .D = 64, .has_window = true, .window = 16, .sinks = 4, .K =
     16, .top = 2, .gate = FOCAL_GATE_STRAIGHT, .groups = GROUPS_RANDOM, .dtype = FOCAL_BF16,
     .has_one_router = true},
    {.T = 70, .S = 70, .H = 4, .G = 2, .D = 32, .has_window = true, .window = 3, .K = 5, .top = 2,
     .gate = FOCAL_GATE_STRAIGHT, .groups = GROUPS_RANDOM, .mode = FOCAL_SHARED, .heat = 8.0F},
    {.T = 70, .S = 70, .H = 4, .G = 2, .D = 32, .has_window = true, .window = 3, .K = 5, .top = 2,
     .gate = FOCAL_GATE_STRAIGHT, .groups = GROUPS_MISSED, .softcap = 3.0F, .heat = 6.0F, .rows =
     ROWS_TOGETHER},
    {.T = 1, .S = 1, .H = 1, .G = 1, .D = 4, .has_window = true, .K = 1, .top = 1, .gate =
     FOCAL_GATE_STRAIGHT, .groups = GROUPS_RANDOM},
    {.H = 4, .G = 2, .D = 16, .has_window = true, .window = 6, .sinks = 1, .K = 4, .top = 2, .gate =
     FOCAL_GATE_STRAIGHT, .groups = GROUPS_RANDOM, .seq_count = 3, .lengths = {{30, 30}, {1, 40},
     {65, 70}}},
    {.H = 4, .G = 2, .D = 16, .has_window = true, .window = 6, .sinks = 1, .K = 4, .gate =
     FOCAL_GATE_PAPER, .seq_count = 3, .lengths = {{30, 30}, {1, 40}, {65, 70}}},
    {.T = 400, .S = 400, .H = 3, .G = 1, .D = 64, .has_window = true, .window = 64, .sinks = 4, .K =
     16, .top = 2, .gate = FOCAL_GATE_STRAIGHT, .groups = GROUPS_RANDOM},
    {.T = 300, .S = 300, .H = 2, .G = 1, .D = 64, .has_window = true, .window = 64, .sinks = 4, .K =
     16, .gate = FOCAL_GATE_LOG},
    {.T = 40, .S = 40, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 5, .sinks = 2, .K = 4,
     .gate = FOCAL_GATE_SCALE},
    {.T = 300, .S = 300, .H = 9, .G = 3, .D = 64, .has_window = true, .window = 64, .sinks = 4, .K =
     1, .gate = FOCAL_GATE_SCALE, .has_one_router = true, .dtype = FOCAL_BF16},
    {.T = 20, .S = 277, .H = 4, .G = 2, .D = 17, .has_window = true, .window = 3, .K = 2, .gate =
     FOCAL_GATE_SCALE, .softcap = 4.0F, .heat = 3.0F, .rows = ROWS_ODD},
    {.H = 6, .G = 2, .D = 16, .has_window = true, .window = 5, .sinks = 4, .K = 3, .gate =
     FOCAL_GATE_SCALE, .has_one_router = true, .seq_count = 4, .lengths = {{120, 130}, {1, 90}, {7,
     7}, {65, 65}}},
    /* across tiles: rows of queries, runs and blocks of keys, panels of groups */
    {.T = 300, .S = 300, .H = 5, .G = 5, .D = 24, .Dv = 40, .has_window = true, .window = 0, .K = 2,
     .gate = FOCAL_GATE_PAPER, .has_one_router = true, .rows = ROWS_ODD},
    {.T = 257, .S = 257, .H = 9, .G = 3, .D = 16, .has_window = true, .window = 128, .sinks = 4, .K =
     64, .gate = FOCAL_GATE_PAPER, .softcap = 6.0F, .heat = 3.0F},
    {.T = 250, .S = 300, .H = 5, .G = 5, .D = 17, .has_window = true, .window = 5, .sinks = 4, .K = 3,
     .gate = FOCAL_GATE_LOG, .has_one_router = true, .heat = 4.0F},
    {.T = 200, .S = 200, .H = 9, .G = 3, .D = 64, .Dv = 33, .has_window = true, .window = 128, .K =
     1, .gate = FOCAL_GATE_LOG, .dtype = FOCAL_BF16, .rows = ROWS_TOGETHER},
    {.T = 300, .S = 300, .H = 5, .G = 5, .D = 24, .has_window = true, .window = 5, .sinks = 4, .K =
     64, .top = 3, .gate = FOCAL_GATE_STRAIGHT, .groups = GROUPS_RANDOM, .softcap = 8.0F, .heat =
     5.0F},
    {.T = 290, .S = 300, .H = 9, .G = 3, .D = 16, .Dv = 8, .has_window = true, .window = 0, .K = 3,
     .top = 1, .gate = FOCAL_GATE_STRAIGHT, .groups = GROUPS_HALF, .has_one_router = true, .rows =
     ROWS_ODD, .dtype = FOCAL_BF16},
    {.T = 200, .S = 200, .H = 4, .G = 1, .D = 32, .has_window = true, .window = 128, .sinks = 4, .K =
     2, .top = 1, .gate = FOCAL_GATE_STRAIGHT, .groups = GROUPS_RANDOM, .mode = FOCAL_SHARED},
    {.T = 8, .S = 3, .H = 2, .G = 1, .D = 16, .has_window = true, .window = 1, .K = 2, .gate =
     FOCAL_GATE_PAPER},
    {.H = 6, .G = 2, .D = 16, .has_window = true, .window = 5, .sinks = 4, .K = 16, .gate =
     FOCAL_GATE_LOG, .has_one_router = true, .seq_count = 4, .lengths = {{120, 130}, {1, 90}, {7, 7},
     {65, 65}}, .rows = ROWS_ODD},
    {.H = 6, .G = 2, .D = 16, .has_window = true, .window = 5, .sinks = 4, .K = 16, .top = 2, .gate =
     FOCAL_GATE_STRAIGHT, .groups = GROUPS_RANDOM, .has_one_router = true, .seq_count = 3, .lengths =
     {{120, 130}, {1, 90}, {65, 65}}, .dtype = FOCAL_BF16},
    /* so many keys that a block of them has several sub-blocks */
    {.T = 40, .S = 1700, .H = 3, .G = 1, .D = 16, .has_window = true, .window = 5, .sinks = 4, .K = 16,
     .gate = FOCAL_GATE_PAPER},
    {.T = 40, .S = 1700, .H = 3, .G = 1, .D = 16, .has_window = true, .window = 5, .sinks = 4, .K = 16,
     .top = 2, .gate = FOCAL_GATE_STRAIGHT, .groups = GROUPS_RANDOM},
    /* straight-through in bfloat16: panels of groups, masks and caps, blocks of keys */
    {.T = 300, .S = 300, .H = 6, .G = 2, .D = 40, .Dv = 24, .has_window = true, .window = 5, .sinks =
     4, .K = 64, .top = 3, .gate = FOCAL_GATE_STRAIGHT, .groups = GROUPS_RANDOM, .softcap = 3.0F,
     .heat = 2.0F, .dtype = FOCAL_BF16},
    {.T = 200, .S = 200, .H = 4, .G = 1, .D = 32, .has_window = true, .window = 3, .sinks = 4, .K =
     17, .top = 2, .gate = FOCAL_GATE_STRAIGHT, .groups = GROUPS_RANDOM, .mode = FOCAL_SHARED,
     .dtype = FOCAL_BF16},
    {.T = 70, .S = 70, .H = 4, .G = 2, .D = 32, .has_window = true, .window = 0, .K = 5, .top = 2,
     .gate = FOCAL_GATE_STRAIGHT, .groups = GROUPS_MISSED, .heat = 8.0F, .rows = ROWS_TOGETHER,
     .dtype = FOCAL_BF16},
    {.T = 40, .S = 1700, .H = 3, .G = 1, .D = 64, .has_window = true, .window = 128, .sinks = 4, .K =
     16, .top = 2, .gate = FOCAL_GATE_STRAIGHT, .groups = GROUPS_RANDOM, .dtype = FOCAL_BF16},
};
/* clang-format on */
const size_t attn_gate_spec_count = FOCAL_COUNT(attn_gate_specs);

enum { STREAM_SPEC = 1000 };

/* The n-th choice of a seed. */
typedef struct chooser {
    uint64_t seed, n;
} chooser;

static int32_t below(chooser *c, int32_t bound)
{
    return (int32_t)foci_random_below(c->seed, STREAM_SPEC, c->n++, (uint32_t)bound);
}

static bool once_in(chooser *c, int32_t n)
{
    return below(c, n) == 0;
}

static int32_t pick(chooser *c, const int32_t *from, size_t count)
{
    return from[below(c, (int32_t)count)];
}

static const int32_t lengths[] = {1,  2,  3,  4,  5,  8,  11, 12, 13, 15, 16, 17,  24,  31,
                                  32, 33, 47, 48, 49, 63, 64, 65, 67, 95, 97, 127, 128, 129};
static const int32_t widths[] = {1, 3, 8, 16, 24, 40, 64, 64, 64, 80, 96, 128, 256};
static const int32_t heads[][2] = {{1, 1}, {4, 2}, {9, 3}, {8, 1}, {5, 5}, {3, 1}};
static const int32_t windows[] = {0, 1, 5, 16, 33, 128, 1000};
static const int32_t sinks[] = {0, 1, 4, 17, 500};
static const int32_t group_counts[] = {1, 2, 3, 16, 64};
static const int32_t page_sizes[] = {1, 7, 16, 64};

static void choose_lengths(chooser *c, attn_spec *s, bool has_gradients)
{
    s->seq_count = once_in(c, 3) ? 1 + below(c, 5) : 0;
    for (int32_t n = 0; n < (s->seq_count > 0 ? s->seq_count : 1); n++) {
        int32_t T = pick(c, lengths, FOCAL_COUNT(lengths)), S = T;
        if (once_in(c, 3)) S = T + below(c, 200); /* a cache */
        if (once_in(c, 5)) T = 1 + below(c, 16);  /* decoding */
        if (once_in(c, 8)) S = pick(c, lengths, FOCAL_COUNT(lengths));
        if (has_gradients && S > 130) S = 130;
        s->lengths[n][0] = T;
        s->lengths[n][1] = S;
    }
    s->T = s->lengths[0][0];
    s->S = s->lengths[0][1];
}

static void choose_groups(chooser *c, attn_spec *s, bool has_gradients)
{
    s->has_window = true;
    s->groups = (attn_groups)(1 + below(c, 5));
    s->mode = once_in(c, 3) ? FOCAL_SHARED : FOCAL_DIRECTED;
    s->K = pick(c, group_counts, FOCAL_COUNT(group_counts));
    s->top = once_in(c, 2) ? 1 + below(c, s->K) : 1 + below(c, s->K < 4 ? s->K : 4);
    s->has_one_router = once_in(c, 3);
    s->is_permuted = !has_gradients && once_in(c, 4);
    if (once_in(c, 2)) s->window = below(c, 20); /* leave something distant */
    if (once_in(c, 2)) s->sinks = below(c, 5);
}

attn_spec attn_spec_random(uint64_t seed, bool has_gradients)
{
    chooser c = {seed, 0};
    attn_spec s = {.H = 1};
    const int32_t head = below(&c, (int32_t)FOCAL_COUNT(heads));
    s.H = heads[head][0];
    s.G = heads[head][1];
    s.D = pick(&c, widths, FOCAL_COUNT(widths));
    if (once_in(&c, 3)) s.Dv = pick(&c, widths, FOCAL_COUNT(widths));
    s.dtype = once_in(&c, 2) ? FOCAL_BF16 : FOCAL_F32;
    choose_lengths(&c, &s, has_gradients);
    s.rows = (attn_rows)below(&c, 3);
    s.is_misaligned = once_in(&c, 4);
    if (!has_gradients && once_in(&c, 4))
        s.page_rows = pick(&c, page_sizes, FOCAL_COUNT(page_sizes));
    s.has_window = once_in(&c, 2);
    if (s.has_window) {
        s.window = pick(&c, windows, FOCAL_COUNT(windows));
        s.sinks = pick(&c, sinks, FOCAL_COUNT(sinks));
    }
    s.is_bidirectional = once_in(&c, 5);
    if (once_in(&c, 5)) s.softcap = 0.5F + (float)below(&c, 30);
    s.heat = once_in(&c, 4) ? 6.0F : 1.0F;
    if (!s.is_bidirectional && once_in(&c, 2)) choose_groups(&c, &s, has_gradients);
    return s;
}

attn_spec attn_spec_q8(attn_spec spec)
{
    spec.has_q8_keys = true;
    spec.D = (spec.D + 31) / 32 * 32;
    spec.Dv = (spec.Dv + 31) / 32 * 32;
    return spec;
}
