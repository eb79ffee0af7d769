/* The register-only loops behind the yardsticks, one file an instruction set. */
#ifndef FOCI_BENCH_YARDSTICK_KERNELS_H
#define FOCI_BENCH_YARDSTICK_KERNELS_H

#include <stdint.h>

enum { FOCI_PEAK_CHAINS = 12 }; /* independent sums: enough to hide the latency of either pipe */

/* Runs FOCI_PEAK_CHAINS multiply-adds of one register a round; the result only keeps the work
 * alive. In a build without the instructions they do nothing and are never chosen. */
float foci_peak_plain(int64_t rounds);      /* 4 multiply-adds an instruction, or two */
float foci_peak_avx2(int64_t rounds);       /* 8 */
float foci_peak_avx512(int64_t rounds);     /* 16 */
float foci_peak_avx512bf16(int64_t rounds); /* 32, of bfloat16 */
float foci_peak_amx(int64_t rounds);        /* 16 x 16 x 32, of bfloat16 */

#endif /* FOCI_BENCH_YARDSTICK_KERNELS_H */
