/* A few whole rows, block by block, in the words of an instruction set (bytes_avx2.h,
 * bytes_avx512.h). */
#ifndef FOCI_OPS_MATMUL_BYTES_ROWS_H
#define FOCI_OPS_MATMUL_BYTES_ROWS_H

enum {
    BYTES_AHEAD = 6144 /* of what is asked for, behind the row that is read beside the first one */
};

/* Into the second cache: the first one can wait for too few lines at a time. */
FOCI_INLINE void ask_for(const uint8_t *piece, const int64_t bytes)
{
#pragma GCC unroll 8
    for (int64_t at = 0; at < bytes; at += 64) v_prefetch_far(piece + at);
}

FOCI_INLINE void step_x(byte_x *x, int64_t elements, int64_t factors)
{
    x->high += elements;
    x->low += elements;
    x->factor += factors;
}

/* sums[r * count + c] = row r of w (K elements; one row, or two that lie one behind the other) with
 * row c of x. Two rows share what is read of x; memory is asked for in its own order. Every sum is
 * made for itself: no bit depends on rows or count. */
FOCI_INLINE void sum_byte_rows(const uint8_t *const from[], const int rows, const focal_dtype type,
                               int64_t K, int64_t row_bytes, const byte_x *x_from, byte_sums *sums,
                               const int count)
{
    byte_sums s[BYTE_SUMS];
    byte_x x = *x_from;
    const int64_t bytes =
        is_k_type(type) ? k_block_bytes(type) : (int64_t)8 * words_of_type(type).words;
    const uint8_t *w[BYTE_PAIR] = {from[0], from[rows - 1]};
    const uint8_t *ahead = from[0] + BYTES_AHEAD + row_bytes;
#pragma GCC unroll 4
    for (int n = 0; n < rows * count; n++) clear_sums(&s[n]);
    if (is_k_type(type)) {
        for (int64_t at = 0; at < K; at += FOCI_BYTE_SPAN) {
            ask_for(ahead, rows * bytes);
            add_k_blocks(w, rows, type, &x, s, count);
            step_x(&x, FOCI_BYTE_SPAN, FOCI_BYTE_FACTORS);
            ahead += rows * bytes;
            w[0] += bytes;
            w[1] += bytes;
        }
    } else {
        for (int64_t at = 0; at < K / 128; at++) {
            ask_for(ahead, rows * bytes);
            add_quads(w, rows, type, 4, &x, s, count);
            step_x(&x, 128, at % 2 == 0 ? 8 : FOCI_BYTE_FACTORS - 8);
            ahead += rows * bytes;
            w[0] += bytes;
            w[1] += bytes;
        }
        if (K % 128 != 0) {
            ask_for(ahead, rows * bytes);
            add_quads(w, rows, type, K % 128 / 32, &x, s, count);
        }
    }
#pragma GCC unroll 4
    for (int n = 0; n < rows * count; n++) sums[n] = s[n];
}

/* y[r * count + c] = row r of w with row c of x; BYTE_SUMS of them. Rows are taken in turn, or two
 * at a time: memory is fastest in order. */
FOCI_INLINE void dot_bytes(const uint8_t *const w[], const focal_dtype type, int64_t K,
                           int64_t row_bytes, const byte_x *x, float y[BYTE_SUMS], const int count)
{
    byte_sums s[BYTE_SUMS];
    const int rows = count < BYTE_SUMS ? BYTE_PAIR : 1;
    for (int r = 0; r < BYTE_SUMS / count; r += rows)
        sum_byte_rows(w + r, rows, type, K, row_bytes, x, s + (ptrdiff_t)r * count, count);
    store_totals(s, type, y);
}

/* sums[c * stride + r] = row r of w with row c of x. There are at most BYTE_SUMS rows; the last
 * stands in for those that lack, and sums has room for all. */
FOCI_INLINE void dot_in_turn(const byte_group *w, const focal_dtype type, const byte_x *x,
                             float *sums, int64_t stride, const int count)
{
    const int rows = BYTE_SUMS / count;
    for (int64_t first = 0; first < BYTE_SUMS; first += rows) {
        const uint8_t *from[BYTE_SUMS];
        float y[BYTE_SUMS];
        for (int64_t r = 0; r < rows; r++)
            from[r] = w->first + foci_min64(first + r, w->rows - 1) * w->row_bytes;
        dot_bytes(from, type, w->K, w->row_bytes, x, y, count);
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < count; c++) sums[c * stride + first + r] = y[r * count + c];
    }
}

#endif /* FOCI_OPS_MATMUL_BYTES_ROWS_H */
