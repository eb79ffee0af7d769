/* Files as the library uses them: mapped to read, written under another name and renamed. */
#ifndef FOCI_IO_FILE_H
#define FOCI_IO_FILE_H

#include "focal/base.h"

/* A whole file, read-only and mapped, so that opening costs no reading. data is NULL when the file
 * is empty. Another program that cuts the file short while it is mapped makes reads fault; that is
 * the price of not copying, and SECURITY.md says so. */
typedef struct foci_map {
    const uint8_t *data;
    size_t bytes;
} foci_map;

/* Fails with FOCAL_EIO ("PATH: No such file or directory") or FOCAL_EFORMAT when it is no regular
 * file; *map is then empty. */
focal_status foci_map_open(focal_ctx *ctx, const char *path, foci_map *map);
void foci_map_close(foci_map *map); /* an empty map is fine */

/* Copies the file into memory of large pages, at the same addresses; what is left over of the last
 * one lies in small pages. False: some of it is mapped as before, for want of memory or of a system
 * that can; what is read there is the same. Nobody may read it meanwhile. */
bool foci_map_load(focal_ctx *ctx, const foci_map *map);
/* Lets a loaded file's memory be written to, or no longer; the file itself never is. False: it
 * cannot, as when the file is only mapped. */
bool foci_map_set_writable(const foci_map *map, bool is_writable);

/* A small file (at most limit bytes) as memory of the context's, with a NUL behind its end; free it
 * with foci_free. FOCAL_EFORMAT when it is larger. */
focal_status foci_read_file(focal_ctx *ctx, const char *path, size_t limit, char **data,
                            size_t *bytes);

/* A copy of a regular file, which appears whole or not at all. */
focal_status foci_copy_file(focal_ctx *ctx, const char *from, const char *to);

/* "folder/name", with the first folder_bytes of folder; the caller frees it with foci_free. NULL
 * without memory. */
char *foci_path_join(focal_ctx *ctx, const char *folder, size_t folder_bytes, const char *name);

/* A file that appears only when it is whole: written beside its final name, synced, renamed. */
typedef struct foci_writer foci_writer;
focal_status foci_writer_open(focal_ctx *ctx, const char *path, foci_writer **out);
/* Buffered; the first failure is kept and told by commit, so a run of writes needs one check. */
void foci_writer_put(foci_writer *writer, const void *data, size_t bytes);
void foci_writer_pad(foci_writer *writer, size_t alignment); /* zeros up to a multiple of it */
size_t foci_writer_offset(const foci_writer *writer);        /* bytes written so far */
/* Replaces bytes that were put before, for what is known only at the end. */
void foci_writer_replace(foci_writer *writer, size_t offset, const void *data, size_t bytes);
/* FOCAL_EIO when something has failed so far, for those who would do much work before commit. */
focal_status foci_writer_status(const foci_writer *writer);
/* FOCAL_EIO with the system's words when anything failed; the old file is then untouched. Frees
 * the writer either way. */
focal_status foci_writer_commit(foci_writer *writer);
void foci_writer_abandon(foci_writer *writer); /* leaves nothing behind; NULL is fine */

#endif /* FOCI_IO_FILE_H */
