/* Token ids of many documents, in a folder of shard files: written as they come, mapped to read.
 * docs/FORMATS.md has the layout. */
#ifndef FOCI_IO_SHARDS_H
#define FOCI_IO_SHARDS_H

#include "focal/base.h"

enum {
    FOCI_SHARD_TOKENS = 100000000,   /* of a shard, unless told otherwise */
    FOCI_SHARD_DOCUMENTS = 1 << 20,  /* that begin in one shard: their places are held in memory */
    FOCI_SHARD_LONGEST = 2000000000, /* tokens that a shard can have at most */
    FOCI_SHARDS_MOST = 100000
};

typedef struct foci_shards_info {
    int64_t token_count, document_count;
    int32_t shard_count;
    int32_t vocab;        /* ids are below it */
    int32_t end;          /* the id that stands behind a document; -1: none does */
    uint64_t fingerprint; /* of the tokenizer */
    uint64_t contents;    /* a checksum of what all shards hold, as they were cut */
} foci_shards_info;

/* Writing. The folder appears when finish is called and all went well; until then the files are in
 * another one beside it. A folder of that name must be empty, or not be there. */
typedef struct foci_shard_writer foci_shard_writer;

typedef struct foci_shard_options {
    int32_t vocab, end;
    uint64_t fingerprint;
    int64_t shard_tokens; /* 0: FOCI_SHARD_TOKENS */
} foci_shard_options;

/* FOCAL_EINVAL on a wrong option and when the folder is not empty, FOCAL_EIO. */
focal_status foci_shard_writer_open(focal_ctx *ctx, const char *folder,
                                    const foci_shard_options *options, foci_shard_writer **out);
/* Where the files are until then: what else is put there belongs to the set. The writer's. */
const char *foci_shard_writer_folder(const foci_shard_writer *writer);
/* A document begins with the next id; one without ids is none. */
focal_status foci_shard_writer_begin(foci_shard_writer *writer);
/* FOCAL_EINVAL when an id is not in 0..vocab-1 or no document has begun. */
focal_status foci_shard_writer_put(foci_shard_writer *writer, const int32_t *ids, int64_t count);
/* FOCAL_EINVAL when there is no token. Frees the writer either way; info may be NULL. */
focal_status foci_shard_writer_finish(foci_shard_writer *writer, foci_shards_info *info);
void foci_shard_writer_abandon(foci_shard_writer *writer); /* leaves nothing; NULL is fine */

/* Reading. */
typedef struct foci_shards foci_shards;

/* Opens all shards of a folder and checks headers, sizes, the order of shards and the places of
 * documents; with checks_ids, which reads every byte, the ids as well: they are in range and their
 * checksum is right. FOCAL_EIO, or FOCAL_EFORMAT with the file, the value and the limit. */
focal_status foci_shards_open(focal_ctx *ctx, const char *folder, bool checks_ids,
                              foci_shards **out);
void foci_shards_close(foci_shards *shards); /* NULL is fine */

foci_shards_info foci_shards_describe(const foci_shards *shards);

/* The ids of tokens begin..begin+count-1, over borders of shards and documents. FOCAL_EINVAL when
 * they are not all there, FOCAL_EFORMAT when one is not below the vocabulary's size. */
focal_status foci_shards_read(const foci_shards *shards, int64_t begin, int64_t count,
                              int32_t *ids);

/* The document that a token (0..token_count-1) is in, and the first token of a document
 * (0..document_count); document_count gives token_count. In logarithmic time. */
int64_t foci_shards_document(const foci_shards *shards, int64_t token);
int64_t foci_shards_begin(const foci_shards *shards, int64_t document);

#endif /* FOCI_IO_SHARDS_H */
