/* Folders and files of tests, by plain C library calls: not by what is tested. */
#include "support/folder.h"

#include "support/check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 512, PATHS = 4 };

folder folder_new(void)
{
    folder f;
    (void)snprintf(f.path, sizeof f.path, "/tmp/focal-test-XXXXXX");
    assert_non_null(mkdtemp(f.path));
    return f;
}

const char *folder_file(const folder *f, const char *name)
{
    static char paths[PATHS][PATH_BYTES];
    static int next;
    char *path = paths[next++ % PATHS];
    const int length = snprintf(path, PATH_BYTES, "%s/%s", f->path, name);
    assert_in_range(length, 1, PATH_BYTES - 1);
    return path;
}

/* Counts the entries of a folder, and removes them when asked to. */
static int visit(const folder *f, bool removes)
{
    DIR *dir = opendir(f->path);
    assert_non_null(dir);
    int count = 0;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (removes) assert_int_equal(remove(folder_file(f, entry->d_name)), 0);
        count++;
    }
    (void)closedir(dir);
    return count;
}

int folder_count(const folder *f)
{
    return visit(f, false);
}

void folder_remove(const folder *f)
{
    (void)visit(f, true);
    assert_int_equal(rmdir(f->path), 0);
}

void write_bytes(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

void *read_bytes(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long size = ftell(file);
    assert_true(size >= 0);
    rewind(file);
    void *data = new_array((size_t)size + 1, 1);
    assert_int_equal(fread(data, 1, (size_t)size, file), size);
    assert_int_equal(fclose(file), 0);
    *bytes = (size_t)size;
    return data;
}
