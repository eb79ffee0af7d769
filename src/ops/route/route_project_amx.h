/* The projections of a side on AMX tiles, as exact as in float32: both factors are cut into three
 * bfloat16 parts of 8 bits each, which hold all 24, and of the nine products of parts the six that
 * reach into a float's bits are added up in float32. Weights that are bfloat16 already, as in most
 * adapters, have one part, and three products. Included by route_amx.c. */
#ifndef FOCI_OPS_ROUTE_ROUTE_PROJECT_AMX_H
#define FOCI_OPS_ROUTE_ROUTE_PROJECT_AMX_H

#include "base/sizes.h"
#include "focal/route.h"
#include "simd/tiles_amx.h"

enum {
    PARTS = 3,
    TILE_FLOATS = FOCI_TILE_ROWS * FOCI_TILE_BYTES / 4,
    TILE_COLUMNS = 16,
    TILE_TOKENS = FOCI_TILE_ROWS,
    PAIR_COLUMNS = 2 * TILE_COLUMNS, /* two tiles beside each other share their left side, */
    PAIR_TOKENS = 2 * TILE_TOKENS    /* and two above each other their right one */
};

/* What is left of 16 floats behind the first 8 bits of each; a part is cut off by its upper half,
 * so that half itself needs no work. */
static inline __m512 cut_part(__m512 x, __mmask16 lanes)
{
    const __m512i high = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(-65536));
    return _mm512_maskz_sub_ps(lanes, x, _mm512_castsi512_ps(high));
}

/* The parts of 32 floats, each as bfloat16 in the order that `places` says. Infinities and NaNs
 * leave nothing behind their first part. */
static inline void cut_parts(__m512 first, __m512 second, __m512i places, __m512i part[PARTS])
{
    const __mmask16 first_is_odd = _mm512_fpclass_ps_mask(first, 0x99);
    const __mmask16 second_is_odd = _mm512_fpclass_ps_mask(second, 0x99);
    __mmask16 first_lanes = (__mmask16)~first_is_odd, second_lanes = (__mmask16)~second_is_odd;
    for (int n = 0; n < PARTS; n++) {
        part[n] = _mm512_permutex2var_epi16(_mm512_castps_si512(first), places,
                                            _mm512_castps_si512(second));
        first = cut_part(first, first_lanes); /* of the last part nobody reads it */
        second = cut_part(second, second_lanes);
        first_lanes = second_lanes = 0xFFFF;
    }
}

/* Upper halves of 32 words, one vector behind the other. */
static inline __m512i places_in_line(void)
{
    short place[32];
    for (int n = 0; n < 32; n++) place[n] = (short)(2 * n + 1);
    return _mm512_loadu_si512(place);
}

/* The same, the two vectors' taken by turns: a pair of a tile's right side. */
static inline __m512i places_by_turns(void)
{
    short place[32];
    for (int n = 0; n < 32; n++) place[n] = (short)(n / 2 * 2 + 1 + n % 2 * 32);
    return _mm512_loadu_si512(place);
}

static int64_t depth_tiles(const focal_router *r)
{
    return foci_pieces(r->C, FOCI_TILE_DEPTH);
}

/* Row c of 16 columns of p, zeros past C and past R. */
static inline __m512 weights_at(const float *p, const focal_router *r, int64_t c, int64_t column)
{
    const int64_t left = r->R - column;
    if (c >= r->C) return _mm512_setzero_ps();
    return _mm512_maskz_loadu_ps((__mmask16)(left < 16 ? (1U << left) - 1U : 0xFFFFU),
                                 p + c * r->R + column);
}

/* Packs 16 columns of a router's p into tiles [depth tile][part]; returns how many parts are not
 * all zero, at least one. */
static int32_t pack_weights(const focal_router *r, const float *p, int64_t column, float *tiles)
{
    const __m512i places = places_by_turns();
    __m512i any[PARTS] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    for (int64_t d = 0; d < depth_tiles(r); d++, tiles += (int64_t)PARTS * TILE_FLOATS) {
        for (int64_t pair = 0; pair < FOCI_TILE_ROWS; pair++) {
            const int64_t c = d * FOCI_TILE_DEPTH + 2 * pair;
            __m512i part[PARTS];
            cut_parts(weights_at(p, r, c, column), weights_at(p, r, c + 1, column), places, part);
            for (int n = 0; n < PARTS; n++) {
                any[n] = _mm512_or_si512(any[n], part[n]);
                _mm512_store_si512(tiles + (int64_t)n * TILE_FLOATS + pair * 16, part[n]);
            }
        }
    }
    int32_t parts = 1;
    for (int n = 1; n < PARTS; n++)
        if (_mm512_test_epi16_mask(any[n], _mm512_set1_epi16(0x7FFF)) != 0) parts = n + 1;
    return parts;
}

