/* Reading a checkpoint: the file is mapped, and header, table, layout and every checksum are
 * checked before a block can be had. */
#include <inttypes.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "io/file.h"
#include "io/names.h"
#include "train/checkpoint.h"
#include "train/checkpoint_layout.h"
#include "train/crc32c.h"

struct foci_checkpoint {
    focal_ctx *ctx;
    char *path;
    foci_map map; /* empty when the caller holds the file */
    int64_t step, count;
    foci_block *blocks; /* (count) */
    foci_name *names;   /* (count) sorted */
};

typedef struct image {
    focal_ctx *ctx;
    const char *path;
    const uint8_t *data;
    size_t bytes;
} image;

static bool is_zero(const uint8_t *at, size_t bytes)
{
    for (size_t n = 0; n < bytes; n++)
        if (at[n] != 0) return false;
    return true;
}

static focal_status check_header(const image *file, int64_t *step, int64_t *count)
{
    const uint8_t *head = file->data;
    if (file->bytes < FOCI_CK_HEADER)
        return foci_fail(file->ctx, FOCAL_EFORMAT, "%s: %zu bytes, a checkpoint has %d at least",
                         file->path, file->bytes, FOCI_CK_HEADER);
    if (memcmp(head, foci_ck_magic, sizeof foci_ck_magic) != 0)
        return foci_fail(file->ctx, FOCAL_EFORMAT, "%s: not a checkpoint of focal", file->path);
    if (foci_ck_get(head + FOCI_CK_HEADER_CRC, 4) !=
        foci_crc32c(file->ctx, 0, head, FOCI_CK_HEADER_CRC))
        return foci_fail(file->ctx, FOCAL_EFORMAT, "%s: the header's checksum is wrong",
                         file->path);
    const uint64_t bytes = foci_ck_get(head + FOCI_CK_FILE_BYTES, 8);
    const uint64_t blocks = foci_ck_get(head + FOCI_CK_COUNT, 8);
    const uint64_t number = foci_ck_get(head + FOCI_CK_STEP, 8);
    if (bytes != file->bytes)
        return foci_fail(file->ctx, FOCAL_EFORMAT,
                         "%s: the file has %zu bytes, its header says %" PRIu64, file->path,
                         file->bytes, bytes);
    if (number > INT64_MAX)
        return foci_fail(file->ctx, FOCAL_EFORMAT, "%s: step %" PRIu64 " is out of range",
                         file->path, number);
    const size_t room = (file->bytes - FOCI_CK_HEADER) / FOCI_CK_RECORD;
    if (blocks > FOCI_BLOCKS_MOST || blocks > room)
        return foci_fail(file->ctx, FOCAL_EFORMAT,
                         "%s: %" PRIu64 " blocks, the file has room for %zu and %d is the most",
                         file->path, blocks, room, FOCI_BLOCKS_MOST);
    const uint32_t crc =
        foci_crc32c(file->ctx, 0, head + FOCI_CK_HEADER, (size_t)blocks * FOCI_CK_RECORD);
    if (!is_zero(head + FOCI_CK_TABLE_CRC + 4, FOCI_CK_HEADER_CRC - FOCI_CK_TABLE_CRC - 4) ||
        crc != foci_ck_get(head + FOCI_CK_TABLE_CRC, 4))
        return foci_fail(file->ctx, FOCAL_EFORMAT, "%s: the checksum of its table is wrong",
                         file->path);
    *step = (int64_t)number;
    *count = (int64_t)blocks;
    return FOCAL_OK;
}

