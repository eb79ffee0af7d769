/* The layout of a checkpoint file: a header, a table of records of one size, and the blocks. Shared
 * by the writer and the reader. */
#ifndef FOCI_TRAIN_CHECKPOINT_LAYOUT_H
#define FOCI_TRAIN_CHECKPOINT_LAYOUT_H

#include <string.h>

#include "train/checkpoint.h"

/* The first bytes of a file. */
static const uint8_t foci_ck_magic[8] = {'f', 'o', 'c', 'a', 'l', 'c', 'k', '1'};

/* Offsets in the file; all numbers are little endian. */
enum {
    FOCI_CK_HEADER = 64, /* bytes of the header */
    FOCI_CK_FILE_BYTES = 8,
    FOCI_CK_STEP = 16,
    FOCI_CK_COUNT = 24,     /* of blocks */
    FOCI_CK_TABLE_CRC = 32, /* of the table, four bytes */
    FOCI_CK_HEADER_CRC = 60 /* of the 60 bytes before it; those between are 0 */
};

/* Offsets in a record of the table. */
enum {
    FOCI_CK_RECORD = 192, /* bytes of a record; the name comes first, NULs behind it */
    FOCI_CK_TYPE = 128,
    FOCI_CK_DIMS = 132,
    FOCI_CK_SHAPE = 136, /* 4 of 8 bytes, 0 behind dims */
    FOCI_CK_OFFSET = 168,
    FOCI_CK_BYTES = 176,
    FOCI_CK_CRC = 184, /* of the block, four bytes; then four of 0 */
    FOCI_CK_ZERO = 188
};

enum { FOCI_CK_ALIGNMENT = 64 }; /* of every block */

static inline uint64_t foci_ck_get(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int n = bytes; n-- > 0;) value = value << 8 | at[n];
    return value;
}

static inline void foci_ck_put(uint8_t *at, int bytes, uint64_t value)
{
    for (int n = 0; n < bytes; n++) at[n] = (uint8_t)(value >> (8 * n));
}

/* A name that may stand in a file: printable ASCII without spaces, so that it fits any message. */
static inline bool foci_ck_is_name(const char *name, size_t bytes)
{
    if (bytes == 0 || bytes >= FOCI_BLOCK_NAME) return false;
    for (size_t n = 0; n < bytes; n++)
        if (name[n] <= ' ' || name[n] > '~') return false;
    return true;
}

#endif /* FOCI_TRAIN_CHECKPOINT_LAYOUT_H */
