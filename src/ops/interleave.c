/* Weights from the file's order into groups of 16 rows and back. Both ways copy words one by one:
 * a load does it once, and who reads many rows spends far more on what follows. */
#include "ops/interleave.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "focal/quant.h"

enum { ROWS = FOCI_INTERLEAVED_ROWS, PIECE = FOCI_INTERLEAVED_PIECE };

/* A block: 16-bit numbers, 32-bit words, 16-bit numbers. */
typedef struct layout {
    focal_dtype dtype;
    int32_t halves, words, last;
} layout;

static const layout layouts[] = {
    {FOCAL_Q4_0, 1, 4, 0},  {FOCAL_Q4_1, 2, 4, 0},   {FOCAL_Q5_0, 1, 5, 0},  {FOCAL_Q5_1, 2, 5, 0},
    {FOCAL_Q8_0, 1, 8, 0},  {FOCAL_IQ4_NL, 1, 4, 0}, {FOCAL_Q2_K, 0, 20, 2}, {FOCAL_Q3_K, 0, 27, 1},
    {FOCAL_Q4_K, 2, 35, 0}, {FOCAL_Q5_K, 2, 43, 0},  {FOCAL_Q6_K, 0, 52, 1},
};

static const layout *layout_of(focal_dtype dtype)
{
    for (size_t n = 0; n < FOCAL_COUNT(layouts); n++)
        if (layouts[n].dtype == dtype) return &layouts[n];
    return NULL;
}

bool foci_interleave_can(focal_dtype dtype, int64_t rows, int64_t K)
{
    return layout_of(dtype) && rows % ROWS == 0 && K % focal_dtype_block(dtype) == 0;
}

/* Block to and from its place in a group's. */
static void put_block(const layout *l, const uint8_t *block, uint8_t *to, int64_t row)
{
    for (int32_t n = 0; n < l->halves; n++, block += 2, to += 2 * ROWS)
        memcpy(to + 2 * row, block, 2);
    for (int32_t n = 0; n < l->words; n++, block += 4, to += 4 * ROWS)
        memcpy(to + 4 * row, block, 4);
    for (int32_t n = 0; n < l->last; n++, block += 2, to += 2 * ROWS)
        memcpy(to + 2 * row, block, 2);
}

static void get_block(const layout *l, const uint8_t *from, int64_t row, uint8_t *block)
{
    for (int32_t n = 0; n < l->halves; n++, block += 2, from += 2 * ROWS)
        memcpy(block, from + 2 * row, 2);
    for (int32_t n = 0; n < l->words; n++, block += 4, from += 4 * ROWS)
        memcpy(block, from + 4 * row, 4);
    for (int32_t n = 0; n < l->last; n++, block += 2, from += 2 * ROWS)
        memcpy(block, from + 2 * row, 2);
}

void foci_interleave_group(focal_dtype dtype, int64_t K, const void *rows, void *group)
{
    const layout *l = layout_of(dtype);
    const int64_t blocks = K / focal_dtype_block(dtype);
    const int64_t bytes = (int64_t)focal_dtype_block_bytes(dtype);
    const uint8_t *from = rows;
    uint8_t *to = group;
    for (int64_t row = 0; row < ROWS; row++)
        for (int64_t n = 0; n < blocks; n++, from += bytes)
            put_block(l, from, to + n * ROWS * bytes, row);
}

typedef struct interleave_call {
    focal_dtype dtype;
    int64_t K;
    uint8_t *w;
    size_t group_bytes;
    uint8_t *scratch; /* a group a thread */
} interleave_call;

static void interleave_item(void *arg, int64_t index, int32_t thread)
{
    const interleave_call *c = arg;
    uint8_t *group = c->w + (size_t)index * c->group_bytes;
    uint8_t *rows = c->scratch + (size_t)thread * c->group_bytes;
    memcpy(rows, group, c->group_bytes);
    foci_interleave_group(c->dtype, c->K, rows, group);
}

focal_status foci_interleave(focal_ctx *ctx, focal_dtype dtype, int64_t rows, int64_t K, void *w)
{
    interleave_call c = {.dtype = dtype, .K = K, .w = w};
    c.group_bytes =
        (size_t)(ROWS * (K / focal_dtype_block(dtype))) * focal_dtype_block_bytes(dtype);
    c.scratch = foci_scratch(ctx, (size_t)focal_ctx_threads(ctx), c.group_bytes);
    if (!c.scratch) return FOCAL_ENOMEM;
    foci_parallel(ctx, rows / ROWS, interleave_item, &c);
    foci_scratch_free(ctx, c.scratch);
    return FOCAL_OK;
}

