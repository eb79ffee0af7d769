/* Mapped reading and atomic writing, over POSIX calls. */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"

enum { BUFFER_BYTES = 1 << 18 };

struct foci_writer {
    focal_ctx *ctx;
    int fd;
    int error;       /* errno of the first failure, or 0 */
    size_t offset;   /* bytes put so far */
    size_t buffered; /* of them not yet written */
    char *path, *temporary;
    uint8_t buffer[BUFFER_BYTES];
};

static focal_status fail_errno(focal_ctx *ctx, const char *path, int error)
{
    return foci_fail(ctx, FOCAL_EIO, "%s: %s", path, strerror(error));
}

/* Opens a regular file and tells its size. */
static focal_status open_regular(focal_ctx *ctx, const char *path, int *fd, size_t *bytes)
{
    struct stat info;
    /* O_NONBLOCK: a pipe of that name must not hang us before it is refused. */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) return fail_errno(ctx, path, errno);
    if (fstat(*fd, &info) != 0) {
        const int error = errno;
        close(*fd);
        return fail_errno(ctx, path, error);
    }
    if (!S_ISREG(info.st_mode)) {
        close(*fd);
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: not a regular file", path);
    }
    *bytes = (size_t)info.st_size;
    return FOCAL_OK;
}

/* Maps a file where large pages could stand, should it be loaded; MAP_FAILED and errno. */
static void *map_file(int fd, size_t bytes)
{
    if (bytes < FOCI_LARGE_PAGE) return mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    const size_t room = (size_t)foci_round_up((int64_t)bytes, FOCI_LARGE_PAGE) + FOCI_LARGE_PAGE;
    char *base = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    const size_t skip = (0 - (uintptr_t)base) % FOCI_LARGE_PAGE;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE),
                 end = (skip + bytes + page - 1) / page * page;
    void *data = mmap(base + skip, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
    const int error = errno;
    if (data == MAP_FAILED) {
        (void)munmap(base, room);
        errno = error;
        return data;
    }
    if (skip > 0) (void)munmap(base, skip);
    (void)munmap(base + end, room - end);
    return data;
}

focal_status foci_map_open(focal_ctx *ctx, const char *path, foci_map *map)
{
    *map = (foci_map){0};
    int fd = -1;
    size_t bytes = 0;
    FOCAL_TRY(open_regular(ctx, path, &fd, &bytes));
    if (bytes > 0) {
        void *data = map_file(fd, bytes);
        if (data == MAP_FAILED) {
            const int error = errno;
            close(fd);
            return fail_errno(ctx, path, error);
        }
        *map = (foci_map){data, bytes};
    }
    close(fd);
    return FOCAL_OK;
}

void foci_map_close(foci_map *map)
{
    void *base; /* what mmap() gave, without the const */
    memcpy(&base, &map->data, sizeof base);
    if (base) munmap(base, map->bytes);
    *map = (foci_map){0};
}

focal_status foci_read_file(focal_ctx *ctx, const char *path, size_t limit, char **data,
                            size_t *bytes)
{
    *data = NULL;
    *bytes = 0;
    int fd = -1;
    size_t size = 0;
    FOCAL_TRY(open_regular(ctx, path, &fd, &size));
    if (size > limit) {
        close(fd);
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: %zu bytes, at most %zu are read", path, size,
                         limit);
    }
    char *text = foci_alloc(ctx, size + 1, 1);
    if (!text) {
        close(fd);
        return FOCAL_ENOMEM;
    }
    size_t at = 0;
    int error = 0;
    while (at < size && error == 0) {
        const ssize_t got = read(fd, text + at, size - at);
        if (got == 0) break; /* cut short meanwhile: what there is */
        if (got > 0)
            at += (size_t)got;
        else if (errno != EINTR)
            error = errno;
    }
    close(fd);
    if (error != 0) {
        foci_free(ctx, text);
        return fail_errno(ctx, path, error);
    }
    text[at] = '\0';
    *data = text;
    *bytes = at;
    return FOCAL_OK;
}

char *foci_path_join(focal_ctx *ctx, const char *folder, size_t folder_bytes, const char *name)
{
    const size_t name_bytes = strlen(name);
    size_t bytes;
    if (!foci_size_add(folder_bytes, name_bytes + 2, &bytes)) return NULL;
    char *path = foci_alloc(ctx, bytes, 1);
    if (!path) return NULL;
    memcpy(path, folder, folder_bytes);
    path[folder_bytes] = '/';
    memcpy(path + folder_bytes + 1, name, name_bytes + 1);
    return path;
}

/* Where a file lies that a link stands for: renamed over, the link would be gone, and what it
 * stands for as it was. */
static focal_status follow_link(focal_ctx *ctx, const char **path, char place[PATH_MAX])
{
    struct stat info;
    if (lstat(*path, &info) != 0 || !S_ISLNK(info.st_mode)) return FOCAL_OK;
    if (!realpath(*path, place)) return fail_errno(ctx, *path, errno);
    *path = place;
    return FOCAL_OK;
}

