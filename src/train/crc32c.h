/* CRC32C (Castagnoli), the checksum of checkpoints and of TensorBoard's event files. */
#ifndef FOCI_TRAIN_CRC32C_H
#define FOCI_TRAIN_CRC32C_H

#include "focal/base.h"

/* The checksum of what `crc` is the checksum of, followed by these bytes; of nothing it is 0. The
 * same on every machine; ctx only says whether the CPU's own instruction may be used. */
uint32_t foci_crc32c(const focal_ctx *ctx, uint32_t crc, const void *data, size_t bytes);

/* With tables, and with the instruction, for tests of the one against the other. The second needs
 * FOCI_AVX2 and is there on x86 only. */
uint32_t foci_crc32c_ref(uint32_t crc, const void *data, size_t bytes);
uint32_t foci_crc32c_avx2(uint32_t crc, const void *data, size_t bytes);

#endif /* FOCI_TRAIN_CRC32C_H */