/* The fields of a record; what they say of the file's layout is checked later. */
static focal_status read_record(const image *file, int64_t index, foci_block *block)
{
    const uint8_t *record = file->data + FOCI_CK_HEADER + index * FOCI_CK_RECORD;
    const char *name = (const char *)record;
    const size_t length = strnlen(name, FOCI_BLOCK_NAME);
    const uint64_t type = foci_ck_get(record + FOCI_CK_TYPE, 4);
    const uint64_t dims = foci_ck_get(record + FOCI_CK_DIMS, 4);
    if (!foci_ck_is_name(name, length) || !is_zero(record + length, FOCI_BLOCK_NAME - length))
        return foci_fail(file->ctx, FOCAL_EFORMAT,
                         "%s: block %" PRId64 " has no name of printable characters", file->path,
                         index);
    *block = (foci_block){.name = name, .type = (foci_block_type)type, .dims = (int32_t)dims};
    if (type > INT32_MAX || foci_block_type_bytes(block->type) == 0)
        return foci_fail(file->ctx, FOCAL_EFORMAT, "%s: block '%s' has the unknown type %" PRIu64,
                         file->path, name, type);
    if (dims < 1 || dims > FOCI_BLOCK_DIMS)
        return foci_fail(file->ctx, FOCAL_EFORMAT,
                         "%s: block '%s' has %" PRIu64 " dimensions, 1 to %d are possible",
                         file->path, name, dims, FOCI_BLOCK_DIMS);
    for (int n = 0; n < FOCI_BLOCK_DIMS; n++) {
        const uint64_t size = foci_ck_get(record + FOCI_CK_SHAPE + (ptrdiff_t)8 * n, 8);
        if (size > INT64_MAX || (n >= block->dims && size != 0))
            return foci_fail(file->ctx, FOCAL_EFORMAT, "%s: dimension %d of block '%s' is %" PRIu64,
                             file->path, n + 1, name, size);
        block->shape[n] = (int64_t)size;
    }
    if (!is_zero(record + FOCI_CK_ZERO, FOCI_CK_RECORD - FOCI_CK_ZERO))
        return foci_fail(file->ctx, FOCAL_EFORMAT, "%s: the record of block '%s' does not end in 0",
                         file->path, name);
    return FOCAL_OK;
}

/* A block begins at the next multiple of 64 behind *end; its bytes are those of its shape, lie in
 * the file and have their checksum. */
static focal_status read_block(const image *file, int64_t index, foci_block *block, size_t *end)
{
    FOCAL_TRY(read_record(file, index, block));
    const uint8_t *record = file->data + FOCI_CK_HEADER + index * FOCI_CK_RECORD;
    const uint64_t offset = foci_ck_get(record + FOCI_CK_OFFSET, 8);
    const uint64_t bytes = foci_ck_get(record + FOCI_CK_BYTES, 8);
    const size_t expected = *end + (size_t)(-*end % FOCI_CK_ALIGNMENT);
    if (bytes != foci_block_bytes(block))
        return foci_fail(file->ctx, FOCAL_EFORMAT,
                         "%s: block '%s' has %" PRIu64 " bytes, its shape gives another number",
                         file->path, block->name, bytes);
    if (offset != expected || offset > file->bytes || bytes > file->bytes - offset)
        return foci_fail(file->ctx, FOCAL_EFORMAT,
                         "%s: block '%s' has %" PRIu64 " bytes at %" PRIu64
                         ", it must begin at %zu and end within the file's %zu",
                         file->path, block->name, bytes, offset, expected, file->bytes);
    block->data = file->data + offset;
    const uint32_t crc = foci_crc32c(file->ctx, 0, block->data, (size_t)bytes);
    if (crc != foci_ck_get(record + FOCI_CK_CRC, 4) ||
        !is_zero(file->data + *end, (size_t)offset - *end))
        return foci_fail(file->ctx, FOCAL_EFORMAT,
                         "%s: block '%s' is damaged: its checksum is %08x", file->path, block->name,
                         (unsigned)crc);
    *end = (size_t)(offset + bytes);
    return FOCAL_OK;
}

static focal_status read_blocks(const image *file, foci_checkpoint *checkpoint)
{
    size_t end = FOCI_CK_HEADER + (size_t)checkpoint->count * FOCI_CK_RECORD;
    for (int64_t n = 0; n < checkpoint->count; n++) {
        foci_block *block = &checkpoint->blocks[n];
        FOCAL_TRY(read_block(file, n, block, &end));
        checkpoint->names[n] = (foci_name){foci_text_of(block->name), n};
    }
    if (end != file->bytes)
        return foci_fail(file->ctx, FOCAL_EFORMAT,
                         "%s: the blocks end at byte %zu, the file at %zu", file->path, end,
                         file->bytes);
    foci_names_sort(checkpoint->names, checkpoint->count);
    const foci_name *twice = foci_names_repeated(checkpoint->names, checkpoint->count);
    if (twice)
        return foci_fail(file->ctx, FOCAL_EFORMAT, "%s: two blocks have the name '%s'", file->path,
                         checkpoint->blocks[twice->index].name);
    return FOCAL_OK;
}

