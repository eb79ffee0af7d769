/* Where an export goes: names that must not be touched, a folder that appears when it is whole, and
 * the files that move from one model directory to another unread. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/exchange.h"
#include "io/file.h"
#include "model/export.h"

enum { SUFFIX_ROOM = 48 };

static const char *const copied_files[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
};

static focal_status fail_errno(focal_ctx *ctx, const char *path)
{
    return foci_fail(ctx, FOCAL_EIO, "%s: %s", path, strerror(errno));
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The real path of the folder that holds `path`. */
static focal_status real_parent(focal_ctx *ctx, const char *path, char real[PATH_MAX])
{
    char parent[PATH_MAX];
    const size_t bytes = (size_t)(base_name(path) - path);
    if (bytes + 2 > sizeof parent)
        return foci_fail(ctx, FOCAL_EINVAL, "export: a path of %zu bytes, at most %d can be", bytes,
                         PATH_MAX - 2);
    memcpy(parent, path, bytes);
    memcpy(parent + bytes, ".", 2);
    return realpath(parent, real) ? FOCAL_OK : fail_errno(ctx, path);
}

/* Whether the two names are those of parts of one split model; they have a folder in common. */
static bool are_parts(const char *in, const char *out)
{
    static const char pattern[] = "?*-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].gguf";
    enum { NUMBER = 19, TAIL = 14 }; /* from the end: "00001-of-00002.gguf", "-of-00002.gguf" */
    const size_t length = strlen(in);
    return strlen(out) == length && fnmatch(pattern, in, 0) == 0 && fnmatch(pattern, out, 0) == 0 &&
           memcmp(in, out, length - NUMBER) == 0 &&
           memcmp(in + length - TAIL, out + length - TAIL, TAIL) == 0;
}

static focal_status check_overlap(focal_ctx *ctx, const char *in, bool in_is_folder,
                                  const char *out)
{
    char source[PATH_MAX], target[PATH_MAX];
    FOCAL_TRY(real_parent(ctx, out, target));
    if (!in_is_folder) {
        FOCAL_TRY(real_parent(ctx, in, source));
        if (strcmp(source, target) != 0 || !are_parts(base_name(in), base_name(out)))
            return FOCAL_OK;
        return foci_fail(ctx, FOCAL_EINVAL, "%s: is a part of the model that is read", out);
    }
    if (!realpath(in, source)) return fail_errno(ctx, in);
    const size_t length = strlen(source);
    if (strncmp(source, target, length) != 0 || (target[length] != '/' && target[length] != '\0'))
        return FOCAL_OK;
    return foci_fail(ctx, FOCAL_EINVAL, "%s: is in the folder of the model that is read", out);
}

focal_status foci_export_check_place(focal_ctx *ctx, const char *in, const char *out, bool to_gguf,
                                     bool replaces)
{
    struct stat source, target;
    if (stat(in, &source) != 0) return fail_errno(ctx, in);
    const bool exists = stat(out, &target) == 0;
    if (exists && source.st_dev == target.st_dev && source.st_ino == target.st_ino)
        return foci_fail(ctx, FOCAL_EINVAL, "%s: is the model that is read", out);
    FOCAL_TRY(check_overlap(ctx, in, S_ISDIR(source.st_mode), out));
    if (!exists) return FOCAL_OK;
    if (!replaces)
        return foci_fail(ctx, FOCAL_EINVAL, "%s: is there already; --force replaces it", out);
    if (to_gguf ? S_ISREG(target.st_mode) : S_ISDIR(target.st_mode)) return FOCAL_OK;
    return foci_fail(ctx, FOCAL_EINVAL, "%s: is there already and is no %s", out,
                     to_gguf ? "regular file" : "directory");
}

focal_status foci_export_open_folder(focal_ctx *ctx, const char *out, char **folder)
{
    const size_t room = strlen(out) + SUFFIX_ROOM;
    int made = -1;
    *folder = NULL;
    char *path = foci_alloc(ctx, room, 1);
    if (!path) return FOCAL_ENOMEM;
    for (unsigned n = 0; made != 0 && n < 100; n++) { /* names that others use are skipped */
        (void)snprintf(path, room, "%s.%ld.%u.part", out, (long)getpid(), n);
        made = mkdir(path, 0777);
        if (made != 0 && errno != EEXIST) break;
    }
    if (made != 0) {
        const focal_status status = fail_errno(ctx, out);
        foci_free(ctx, path);
        return status;
    }
    *folder = path;
    return FOCAL_OK;
}

