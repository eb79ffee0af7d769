/* Writing a checkpoint: the blocks stream out behind an empty header and table, which are filled in
 * last, when the checksums are known. So a file that was cut short has no magic either. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "io/names.h"
#include "train/checkpoint.h"
#include "train/checkpoint_layout.h"
#include "train/crc32c.h"

enum { PIECE = 1 << 20 }; /* bytes that are summed and then written, while they are in the cache */

typedef struct output {
    const focal_ctx *ctx;
    int fd;
    int error; /* errno of the first failure, or 0 */
    uint64_t offset;
} output;

size_t foci_block_type_bytes(foci_block_type type)
{
    switch (type) {
#define TYPE_CASE(name, value, text, bytes)                                                        \
    case name:                                                                                     \
        return bytes;
        FOCI_BLOCK_LIST(TYPE_CASE)
#undef TYPE_CASE
    }
    return 0;
}

size_t foci_block_bytes(const foci_block *block)
{
    size_t bytes = foci_block_type_bytes(block->type);
    if (block->dims < 1 || block->dims > FOCI_BLOCK_DIMS) return 0;
    for (int32_t n = 0; n < block->dims; n++)
        if (block->shape[n] < 0 || !foci_size_mul(bytes, (size_t)block->shape[n], &bytes)) return 0;
    return bytes;
}

static bool has_no_elements(const foci_block *block)
{
    for (int32_t n = 0; n < block->dims; n++)
        if (block->shape[n] == 0) return true;
    return false;
}

static focal_status check_block(focal_ctx *ctx, const foci_block *block)
{
    if (!block->name || !foci_ck_is_name(block->name, strlen(block->name)))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "checkpoint: a name must have 1 to %d printable ASCII characters",
                         FOCI_BLOCK_NAME - 1);
    if (foci_block_type_bytes(block->type) == 0)
        return foci_fail(ctx, FOCAL_EINVAL, "checkpoint: block '%s' has the type %d, there is none",
                         block->name, (int)block->type);
    if (block->dims < 1 || block->dims > FOCI_BLOCK_DIMS)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "checkpoint: block '%s' has %d dimensions, 1 to %d are possible",
                         block->name, block->dims, FOCI_BLOCK_DIMS);
    const size_t bytes = foci_block_bytes(block);
    if (bytes > INT64_MAX / 2 || (bytes == 0 && !has_no_elements(block)))
        return foci_fail(ctx, FOCAL_EINVAL, "checkpoint: the shape of block '%s' does not fit",
                         block->name);
    if (bytes > 0 && !block->data)
        return foci_fail(ctx, FOCAL_EINVAL, "checkpoint: block '%s' has no data", block->name);
    return FOCAL_OK;
}

static focal_status check_blocks(focal_ctx *ctx, int64_t step, const foci_block *blocks,
                                 int64_t count)
{
    if (step < 0) return foci_fail(ctx, FOCAL_EINVAL, "checkpoint: step %lld", (long long)step);
    if (count < 0 || count > FOCI_BLOCKS_MOST)
        return foci_fail(ctx, FOCAL_EINVAL, "checkpoint: %lld blocks, 0 to %d are possible",
                         (long long)count, FOCI_BLOCKS_MOST);
    for (int64_t n = 0; n < count; n++) FOCAL_TRY(check_block(ctx, &blocks[n]));
    foci_name *names = foci_alloc(ctx, (size_t)count, sizeof *names);
    if (!names) return FOCAL_ENOMEM;
    for (int64_t n = 0; n < count; n++) names[n] = (foci_name){foci_text_of(blocks[n].name), n};
    foci_names_sort(names, count);
    const foci_name *twice = foci_names_repeated(names, count);
    focal_status status = FOCAL_OK;
    if (twice)
        status = foci_fail(ctx, FOCAL_EINVAL, "checkpoint: two blocks have the name '%s'",
                           blocks[twice->index].name);
    foci_free(ctx, names);
    return status;
}

static void write_at(output *out, uint64_t offset, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    while (bytes > 0 && out->error == 0) {
        const ssize_t put = pwrite(out->fd, at, bytes, (off_t)offset);
        if (put > 0) {
            at += put;
            offset += (uint64_t)put;
            bytes -= (size_t)put;
        } else if (put == 0) {
            out->error = EIO; /* nothing taken and no reason given */
        } else if (errno != EINTR) {
            out->error = errno;
        }
    }
}

/* Appends and returns the checksum. */
static uint32_t stream(output *out, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    uint32_t crc = 0;
    while (bytes > 0 && out->error == 0) {
        const size_t piece = bytes < PIECE ? bytes : PIECE;
        crc = foci_crc32c(out->ctx, crc, at, piece);
        write_at(out, out->offset, at, piece);
        out->offset += piece;
        at += piece;
        bytes -= piece;
    }
    return crc;
}

