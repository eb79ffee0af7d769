/* A folder for the files of one test, gone with all that is in it when the test ends. */
#ifndef FOCAL_TESTS_FOLDER_H
#define FOCAL_TESTS_FOLDER_H

#include <stddef.h>

typedef struct folder {
    char path[64];
} folder;

/* Both fail the test when they cannot do their work; the folder may hold files, no folders. */
folder folder_new(void);
void folder_remove(const folder *f);

/* "FOLDER/NAME"; valid until the fourth call after it. */
const char *folder_file(const folder *f, const char *name);
int folder_count(const folder *f); /* files in it */

/* Whole files, for files that fit in memory; reading gives memory to free(). */
void write_bytes(const char *path, const void *data, size_t bytes);
void *read_bytes(const char *path, size_t *bytes);

#endif /* FOCAL_TESTS_FOLDER_H */
