/* Files that grow by whole records, over POSIX calls. */
#include "train/append_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"

static focal_status fail_errno(const foci_append *file, int error)
{
    return foci_fail(file->ctx, FOCAL_EIO, "%s: %s", file->path, strerror(error));
}

focal_status foci_append_open(focal_ctx *ctx, const char *path, bool must_be_new, foci_append *file)
{
    const size_t path_bytes = strlen(path) + 1;
    *file = (foci_append){.ctx = ctx, .fd = -1, .path = foci_alloc(ctx, path_bytes, 1)};
    if (!file->path) {
        *file = (foci_append){0};
        return FOCAL_ENOMEM;
    }
    memcpy(file->path, path, path_bytes);
    /* O_NONBLOCK: a pipe of that name must not hang us before it is refused. */
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | (must_be_new ? O_EXCL : 0);
    file->fd = open(path, flags, 0666);
    struct stat info = {0};
    focal_status status = FOCAL_OK;
    if (file->fd < 0 || fstat(file->fd, &info) != 0)
        status = fail_errno(file, errno);
    else if (!S_ISREG(info.st_mode))
        status = foci_fail(ctx, FOCAL_EIO, "%s: exists and is not a regular file", path);
    if (status != FOCAL_OK) {
        foci_append_close(file);
        return status;
    }
    file->bytes = (int64_t)info.st_size;
    return FOCAL_OK;
}

void foci_append_close(foci_append *file)
{
    if (!file->path) return;
    if (file->fd >= 0) (void)close(file->fd);
    foci_free(file->ctx, file->path);
    *file = (foci_append){0};
}

focal_status foci_append_put(foci_append *file, const void *data, size_t bytes)
{
    const char *at = data;
    int error = 0;
    size_t put = 0;
    while (put < bytes && error == 0) {
        const ssize_t got =
            pwrite(file->fd, at + put, bytes - put, (off_t)file->bytes + (off_t)put);
        if (got > 0)
            put += (size_t)got;
        else if (got == 0)
            error = EIO; /* nothing taken and no reason given */
        else if (errno != EINTR)
            error = errno;
    }
    if (error != 0) {
        /* Where even that fails, the next record is written over the half one. */
        if (put > 0) (void)!ftruncate(file->fd, (off_t)file->bytes);
        return fail_errno(file, error);
    }
    file->bytes += (int64_t)bytes;
    return FOCAL_OK;
}

focal_status foci_append_cut(foci_append *file, int64_t bytes)
{
    if (ftruncate(file->fd, (off_t)bytes) != 0) return fail_errno(file, errno);
    file->bytes = bytes;
    return FOCAL_OK;
}

focal_status foci_append_sync(foci_append *file)
{
    return fsync(file->fd) == 0 ? FOCAL_OK : fail_errno(file, errno);
}
