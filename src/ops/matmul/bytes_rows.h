/* A few whole rows, block by block, in the words of an instruction set (bytes_avx2.h,
 * bytes_avx512.h). */
#ifndef FOCI_OPS_MATMUL_BYTES_ROWS_H
#define FOCI_OPS_MATMUL_BYTES_ROWS_H

/* y[r * count + c] = row r of w (K elements) with row c of x; BYTE_SUMS of them. Every sum is made
 * for itself: no bit depends on count. */
FOCI_INLINE void dot_bytes(const uint8_t *const w[], const focal_dtype type, int64_t K,
                           const byte_x *from, float y[BYTE_SUMS], const int count)
{
    const int rows = BYTE_SUMS / count;
    byte_sums s[BYTE_SUMS];
    byte_x x = *from;
#pragma GCC unroll 4
    for (int n = 0; n < BYTE_SUMS; n++) clear_sums(&s[n]);
    if (is_k_type(type)) {
        const int64_t bytes = k_block_bytes(type);
        for (int64_t at = 0; at < K / FOCI_BYTE_SPAN; at++) {
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                add_k_block(w[r] + at * bytes, type, &x, s + (ptrdiff_t)r * count, count);
            x.q += FOCI_BYTE_SPAN;
            x.factor += FOCI_BYTE_FACTORS;
        }
    } else {
        const int64_t bytes = (int64_t)8 * words_of_type(type).words, quads = K / 128;
        for (int64_t at = 0; at < quads; at++) {
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                add_quad(w[r] + at * bytes, type, 4, &x, s + (ptrdiff_t)r * count, count);
            x.q += 128;
            x.factor += at % 2 == 0 ? 8 : FOCI_BYTE_FACTORS - 8;
        }
        if (K % 128 != 0)
            for (int r = 0; r < rows; r++)
                add_quad(w[r] + quads * bytes, type, K % 128 / 32, &x, s + (ptrdiff_t)r * count,
                         count);
    }
    store_totals(s, type, y);
}

#endif /* FOCI_OPS_MATMUL_BYTES_ROWS_H */
