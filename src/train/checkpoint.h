/* Checkpoints: named blocks of numbers in one checksummed file that appears whole or not at all,
 * and the folder that keeps the newest of them. docs/FORMATS.md has the layout. */
#ifndef FOCI_TRAIN_CHECKPOINT_H
#define FOCI_TRAIN_CHECKPOINT_H

#include "focal/base.h"

/* Element types of blocks, with the numbers that stand in files: name, value, text, bytes. */
#define FOCI_BLOCK_LIST(X)                                                                         \
    X(FOCI_BLOCK_F32, 0, "f32", 4)                                                                 \
    X(FOCI_BLOCK_BF16, 1, "bf16", 2)                                                               \
    X(FOCI_BLOCK_U8, 2, "u8", 1)                                                                   \
    X(FOCI_BLOCK_I32, 3, "i32", 4)                                                                 \
    X(FOCI_BLOCK_I64, 4, "i64", 8)

#define FOCI_BLOCK_ENUM(name, value, text, bytes) name = (value),
typedef enum foci_block_type { FOCI_BLOCK_LIST(FOCI_BLOCK_ENUM) } foci_block_type;
#undef FOCI_BLOCK_ENUM

enum {
    FOCI_BLOCK_DIMS = 4,
    FOCI_BLOCK_NAME = 128, /* bytes of a name with its NUL */
    FOCI_BLOCKS_MOST = 1 << 20,
    FOCI_CHECKPOINT_NOTE = 512
};

/* A block of a checkpoint: the elements are row-major and belong to somebody else. */
typedef struct foci_block {
    const char *name; /* 1 to 127 printable ASCII characters, no space; one of its kind in a file */
    foci_block_type type;
    int32_t dims;                   /* 1..4 */
    int64_t shape[FOCI_BLOCK_DIMS]; /* each from 0; what is behind dims does not count */
    const void *data;               /* may be NULL where the shape has a 0 */
} foci_block;

/* Bytes of an element, 0 for no such type; and of a block, 0 too where they do not fit. */
size_t foci_block_type_bytes(foci_block_type type);
size_t foci_block_bytes(const foci_block *block);

/* Writes a file of these blocks beside its final name, syncs it, renames it and syncs the folder.
 * Nothing is copied: the blocks go from where they lie to the system. FOCAL_EINVAL on a wrong
 * block or step, FOCAL_EIO with the system's words when anything fails; a file that was there
 * before is then untouched and nothing is left behind (only where the last step, the folder's sync,
 * fails, the new file is in its place already). */
focal_status foci_checkpoint_write(focal_ctx *ctx, const char *path, int64_t step,
                                   const foci_block *blocks, int64_t count);

typedef struct foci_checkpoint foci_checkpoint;

/* Maps a file and checks all of it, checksums included. FOCAL_EFORMAT when it is not what it claims
 * to be, FOCAL_EIO when it cannot be read; *out is then NULL. */
focal_status foci_checkpoint_open(focal_ctx *ctx, const char *path, foci_checkpoint **out);
/* The same for a file in memory at a multiple of 8, which must stay; `path` names it in messages.
 */
focal_status foci_checkpoint_parse(focal_ctx *ctx, const char *path, const uint8_t *data,
                                   size_t bytes, foci_checkpoint **out);
void foci_checkpoint_close(foci_checkpoint *checkpoint); /* NULL is fine */

/* All of these stay valid until close. */
int64_t foci_checkpoint_step(const foci_checkpoint *checkpoint);
const char *foci_checkpoint_path(const foci_checkpoint *checkpoint);
int64_t foci_checkpoint_count(const foci_checkpoint *checkpoint);
const foci_block *foci_checkpoint_at(const foci_checkpoint *checkpoint, int64_t index);
const foci_block *foci_checkpoint_find(const foci_checkpoint *checkpoint, const char *name);

/* Copies the elements of the block that has the name of `like` to `out`. FOCAL_EFORMAT when it is
 * missing or its type or shape is not that of `like`, whose data is not looked at. */
focal_status foci_checkpoint_copy(const foci_checkpoint *checkpoint, const foci_block *like,
                                  void *out);

/* What a folder keeps of the files step-NNNNNNNNNN.ckpt in it. */
typedef struct foci_checkpoint_policy {
    int64_t keep;       /* so many of the newest, at least 1 */
    int64_t keep_every; /* and those whose step is a multiple of it; 0: none more */
} foci_checkpoint_policy;

/* Removes what an interrupted save has left, writes the checkpoint of this step and then removes
 * what the policy does not keep. Files of later steps stay: they are not older than this one. The
 * folder must be there, and must have no other writer. FOCAL_EIO as above, and when something
 * cannot be removed; the newest checkpoint that was there is then still there. */
focal_status foci_checkpoint_save(focal_ctx *ctx, const char *folder, int64_t step,
                                  const foci_block *blocks, int64_t count,
                                  const foci_checkpoint_policy *policy);

/* Opens the newest checkpoint of the folder that is whole. *out is NULL with FOCAL_OK when there is
 * none at all; FOCAL_EFORMAT when there are some and none is whole. Where newer ones were passed
 * over, note has one sentence about the newest of them, else it is "". */
focal_status foci_checkpoint_newest(focal_ctx *ctx, const char *folder, foci_checkpoint **out,
                                    char note[FOCI_CHECKPOINT_NOTE]);

#endif /* FOCI_TRAIN_CHECKPOINT_H */
