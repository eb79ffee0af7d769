/* A file that grows by whole records: each goes out at once, and one that does not fit is taken
 * back. Both kinds of log stand on it. */
#ifndef FOCI_TRAIN_APPEND_FILE_H
#define FOCI_TRAIN_APPEND_FILE_H

#include "focal/base.h"

typedef struct foci_append {
    focal_ctx *ctx;
    char *path;
    int fd;
    int64_t bytes; /* of the file */
} foci_append;

/* Opens a file to write behind its end, and makes it where there is none; must_be_new: FOCAL_EIO
 * where there is one. On failure *file is closed. */
focal_status foci_append_open(focal_ctx *ctx, const char *path, bool must_be_new,
                              foci_append *file);
void foci_append_close(foci_append *file); /* one that was never opened, all zero, is fine */

/* FOCAL_EIO with the system's words; the file then ends where it did before. */
focal_status foci_append_put(foci_append *file, const void *data, size_t bytes);
/* Cuts the file behind its first `bytes`. */
focal_status foci_append_cut(foci_append *file, int64_t bytes);
/* What was put is on the disk when this returns; else it is in the system's hands. */
focal_status foci_append_sync(foci_append *file);

#endif /* FOCI_TRAIN_APPEND_FILE_H */