/* Where the part's first block stands, with those of the other rows. */
static const uint8_t *first_block(const foci_interleaved_part *p)
{
    const int64_t block = focal_dtype_block(p->dtype);
    const int64_t index = p->row / ROWS * (p->K / block) + p->begin / block;
    return (const uint8_t *)p->w + index * ROWS * (int64_t)focal_dtype_block_bytes(p->dtype);
}

void foci_interleaved_read(const foci_interleaved_part *p, void *blocks)
{
    const layout *l = layout_of(p->dtype);
    const int64_t block = focal_dtype_block(p->dtype);
    const int64_t bytes = (int64_t)focal_dtype_block_bytes(p->dtype);
    const uint8_t *from = first_block(p);
    uint8_t *to = blocks;
    for (int64_t n = 0; n < p->count / block; n++, from += ROWS * bytes, to += bytes)
        get_block(l, from, p->row % ROWS, to);
}

/* Four words, of which compilers make a register of any machine that has some. */
typedef uint32_t quad __attribute__((vector_size(16)));

static quad load_quad(const uint8_t *from)
{
    quad q;
    memcpy(&q, from, sizeof q);
    return q;
}

/* Four words each of four rows. */
static void turn_square(const uint8_t *from, uint8_t *to)
{
    const quad a = load_quad(from), b = load_quad(from + 4 * ROWS);
    const quad c = load_quad(from + 8 * ROWS), d = load_quad(from + 12 * ROWS);
    const quad ac = __builtin_shufflevector(a, c, 0, 4, 1, 5);
    const quad bd = __builtin_shufflevector(b, d, 0, 4, 1, 5);
    const quad ac_rest = __builtin_shufflevector(a, c, 2, 6, 3, 7);
    const quad bd_rest = __builtin_shufflevector(b, d, 2, 6, 3, 7);
    const quad rows[4] = {__builtin_shufflevector(ac, bd, 0, 4, 1, 5),
                          __builtin_shufflevector(ac, bd, 2, 6, 3, 7),
                          __builtin_shufflevector(ac_rest, bd_rest, 0, 4, 1, 5),
                          __builtin_shufflevector(ac_rest, bd_rest, 2, 6, 3, 7)};
    for (ptrdiff_t n = 0; n < 4; n++)
        memcpy(to + n * FOCI_INTERLEAVED_BYTES, &rows[n], sizeof rows[n]);
}

static void get_words(const uint8_t *from, int32_t words, uint8_t *to)
{
    int32_t n = 0;
    for (; n + 4 <= words; n += 4, from += (ptrdiff_t)16 * ROWS, to += 16)
        for (ptrdiff_t row = 0; row < ROWS; row += 4)
            turn_square(from + 4 * row, to + row * FOCI_INTERLEAVED_BYTES);
    for (; n < words; n++, from += (ptrdiff_t)4 * ROWS, to += 4)
        for (ptrdiff_t row = 0; row < ROWS; row++)
            memcpy(to + row * FOCI_INTERLEAVED_BYTES, from + 4 * row, 4);
}

static void get_halves(const uint8_t *from, int32_t halves, uint8_t *to)
{
    for (int32_t n = 0; n < halves; n++)
        for (int row = 0; row < ROWS; row++)
            memcpy(to + row * FOCI_INTERLEAVED_BYTES + 2 * n, from + (n * ROWS + row) * 2, 2);
}

void foci_interleaved_read_group(const foci_interleaved_part *p,
                                 uint8_t blocks[ROWS * FOCI_INTERLEAVED_BYTES])
{
    const layout *l = layout_of(p->dtype);
    const int64_t count = p->count / focal_dtype_block(p->dtype);
    const int64_t bytes = (int64_t)focal_dtype_block_bytes(p->dtype);
    const int32_t words = 2 * l->halves, last = words + 4 * l->words;
    const uint8_t *from = first_block(p);
    for (int64_t n = 0; n < count; n++, from += ROWS * bytes, blocks += bytes) {
        get_halves(from, l->halves, blocks);
        get_words(from + ROWS * words, l->words, blocks + words);
        get_halves(from + ROWS * last, l->last, blocks + last);
    }
}

void foci_interleaved_expand(const foci_interleaved_part *p, const foci_quant_kernel *expand,
                             focal_dtype to_dtype, void *to)
{
    uint8_t blocks[FOCI_INTERLEAVED_BYTES];
    foci_interleaved_part piece = *p;
    for (int64_t at = 0; at < p->count; at += PIECE) {
        piece.begin = p->begin + at;
        piece.count = foci_min64(p->count - at, PIECE);
        foci_interleaved_read(&piece, blocks);
        if (!expand)
            (void)focal_dequantize(p->dtype, blocks, piece.count, (float *)to + at);
        else if (to_dtype == FOCAL_F32)
            expand->to_f32(p->dtype, blocks, piece.count, (float *)to + at);
        else
            expand->to_bf16(p->dtype, blocks, piece.count, (uint16_t *)to + at);
    }
}
