/* One shard as it lies in a file: the header, little endian, then ids, then where documents begin.
 */
#ifndef FOCI_IO_SHARD_FILE_H
#define FOCI_IO_SHARD_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FOCI_SHARD_MAGIC "focaltok"

enum { FOCI_SHARD_VERSION = 1, FOCI_SHARD_NAME = 24, FOCI_SHARD_LAST = 1 };

/* 128 bytes without holes; ids follow at byte 128, padded with zeros to a multiple of 8, then the
 * documents. */
typedef struct foci_shard_header {
    char magic[8];
    uint32_t version;
    uint32_t id_bits;        /* 16 or 32 */
    uint64_t token_count;    /* of this shard, as all counts but the next two */
    uint64_t document_count; /* that begin here */
    uint64_t first_token;    /* tokens and documents of all shards before */
    uint64_t first_document;
    uint32_t index; /* of this shard, from 0 */
    uint32_t flags; /* FOCI_SHARD_LAST */
    uint32_t vocab;
    int32_t end;              /* the id behind a document, or -1 */
    uint64_t fingerprint;     /* of the tokenizer */
    uint64_t ids_check;       /* checksum of the ids with their padding, */
    uint64_t documents_check; /* of the documents, */
    uint64_t reserved[4];     /* (zeros) */
    uint64_t header_check;    /* and of all of the header before this */
} foci_shard_header;
_Static_assert(sizeof(foci_shard_header) == 128, "the layout of the file");

/* A checksum over words of 8 bytes; begins with FOCI_CHECK_BEGIN and can go on. */
#define FOCI_CHECK_BEGIN 0xCBF29CE484222325U
static inline uint64_t foci_check_words(uint64_t check, const void *data, size_t words)
{
    const char *from = data;
    for (size_t n = 0; n < words; n++) {
        uint64_t word;
        memcpy(&word, from + 8 * n, sizeof word);
        check = (check ^ word) * 0x9E3779B97F4A7C15U;
        check ^= check >> 29;
    }
    return check;
}

static inline uint64_t foci_shard_header_check(const foci_shard_header *header)
{
    return foci_check_words(FOCI_CHECK_BEGIN, header,
                            offsetof(foci_shard_header, header_check) / 8);
}

#endif /* FOCI_IO_SHARD_FILE_H */