static void pad(output *out)
{
    static const uint8_t zeros[FOCI_CK_ALIGNMENT];
    const size_t rest = (size_t)(-out->offset % FOCI_CK_ALIGNMENT);
    write_at(out, out->offset, zeros, rest);
    out->offset += rest;
}

static void put_record(uint8_t *record, const foci_block *block, uint64_t offset, uint32_t crc)
{
    memcpy(record, block->name, strlen(block->name));
    foci_ck_put(record + FOCI_CK_TYPE, 4, (uint64_t)block->type);
    foci_ck_put(record + FOCI_CK_DIMS, 4, (uint64_t)block->dims);
    for (int32_t n = 0; n < block->dims; n++)
        foci_ck_put(record + FOCI_CK_SHAPE + (ptrdiff_t)8 * n, 8, (uint64_t)block->shape[n]);
    foci_ck_put(record + FOCI_CK_OFFSET, 8, offset);
    foci_ck_put(record + FOCI_CK_BYTES, 8, foci_block_bytes(block));
    foci_ck_put(record + FOCI_CK_CRC, 4, crc);
}

/* head has room for the header and the table, and is zero. */
static void write_all(output *out, uint8_t *head, int64_t step, const foci_block *blocks,
                      int64_t count)
{
    const size_t table_bytes = (size_t)count * FOCI_CK_RECORD;
    uint8_t *table = head + FOCI_CK_HEADER;
    write_at(out, 0, head, FOCI_CK_HEADER + table_bytes);
    out->offset = FOCI_CK_HEADER + table_bytes;
    for (int64_t n = 0; n < count; n++) {
        pad(out);
        const uint64_t offset = out->offset;
        const uint32_t crc = stream(out, blocks[n].data, foci_block_bytes(&blocks[n]));
        put_record(table + n * FOCI_CK_RECORD, &blocks[n], offset, crc);
    }
    memcpy(head, foci_ck_magic, sizeof foci_ck_magic);
    foci_ck_put(head + FOCI_CK_FILE_BYTES, 8, out->offset);
    foci_ck_put(head + FOCI_CK_STEP, 8, (uint64_t)step);
    foci_ck_put(head + FOCI_CK_COUNT, 8, (uint64_t)count);
    foci_ck_put(head + FOCI_CK_TABLE_CRC, 4, foci_crc32c(out->ctx, 0, table, table_bytes));
    foci_ck_put(head + FOCI_CK_HEADER_CRC, 4, foci_crc32c(out->ctx, 0, head, FOCI_CK_HEADER_CRC));
    write_at(out, 0, head, FOCI_CK_HEADER + table_bytes);
}

/* A rename is on the disk when its folder is. Returns errno, or 0. */
static int sync_folder(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash) *slash = '\0';
    const char *folder = !slash ? "." : slash == path ? "/" : path;
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = fd < 0 ? errno : 0;
    /* Some file systems know no sync of a folder; theirs is then not for us to ask for. */
    if (fd >= 0 && fsync(fd) != 0 && errno != EINVAL) error = errno;
    if (fd >= 0) close(fd);
    return error;
}

focal_status foci_checkpoint_write(focal_ctx *ctx, const char *path, int64_t step,
                                   const foci_block *blocks, int64_t count)
{
    FOCAL_TRY(check_blocks(ctx, step, blocks, count));
    const size_t head_bytes = FOCI_CK_HEADER + (size_t)count * FOCI_CK_RECORD;
    const size_t path_bytes = strlen(path) + sizeof ".part";
    uint8_t *head = foci_alloc(ctx, head_bytes, 1);
    char *temporary = foci_alloc(ctx, path_bytes, 1);
    output out = {.ctx = ctx, .fd = -1};
    focal_status status = FOCAL_ENOMEM;
    if (!head || !temporary) goto done;
    memset(head, 0, head_bytes);
    (void)snprintf(temporary, path_bytes, "%s.part", path);
    (void)unlink(temporary); /* what was left there, or a link to somewhere else */
    out.fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (out.fd < 0) {
        status = foci_fail(ctx, FOCAL_EIO, "%s: %s", temporary, strerror(errno));
        goto done;
    }
    write_all(&out, head, step, blocks, count);
    if (out.error == 0 && fsync(out.fd) != 0) out.error = errno;
    if (close(out.fd) != 0 && out.error == 0) out.error = errno;
    if (out.error == 0 && rename(temporary, path) != 0) out.error = errno;
    if (out.error != 0) {
        (void)unlink(temporary);
    } else {
        out.error = sync_folder(temporary);
    }
    status =
        out.error == 0 ? FOCAL_OK : foci_fail(ctx, FOCAL_EIO, "%s: %s", path, strerror(out.error));
done:
    foci_free(ctx, head);
    foci_free(ctx, temporary);
    return status;
}
