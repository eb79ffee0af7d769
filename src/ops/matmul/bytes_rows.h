/* A few whole rows, block by block, in the words of an instruction set (bytes_avx2.h,
 * bytes_avx512.h). */
#ifndef FOCI_OPS_MATMUL_BYTES_ROWS_H
#define FOCI_OPS_MATMUL_BYTES_ROWS_H

enum {
    BYTES_AHEAD = 4096 /* of what is asked for: a page, where the hardware's own asking ends */
};

/* Asks for what lies that far behind a piece of the row. */
FOCI_INLINE void ask_ahead(const uint8_t *piece, const int64_t bytes)
{
#pragma GCC unroll 4
    for (int64_t at = 0; at < bytes; at += 64) v_prefetch(piece + BYTES_AHEAD + at);
}

FOCI_INLINE void step_x(byte_x *x, int64_t elements, int64_t factors)
{
    x->high += elements;
    x->low += elements;
    x->factor += factors;
}

/* sums[c] = one row of w (K elements) with row c of x. Every sum is made for itself: no bit depends
 * on count. */
FOCI_INLINE void sum_row(const uint8_t *w, const focal_dtype type, int64_t K, const byte_x *from,
                         byte_sums *sums, const int count)
{
    byte_sums s[BYTE_SUMS];
    byte_x x = *from;
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) clear_sums(&s[c]);
    if (is_k_type(type)) {
        const int64_t bytes = k_block_bytes(type);
        for (int64_t at = 0; at < K; at += FOCI_BYTE_SPAN, w += bytes) {
            ask_ahead(w, bytes);
            add_k_block(w, type, &x, s, count);
            step_x(&x, FOCI_BYTE_SPAN, FOCI_BYTE_FACTORS);
        }
    } else {
        const int64_t bytes = (int64_t)8 * words_of_type(type).words, quads = K / 128;
        for (int64_t at = 0; at < quads; at++, w += bytes) {
            ask_ahead(w, bytes);
            add_quad(w, type, 4, &x, s, count);
            step_x(&x, 128, at % 2 == 0 ? 8 : FOCI_BYTE_FACTORS - 8);
        }
        if (K % 128 != 0) add_quad(w, type, K % 128 / 32, &x, s, count);
    }
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) sums[c] = s[c];
}

/* y[r * count + c] = row r of w with row c of x; BYTE_SUMS of them. Rows are taken in turn: memory
 * is fastest in order. */
FOCI_INLINE void dot_bytes(const uint8_t *const w[], const focal_dtype type, int64_t K,
                           const byte_x *x, float y[BYTE_SUMS], const int count)
{
    byte_sums s[BYTE_SUMS];
    for (int r = 0; r < BYTE_SUMS / count; r++)
        sum_row(w[r], type, K, x, s + (ptrdiff_t)r * count, count);
    store_totals(s, type, y);
}

#endif /* FOCI_OPS_MATMUL_BYTES_ROWS_H */