/* `count` rows of h in tiles [token tile][depth tile][part]; rows past the last of two tiles are
 * zero. */
static void pack_tokens(const focal_router *r, const float *h, int64_t stride, int64_t count,
                        float *tiles)
{
    const __m512i places = places_in_line();
    const int64_t depth = depth_tiles(r), tokens = foci_round_up(count, PAIR_TOKENS);
    for (int64_t t = 0; t < tokens; t++) {
        float *to = tiles + t / TILE_TOKENS * depth * PARTS * TILE_FLOATS + t % TILE_TOKENS * 16;
        const float *row = h + t * stride;
        for (int64_t d = 0; d < depth; d++, to += (int64_t)PARTS * TILE_FLOATS) {
            const int64_t left = t < count ? r->C - d * FOCI_TILE_DEPTH : 0;
            const uint32_t lanes = left < 32 ? (1U << left) - 1U : UINT32_MAX;
            __m512i part[PARTS];
            cut_parts(
                _mm512_maskz_loadu_ps((__mmask16)lanes, row + d * FOCI_TILE_DEPTH),
                _mm512_maskz_loadu_ps((__mmask16)(lanes >> 16), row + d * FOCI_TILE_DEPTH + 16),
                places, part);
            for (int64_t n = 0; n < PARTS; n++) _mm512_store_si512(to + n * TILE_FLOATS, part[n]);
        }
    }
}

/* z of two token tiles and one or two column tiles, the latter `step` floats apart. */
static inline __attribute__((always_inline)) void project_tiles(const float *h, int64_t h_step,
                                                                const float *w, int64_t step,
                                                                int64_t depth, int parts, float *z,
                                                                int64_t z_row, const int columns)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t d = 0; d < depth; d++) {
        for (int b = 0; b < parts; b++) {
            const float *right = w + (d * PARTS + b) * TILE_FLOATS;
            _tile_loadd(6, right, FOCI_TILE_BYTES);
            if (columns > 1) _tile_loadd(7, right + step, FOCI_TILE_BYTES);
            for (int a = 0; a + b < PARTS; a++) {
                const float *left = h + (d * PARTS + a) * TILE_FLOATS;
                _tile_loadd(4, left, FOCI_TILE_BYTES);
                _tile_dpbf16ps(0, 4, 6);
                if (columns > 1) _tile_dpbf16ps(1, 4, 7);
                _tile_loadd(5, left + h_step, FOCI_TILE_BYTES);
                _tile_dpbf16ps(2, 5, 6);
                if (columns > 1) _tile_dpbf16ps(3, 5, 7);
            }
        }
    }
    float *second = z + TILE_TOKENS * z_row;
    _tile_stored(0, z, z_row * 4);
    _tile_stored(2, second, z_row * 4);
    if (columns == 1) return;
    _tile_stored(1, z + TILE_COLUMNS, z_row * 4);
    _tile_stored(3, second + TILE_COLUMNS, z_row * 4);
}

/* z (2 token tiles a turn, columns) of `count` packed tokens. */
static void project_packed(const focal_router *r, int64_t columns, const float *h, const float *w,
                           int32_t parts, int64_t count, float *z)
{
    const int64_t depth = depth_tiles(r), step = depth * PARTS * TILE_FLOATS;
    foci_tiles_see(h);
    for (int64_t t = 0; t < count; t += PAIR_TOKENS, h += 2 * step) {
        float *row = z + t * columns;
        int64_t c = 0;
        for (; c + PAIR_COLUMNS <= columns; c += PAIR_COLUMNS)
            project_tiles(h, step, w + c / TILE_COLUMNS * step, step, depth, parts, row + c,
                          columns, 2);
        if (c < columns)
            project_tiles(h, step, w + c / TILE_COLUMNS * step, step, depth, parts, row + c,
                          columns, 1);
    }
    foci_tiles_see(z);
}

#endif /* FOCI_OPS_ROUTE_ROUTE_PROJECT_AMX_H */
