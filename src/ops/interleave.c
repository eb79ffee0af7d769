/* Weights from the file's order into groups of 16 rows and back: matrices of 16-bit and of 32-bit
 * numbers, a row a line or a lane, are transposed. */
#include "ops/interleave.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "focal/quant.h"

enum { ROWS = FOCI_INTERLEAVED_ROWS, PIECE = FOCI_INTERLEAVED_PIECE };

/* Bytes of a number of all rows. */
static const ptrdiff_t halves_bytes = (ptrdiff_t)2 * ROWS, words_bytes = (ptrdiff_t)4 * ROWS;

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

/* One of 16 rows: a block from its place in a group's. */
static void get_block(const layout *l, const uint8_t *from, int64_t row, uint8_t *block)
{
    for (int32_t n = 0; n < l->halves; n++, block += 2, from += halves_bytes)
        memcpy(block, from + 2 * row, 2);
    for (int32_t n = 0; n < l->words; n++, block += 4, from += words_bytes)
        memcpy(block, from + 4 * row, 4);
    for (int32_t n = 0; n < l->last; n++, block += 2, from += halves_bytes)
        memcpy(block, from + 2 * row, 2);
}

/* All rows: a matrix of `lines` lines of `width` halves or words becomes its transpose. Steps are
 * bytes from line to line. */
static void turn_halves(const uint8_t *from, ptrdiff_t from_step, int32_t lines, int32_t width,
                        uint8_t *to, ptrdiff_t to_step)
{
    for (ptrdiff_t n = 0; n < lines; n++)
        for (ptrdiff_t i = 0; i < width; i++)
            memcpy(to + i * to_step + 2 * n, from + n * from_step + 2 * i, 2);
}

/* Four lines of four words, which compilers turn in registers. */
static void turn_square(const uint8_t *from, ptrdiff_t from_step, uint8_t *to, ptrdiff_t to_step)
{
    uint32_t in[4][4], out[4][4];
    for (int n = 0; n < 4; n++) memcpy(in[n], from + n * from_step, sizeof in[n]);
    for (int n = 0; n < 4; n++)
        for (int i = 0; i < 4; i++) out[i][n] = in[n][i];
    for (int n = 0; n < 4; n++) memcpy(to + n * to_step, out[n], sizeof out[n]);
}

static void turn_words(const uint8_t *from, ptrdiff_t from_step, int32_t lines, int32_t width,
                       uint8_t *to, ptrdiff_t to_step)
{
    for (ptrdiff_t n = 0; n < lines; n += 4) {
        for (ptrdiff_t i = 0; i < width; i += 4) {
            const uint8_t *in = from + n * from_step + 4 * i;
            uint8_t *out = to + i * to_step + 4 * n;
            if (n + 4 <= lines && i + 4 <= width) {
                turn_square(in, from_step, out, to_step);
                continue;
            }
            for (ptrdiff_t a = 0; a < foci_min64(lines - n, 4); a++)
                for (ptrdiff_t b = 0; b < foci_min64(width - i, 4); b++)
                    memcpy(out + b * to_step + 4 * a, in + a * from_step + 4 * b, 4);
        }
    }
}

/* A block of each of 16 rows, `step` bytes apart, to its place in a group's, and back. */
static void put_blocks(const layout *l, const uint8_t *rows, ptrdiff_t step, uint8_t *group)
{
    turn_halves(rows, step, ROWS, l->halves, group, halves_bytes);
    rows += 2 * (ptrdiff_t)l->halves;
    group += l->halves * halves_bytes;
    turn_words(rows, step, ROWS, l->words, group, words_bytes);
    rows += 4 * (ptrdiff_t)l->words;
    group += l->words * words_bytes;
    turn_halves(rows, step, ROWS, l->last, group, halves_bytes);
}

static void get_blocks(const layout *l, const uint8_t *group, uint8_t *rows, ptrdiff_t step)
{
    turn_halves(group, halves_bytes, l->halves, ROWS, rows, step);
    rows += 2 * (ptrdiff_t)l->halves;
    group += l->halves * halves_bytes;
    turn_words(group, words_bytes, l->words, ROWS, rows, step);
    rows += 4 * (ptrdiff_t)l->words;
    group += l->words * words_bytes;
    turn_halves(group, halves_bytes, l->last, ROWS, rows, step);
}

void foci_interleave_group(focal_dtype dtype, int64_t K, const void *rows, void *group)
{
    const layout *l = layout_of(dtype);
    const int64_t blocks = K / focal_dtype_block(dtype);
    const int64_t bytes = (int64_t)focal_dtype_block_bytes(dtype);
    for (int64_t n = 0; n < blocks; n++)
        put_blocks(l, (const uint8_t *)rows + n * bytes, blocks * bytes,
                   (uint8_t *)group + n * ROWS * bytes);
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

void foci_interleaved_read_group(const foci_interleaved_part *p,
                                 uint8_t blocks[ROWS * FOCI_INTERLEAVED_BYTES])
{
    const layout *l = layout_of(p->dtype);
    const int64_t count = p->count / focal_dtype_block(p->dtype);
    const int64_t bytes = (int64_t)focal_dtype_block_bytes(p->dtype);
    const uint8_t *from = first_block(p);
    for (int64_t n = 0; n < count; n++)
        get_blocks(l, from + n * ROWS * bytes, blocks + n * bytes, FOCI_INTERLEAVED_BYTES);
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