focal_status foci_checkpoint_parse(focal_ctx *ctx, const char *path, const uint8_t *data,
                                   size_t bytes, foci_checkpoint **out)
{
    const image file = {ctx, path, data, bytes};
    int64_t step = 0, count = 0;
    *out = NULL;
    FOCAL_TRY(check_header(&file, &step, &count));
    foci_checkpoint *checkpoint = foci_alloc(ctx, 1, sizeof *checkpoint);
    if (!checkpoint) return FOCAL_ENOMEM;
    *checkpoint = (foci_checkpoint){.ctx = ctx, .step = step, .count = count};
    checkpoint->path = foci_alloc(ctx, strlen(path) + 1, 1);
    checkpoint->blocks = foci_alloc(ctx, (size_t)count, sizeof *checkpoint->blocks);
    checkpoint->names = foci_alloc(ctx, (size_t)count, sizeof *checkpoint->names);
    focal_status status = FOCAL_ENOMEM;
    if (checkpoint->path && checkpoint->blocks && checkpoint->names) {
        memcpy(checkpoint->path, path, strlen(path) + 1);
        status = read_blocks(&file, checkpoint);
    }
    if (status == FOCAL_OK)
        *out = checkpoint;
    else
        foci_checkpoint_close(checkpoint);
    return status;
}

focal_status foci_checkpoint_open(focal_ctx *ctx, const char *path, foci_checkpoint **out)
{
    foci_map map;
    *out = NULL;
    FOCAL_TRY(foci_map_open(ctx, path, &map));
    const focal_status status = foci_checkpoint_parse(ctx, path, map.data, map.bytes, out);
    if (status == FOCAL_OK)
        (*out)->map = map;
    else
        foci_map_close(&map);
    return status;
}

void foci_checkpoint_close(foci_checkpoint *checkpoint)
{
    if (!checkpoint) return;
    foci_map_close(&checkpoint->map);
    foci_free(checkpoint->ctx, checkpoint->path);
    foci_free(checkpoint->ctx, checkpoint->blocks);
    foci_free(checkpoint->ctx, checkpoint->names);
    foci_free(checkpoint->ctx, checkpoint);
}

int64_t foci_checkpoint_step(const foci_checkpoint *checkpoint)
{
    return checkpoint->step;
}

const char *foci_checkpoint_path(const foci_checkpoint *checkpoint)
{
    return checkpoint->path;
}

int64_t foci_checkpoint_count(const foci_checkpoint *checkpoint)
{
    return checkpoint->count;
}

const foci_block *foci_checkpoint_at(const foci_checkpoint *checkpoint, int64_t index)
{
    return &checkpoint->blocks[index];
}

const foci_block *foci_checkpoint_find(const foci_checkpoint *checkpoint, const char *name)
{
    const int64_t index = foci_names_find(checkpoint->names, checkpoint->count, foci_text_of(name));
    return index < 0 ? NULL : &checkpoint->blocks[index];
}

focal_status foci_checkpoint_copy(const foci_checkpoint *checkpoint, const foci_block *like,
                                  void *out)
{
    const foci_block *block = foci_checkpoint_find(checkpoint, like->name);
    if (!block)
        return foci_fail(checkpoint->ctx, FOCAL_EFORMAT, "%s: there is no block '%s'",
                         checkpoint->path, like->name);
    bool is_alike = block->type == like->type && block->dims == like->dims;
    for (int32_t n = 0; is_alike && n < like->dims; n++)
        is_alike = block->shape[n] == like->shape[n];
    if (!is_alike)
        return foci_fail(checkpoint->ctx, FOCAL_EFORMAT,
                         "%s: block '%s' has %zu bytes in another type or shape than the %zu of "
                         "this run",
                         checkpoint->path, like->name, foci_block_bytes(block),
                         foci_block_bytes(like));
    const size_t bytes = foci_block_bytes(block);
    if (bytes > 0) memcpy(out, block->data, bytes);
    return FOCAL_OK;
}