focal_status foci_writer_open(focal_ctx *ctx, const char *path, foci_writer **out)
{
    char place[PATH_MAX];
    struct stat info;
    *out = NULL;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return foci_fail(ctx, FOCAL_EIO, "%s: exists and is not a regular file", path);
    FOCAL_TRY(follow_link(ctx, &path, place));
    const size_t length = strlen(path);
    foci_writer *writer = foci_alloc(ctx, 1, sizeof *writer);
    char *names = foci_alloc(ctx, 2, length + 32);
    if (!writer || !names) {
        foci_free(ctx, writer);
        foci_free(ctx, names);
        return FOCAL_ENOMEM;
    }
    *writer = (foci_writer){.ctx = ctx, .fd = -1, .path = names, .temporary = names + length + 32};
    memcpy(writer->path, path, length + 1);
    for (unsigned n = 0; writer->fd < 0 && n < 100; n++) { /* names that others use are skipped */
        (void)snprintf(writer->temporary, length + 32, "%s.%ld.%u.part", path, (long)getpid(), n);
        writer->fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->fd < 0 && errno != EEXIST) break;
    }
    if (writer->fd < 0) {
        const int error = errno;
        foci_writer_abandon(writer);
        return fail_errno(ctx, path, error);
    }
    *out = writer;
    return FOCAL_OK;
}

static void flush_buffer(foci_writer *writer)
{
    size_t at = 0;
    while (at < writer->buffered && writer->error == 0) {
        const ssize_t put = write(writer->fd, writer->buffer + at, writer->buffered - at);
        if (put >= 0)
            at += (size_t)put;
        else if (errno != EINTR)
            writer->error = errno;
    }
    writer->buffered = 0;
}

void foci_writer_put(foci_writer *writer, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    writer->offset += bytes;
    while (bytes > 0 && writer->error == 0) {
        size_t take = BUFFER_BYTES - writer->buffered;
        if (take > bytes) take = bytes;
        memcpy(writer->buffer + writer->buffered, from, take);
        writer->buffered += take;
        from += take;
        bytes -= take;
        if (writer->buffered == BUFFER_BYTES) flush_buffer(writer);
    }
}

void foci_writer_pad(foci_writer *writer, size_t alignment)
{
    static const uint8_t zeros[64];
    size_t rest = (alignment - writer->offset % alignment) % alignment;
    while (rest > 0) {
        const size_t take = rest < sizeof zeros ? rest : sizeof zeros;
        foci_writer_put(writer, zeros, take);
        rest -= take;
    }
}

void foci_writer_replace(foci_writer *writer, size_t offset, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    flush_buffer(writer);
    while (bytes > 0 && writer->error == 0) {
        const ssize_t put = pwrite(writer->fd, from, bytes, (off_t)offset);
        if (put < 0) {
            if (errno != EINTR) writer->error = errno;
            continue;
        }
        from += put;
        offset += (size_t)put;
        bytes -= (size_t)put;
    }
}

size_t foci_writer_offset(const foci_writer *writer)
{
    return writer->offset;
}

focal_status foci_writer_status(const foci_writer *writer)
{
    if (writer->error == 0) return FOCAL_OK;
    return fail_errno(writer->ctx, writer->path, writer->error);
}

focal_status foci_writer_commit(foci_writer *writer)
{
    focal_ctx *ctx = writer->ctx;
    flush_buffer(writer);
    if (writer->error == 0 && fsync(writer->fd) != 0) writer->error = errno;
    if (close(writer->fd) != 0 && writer->error == 0) writer->error = errno;
    writer->fd = -1;
    if (writer->error == 0 && rename(writer->temporary, writer->path) != 0) writer->error = errno;
    focal_status status = FOCAL_OK;
    if (writer->error != 0) {
        status = fail_errno(ctx, writer->path, writer->error);
        unlink(writer->temporary);
    }
    writer->temporary[0] = '\0';
    foci_writer_abandon(writer);
    return status;
}

void foci_writer_abandon(foci_writer *writer)
{
    if (!writer) return;
    if (writer->fd >= 0) {
        close(writer->fd);
        unlink(writer->temporary);
    }
    foci_free(writer->ctx, writer->path);
    foci_free(writer->ctx, writer);
}

focal_status foci_copy_file(focal_ctx *ctx, const char *from, const char *to)
{
    foci_map map;
    foci_writer *file = NULL;
    FOCAL_TRY(foci_map_open(ctx, from, &map));
    focal_status status = foci_writer_open(ctx, to, &file);
    if (file) { /* it is there exactly when that went well */
        foci_writer_put(file, map.data, map.bytes);
        status = foci_writer_commit(file);
    }
    foci_map_close(&map);
    return status;
}
