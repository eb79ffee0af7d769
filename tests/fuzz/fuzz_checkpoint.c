/* Any bytes as a checkpoint: refused with a sentence, or every block can be read to its last byte.
 * Where the first byte is odd, the checksums are made to fit first, for no mutation would. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/checkpoint.h"
#include "train/checkpoint_layout.h"
#include "train/crc32c.h"

static void require(int is_true, const char *what)
{
    if (is_true) return;
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

/* The sizes and sums of header, table and blocks, as far as the fields point into the file. */
static void mend(const focal_ctx *ctx, uint8_t *image, size_t bytes)
{
    if (bytes < FOCI_CK_HEADER) return;
    memcpy(image, foci_ck_magic, sizeof foci_ck_magic);
    foci_ck_put(image + FOCI_CK_FILE_BYTES, 8, bytes);
    const uint64_t count = foci_ck_get(image + FOCI_CK_COUNT, 8);
    if (count <= (bytes - FOCI_CK_HEADER) / FOCI_CK_RECORD) {
        uint8_t *table = image + FOCI_CK_HEADER;
        for (uint64_t n = 0; n < count; n++) {
            uint8_t *record = table + n * FOCI_CK_RECORD;
            const uint64_t offset = foci_ck_get(record + FOCI_CK_OFFSET, 8);
            const uint64_t size = foci_ck_get(record + FOCI_CK_BYTES, 8);
            if (offset <= bytes && size <= bytes - offset)
                foci_ck_put(record + FOCI_CK_CRC, 4,
                            foci_crc32c(ctx, 0, image + offset, (size_t)size));
        }
        foci_ck_put(image + FOCI_CK_TABLE_CRC, 4,
                    foci_crc32c(ctx, 0, table, (size_t)count * FOCI_CK_RECORD));
    }
    foci_ck_put(image + FOCI_CK_HEADER_CRC, 4, foci_crc32c(ctx, 0, image, FOCI_CK_HEADER_CRC));
}

static void read_all(foci_checkpoint *checkpoint)
{
    volatile uint8_t sum = 0;
    require(foci_checkpoint_step(checkpoint) >= 0, "a negative step");
    for (int64_t n = 0; n < foci_checkpoint_count(checkpoint); n++) {
        const foci_block *block = foci_checkpoint_at(checkpoint, n);
        const size_t bytes = foci_block_bytes(block);
        const uint8_t *data = block->data;
        for (size_t b = 0; b < bytes; b++) sum = (uint8_t)(sum + data[b]);
        require(foci_checkpoint_find(checkpoint, block->name) == block, "a name is not found");
        uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
        require(copy && foci_checkpoint_copy(checkpoint, block, copy) == FOCAL_OK, "no copy");
        free(copy);
    }
}

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static focal_ctx *ctx; /* opened once */
    const focal_ctx_options options = {.threads = 1};
    if (!ctx && focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) abort();
    if (size == 0) return 0;
    uint8_t *image = malloc(size > 1 ? size - 1 : 1); /* aligned, and ASan sees where it ends */
    if (!image) abort();
    memcpy(image, data + 1, size - 1);
    if (data[0] & 1) mend(ctx, image, size - 1);
    foci_checkpoint *checkpoint = NULL;
    const focal_status status = foci_checkpoint_parse(ctx, "file", image, size - 1, &checkpoint);
    require((status == FOCAL_OK) == (checkpoint != NULL), "status and checkpoint disagree");
    if (checkpoint)
        read_all(checkpoint);
    else
        for (const char *at = focal_ctx_error(ctx); *at; at++)
            require((unsigned char)*at >= 0x20, "a control character in a message");
    require(checkpoint || focal_ctx_error(ctx)[0] != '\0', "a failure without a sentence");
    foci_checkpoint_close(checkpoint);
    free(image);
    return 0;
}
