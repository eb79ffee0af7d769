/* Any bytes as a set of one or two shards, with and without checksums that fit: refused with a
 * sentence, or every token and every document can be read. The first byte says how the rest is
 * mended and where it is cut in two. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/shard_file.h"
#include "io/shards.h"

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 1 << 14, MOST_TOKENS = 1 << 14, MENDS = 1, SPLITS = 2, READS_ALL = 4 };

static focal_ctx *ctx; /* these live as long as the process */
static char folder[64], paths[2][96];

static void remove_all(void)
{
    for (int n = 0; n < 2; n++) (void)unlink(paths[n]);
    (void)rmdir(folder);
}

static void set_up(void)
{
    const focal_ctx_options options = {.threads = 1};
    (void)snprintf(folder, sizeof folder, "/tmp/focal-fuzz-XXXXXX");
    if (focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK || !mkdtemp(folder)) abort();
    for (int n = 0; n < 2; n++)
        (void)snprintf(paths[n], sizeof paths[n], "%s/shard-%05d.tokens", folder, n);
    (void)atexit(remove_all);
}

/* Checksums as they would be, so that what is behind them is looked at. */
static void mend(uint8_t *bytes, size_t size)
{
    foci_shard_header h;
    if (size < sizeof h) return;
    memcpy(&h, bytes, sizeof h);
    memcpy(h.magic, FOCI_SHARD_MAGIC, sizeof h.magic);
    const uint64_t rest = size - sizeof h;
    if (h.token_count < MOST_TOKENS && h.document_count < MOST_TOKENS) {
        const uint64_t ids = (h.token_count * (h.id_bits == 16 ? 2 : 4) + 7) / 8 * 8;
        if (ids + 8 * h.document_count <= rest) {
            h.ids_check = foci_check_words(FOCI_CHECK_BEGIN, bytes + sizeof h, ids / 8);
            h.documents_check =
                foci_check_words(FOCI_CHECK_BEGIN, bytes + sizeof h + ids, h.document_count);
        }
    }
    h.header_check = foci_shard_header_check(&h);
    memcpy(bytes, &h, sizeof h);
}

static void write_shard(int index, const uint8_t *data, size_t bytes)
{
    FILE *file = fopen(paths[index], "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

static void read_set(const foci_shards *shards)
{
    static int32_t ids[MOST_TOKENS];
    const foci_shards_info info = foci_shards_describe(shards);
    if (info.token_count < 1 || info.document_count < 1 || info.vocab < 1) abort();
    if (info.token_count > MOST_TOKENS) abort(); /* more than the files have bytes */
    const focal_status status = foci_shards_read(shards, 0, info.token_count, ids);
    for (int64_t n = 0; status == FOCAL_OK && n < info.token_count; n++)
        if (ids[n] < 0 || ids[n] >= info.vocab) abort();
    int64_t document = 0;
    for (int64_t n = 0; n < info.token_count; n++) {
        while (foci_shards_begin(shards, document + 1) <= n) document++;
        if (foci_shards_document(shards, n) != document) abort();
    }
    if (document != info.document_count - 1) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[MOST_BYTES];
    if (!ctx) set_up();
    if (size < 2 || size > MOST_BYTES) return 0;
    const uint8_t how = data[0];
    size -= 1;
    memcpy(bytes, data + 1, size);
    const size_t first = how & SPLITS ? size * (size_t)(how >> 3) / 32 : size;
    if (how & MENDS) mend(bytes, first);
    if (how & MENDS) mend(bytes + first, size - first);
    write_shard(0, bytes, first);
    if (how & SPLITS)
        write_shard(1, bytes + first, size - first);
    else
        (void)unlink(paths[1]);
    foci_shards *shards = NULL;
    if (foci_shards_open(ctx, folder, how & READS_ALL, &shards) == FOCAL_OK) {
        read_set(shards);
    } else {
        const char *message = focal_ctx_error(ctx);
        if (shards || message[0] == '\0' || strchr(message, '\n')) abort();
    }
    foci_shards_close(shards);
    return 0;
}