/* What an export may have written under a name, earlier. */
static bool is_ours(const char *name)
{
    if (strcmp(name, "config.json") == 0 || strcmp(name, "model.safetensors") == 0 ||
        strcmp(name, "model.safetensors.index.json") == 0 ||
        fnmatch("model-[0-9]*-of-[0-9]*.safetensors", name, 0) == 0)
        return true;
    for (size_t n = 0; n < FOCAL_COUNT(copied_files); n++)
        if (strcmp(name, copied_files[n]) == 0) return true;
    return false;
}

/* Of the files in a folder. */
typedef enum file_choice { ALL_FILES, OUR_FILES, OTHER_FILES } file_choice;

/* Removes files of a folder, or moves them to `to`. */
static focal_status empty_folder(focal_ctx *ctx, const char *folder, const char *to,
                                 file_choice choice)
{
    DIR *stream = opendir(folder);
    if (!stream) return fail_errno(ctx, folder);
    focal_status status = FOCAL_OK;
    for (const struct dirent *file = readdir(stream); file && status == FOCAL_OK;
         file = readdir(stream)) {
        if (strcmp(file->d_name, ".") == 0 || strcmp(file->d_name, "..") == 0) continue;
        if (choice != ALL_FILES && is_ours(file->d_name) != (choice == OUR_FILES)) continue;
        char *from = foci_path_join(ctx, folder, strlen(folder), file->d_name);
        char *target = to ? foci_path_join(ctx, to, strlen(to), file->d_name) : NULL;
        if (!from || (to && !target))
            status = FOCAL_ENOMEM;
        else if ((to ? rename(from, target) : unlink(from)) != 0)
            status = fail_errno(ctx, from);
        foci_free(ctx, from);
        foci_free(ctx, target);
    }
    (void)closedir(stream);
    return status;
}

focal_status foci_export_commit_folder(focal_ctx *ctx, const char *folder, const char *out)
{
    struct stat info;
    if (stat(out, &info) != 0) return rename(folder, out) == 0 ? FOCAL_OK : fail_errno(ctx, out);
    /* A folder that is there may hold more than a model: only the model is replaced. */
    const bool is_link = lstat(out, &info) == 0 && S_ISLNK(info.st_mode);
    if (!is_link && foci_exchange(folder, out)) {
        FOCAL_TRY(empty_folder(ctx, folder, out, OTHER_FILES));
        FOCAL_TRY(empty_folder(ctx, folder, NULL, ALL_FILES));
    } else {
        FOCAL_TRY(empty_folder(ctx, out, NULL, OUR_FILES));
        FOCAL_TRY(empty_folder(ctx, folder, out, ALL_FILES));
    }
    return rmdir(folder) == 0 ? FOCAL_OK : fail_errno(ctx, folder);
}

void foci_export_remove_folder(const char *folder)
{
    /* By plain calls: this comes after a failure, which may have been of memory. */
    DIR *stream = opendir(folder);
    if (!stream) return;
    for (const struct dirent *file = readdir(stream); file; file = readdir(stream))
        (void)unlinkat(dirfd(stream), file->d_name, 0);
    (void)closedir(stream);
    (void)rmdir(folder);
}

focal_status foci_export_copy(focal_ctx *ctx, const char *from, const char *to)
{
    struct stat info;
    if (stat(from, &info) != 0) return errno == ENOENT ? FOCAL_OK : fail_errno(ctx, from);
    return foci_copy_file(ctx, from, to);
}

focal_status foci_export_copy_file(focal_ctx *ctx, const char *from, const char *to,
                                   const char *name)
{
    char *source = foci_path_join(ctx, from, strlen(from), name);
    char *target = foci_path_join(ctx, to, strlen(to), name);
    const focal_status status =
        source && target ? foci_export_copy(ctx, source, target) : FOCAL_ENOMEM;
    foci_free(ctx, source);
    foci_free(ctx, target);
    return status;
}

focal_status foci_export_copy_files(focal_ctx *ctx, const char *from, const char *to)
{
    for (size_t n = 0; n < FOCAL_COUNT(copied_files); n++)
        FOCAL_TRY(foci_export_copy_file(ctx, from, to, copied_files[n]));
    return FOCAL_OK;
}
