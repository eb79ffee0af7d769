/* Outputs that would replace an input, or cannot be. */
#include "overwrite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "model_file.h"

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether a file of a folder is one that makes it a model, an adapter or a run: measurements and
 * pages may lie there too, and are made anew. */
static bool is_part(const char *name)
{
    static const char *const ends[] = {
        ".safetensors", ".gguf",        "config.json", "tokenizer.json", ".index.json",
        "log.jsonl",    "summary.json", "run.conf",    "texts.txt",      "lock"};
    const size_t bytes = strlen(name);
    for (size_t n = 0; n < CLI_COUNT(ends); n++) {
        const size_t end = strlen(ends[n]);
        if (bytes >= end && strcmp(name + bytes - end, ends[n]) == 0) return true;
    }
    return false;
}

/* Whether `out` is such a file of the folder, and its name. */
static bool has_part(const char *folder, const struct stat *out, char name[CLI_PATH_BYTES])
{
    bool is_found = false;
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    while (entries && !is_found && (entry = readdir(entries))) {
        struct stat in;
        is_found = is_part(entry->d_name) && fstatat(dirfd(entries), entry->d_name, &in, 0) == 0 &&
                   is_same(&in, out);
        if (is_found) (void)snprintf(name, CLI_PATH_BYTES, "%s/%s", folder, entry->d_name);
    }
    if (entries) (void)closedir(entries);
    return is_found;
}

int overwrite_check(const char *what, const char *path, const char *const *inputs, int32_t count)
{
    struct stat out, in;
    /* Only a regular file has contents to lose: /dev/null may be both. */
    if (!path || stat(path, &out) != 0 || !S_ISREG(out.st_mode)) return CLI_DONE;
    for (int32_t n = 0; n < count; n++) {
        if (!inputs[n]) continue;
        const bool is_stdin = strcmp(inputs[n], "-") == 0;
        if ((is_stdin ? fstat(STDIN_FILENO, &in) : stat(inputs[n], &in)) != 0) continue;
        char name[CLI_PATH_BYTES];
        if (S_ISDIR(in.st_mode) && has_part(inputs[n], &out, name))
            return cli_wrong("%s %s would replace what is read from %s", what, path, name);
        if (is_same(&in, &out))
            return cli_wrong("%s %s would replace what is read from %s, the same file", what, path,
                             is_stdin ? "standard input" : inputs[n]);
    }
    return CLI_DONE;
}

int output_place_check(const char *what, const char *path)
{
    struct stat out;
    char folder[CLI_PATH_BYTES];
    if (!path) return CLI_DONE;
    if (strcmp(path, "-") == 0)
        return cli_wrong("%s - is no file: ./- would be one of that name", what);
    if (stat(path, &out) == 0) {
        if (S_ISREG(out.st_mode)) return CLI_DONE;
        return cli_fail("%s: exists and is not a regular file", path);
    }
    const int length = snprintf(folder, sizeof folder, "%s", path);
    if (length < 0 || (size_t)length >= sizeof folder)
        return cli_fail("%s: the name is too long", what);
    char *slash = strrchr(folder, '/');
    if (!slash) return CLI_DONE;
    slash[slash == folder ? 1 : 0] = '\0';
    if (stat(folder, &out) != 0) return cli_fail("%s: %s", path, strerror(errno));
    if (!S_ISDIR(out.st_mode)) return cli_fail("%s: %s", path, strerror(ENOTDIR));
    return CLI_DONE;
}
