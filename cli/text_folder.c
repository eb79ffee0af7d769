/* A run's texts, and the record of them in its folder. */
#include "text_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model_file.h"

enum { LOOK_BYTES = 4096, RECORD_BYTES = 64 << 20, LEAST_RATIO = 3 };

static const char record_name[] = "texts.txt", record_part[] = "texts.txt.part";
static const char lock_name[] = "lock";

int text_path(const char *folder, const char *name, char path[TEXT_PATH_BYTES])
{
    if (snprintf(path, TEXT_PATH_BYTES, "%s/%s", folder, name) < TEXT_PATH_BYTES) return CLI_DONE;
    return cli_fail("%.64s...: a path of more than %d bytes", folder, TEXT_PATH_BYTES - 1);
}

bool text_has(const char *folder, const char *name)
{
    char path[TEXT_PATH_BYTES];
    struct stat info;
    return snprintf(path, sizeof path, "%s/%s", folder, name) < TEXT_PATH_BYTES &&
           stat(path, &info) == 0;
}

/* By the first bytes, as the library knows them: gzip, xz, zstd. */
static bool is_compressed(const unsigned char *head, size_t bytes)
{
    static const struct {
        const char *magic;
        size_t bytes;
    } kinds[] = {{"\x1F\x8B", 2},
                 {"\xFD"
                  "7zXZ",
                  5},
                 {"\x28\xB5\x2F\xFD", 4}};
    for (size_t n = 0; n < CLI_COUNT(kinds); n++)
        if (bytes >= kinds[n].bytes && memcmp(head, kinds[n].magic, kinds[n].bytes) == 0)
            return true;
    return false;
}

static int check_one(const char *path, int64_t *total)
{
    unsigned char head[LOOK_BYTES];
    struct stat info;
    if (strcmp(path, "-") == 0)
        return cli_wrong("train: texts are read twice, so standard input cannot be one");
    if (stat(path, &info) != 0) return cli_fail("%s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return cli_fail("%s: is a folder; name the texts in it, as in %s/*.txt", path, path);
    if (!S_ISREG(info.st_mode)) return cli_fail("%s: is no file", path);
    if (info.st_size == 0) return cli_fail("%s: is empty", path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return cli_fail("%s: %s", path, strerror(errno));
    const ssize_t got = read(fd, head, sizeof head);
    const int error = errno;
    (void)close(fd);
    if (got < 0) return cli_fail("%s: %s", path, strerror(error));
    const bool is_packed = is_compressed(head, (size_t)got);
    const unsigned char *zero = is_packed ? NULL : memchr(head, 0, (size_t)got);
    if (zero) return cli_fail("%s: is no text: byte %lld is 0", path, (long long)(zero - head));
    *total += info.st_size * (is_packed ? LEAST_RATIO : 1);
    return CLI_DONE;
}

int text_check(const cli_texts *texts, int64_t *bytes)
{
    *bytes = 0;
    for (int32_t n = 0; n < texts->count; n++) {
        const int code = check_one(texts->items[n], bytes);
        if (code != CLI_DONE) return code;
    }
    return CLI_DONE;
}

/* A line for what was asked, then one a text: bytes, time of change, real path. */
static int put_record(const train_request *request, const char *asked, FILE *to)
{
    (void)fprintf(to, "%s\n", asked);
    for (int32_t n = 0; n < request->texts.count; n++) {
        const char *path = request->texts.items[n];
        struct stat info;
        char *real = realpath(path, NULL);
        if (!real || stat(real, &info) != 0) {
            free(real);
            return cli_fail("%s: %s", path, strerror(errno));
        }
        (void)fprintf(to, "%" PRId64 " %" PRId64 ".%09ld %s\n", (int64_t)info.st_size,
                      (int64_t)info.st_mtim.tv_sec, info.st_mtim.tv_nsec, real);
        free(real);
    }
    return CLI_DONE;
}

static int make_record(const train_request *request, const char *asked, char **text)
{
    size_t bytes = 0;
    FILE *to = open_memstream(text, &bytes);
    if (!to) return cli_fail("no memory for the list of texts");
    const int code = put_record(request, asked, to);
    if (fclose(to) != 0 && code == CLI_DONE) return cli_fail("no memory for the list of texts");
    return code;
}

/* Which line differs, and what that means. */
static int compare_records(const train_request *request, const char *before, const char *now)
{
    int32_t line = 0;
    const char *out = request->out;
    while (*before && *now) {
        const size_t a = strcspn(before, "\n"), b = strcspn(now, "\n");
        if (a != b || memcmp(before, now, a) != 0) break;
        before += a + (before[a] == '\n');
        now += b + (now[b] == '\n');
        line++;
    }
    if (!*before && !*now) return CLI_DONE;
    if (line == 0)
        return cli_fail("%s: was begun with %.*s; give the same, or another folder", out,
                        (int)strcspn(before, "\n"), before);
    if (!*before || !*now)
        return cli_fail("%s: was begun with %s texts; give the same, or another folder", out,
                        *now ? "fewer" : "more");
    return cli_fail(
        "%s: is not the text that %s was begun with, or has changed since; take another "
        "folder",
        request->texts.items[line - 1], out);
}

static bool is_ours(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, lock_name) == 0 ||
           strcmp(name, record_part) == 0; /* of a process that was killed in just that moment */
}

static int check_empty(const char *folder)
{
    DIR *stream = opendir(folder);
    if (!stream) return cli_fail("%s: %s", folder, strerror(errno));
    const struct dirent *file = readdir(stream);
    while (file && is_ours(file->d_name)) file = readdir(stream);
    const int code =
        file
            ? cli_fail("%s: is there already, holds '%.64s', and no run on texts began in it; give "
                       "another folder",
                       folder, file->d_name)
            : CLI_DONE;
    (void)closedir(stream);
    return code;
}

/* Under another name first: half a record would say that the texts have changed. */
static int write_record(const char *folder, const char *text)
{
    char path[TEXT_PATH_BYTES], temporary[TEXT_PATH_BYTES];
    int code = text_path(folder, record_name, path);
    if (code == CLI_DONE) code = text_path(folder, record_part, temporary);
    if (code != CLI_DONE) return code;
    FILE *file = fopen(temporary, "w");
    if (!file) return cli_fail("%s: %s", path, strerror(errno));
    const bool is_put = fputs(text, file) >= 0;
    if (fclose(file) != 0 || !is_put || rename(temporary, path) != 0) {
        const int error = errno;
        (void)unlink(temporary);
        return cli_fail("%s: %s", path, strerror(error));
    }
    return CLI_DONE;
}

static bool has_stage(const char *folder)
{
    return text_has(folder, "tokenizer.json") || text_has(folder, "shards") ||
           text_has(folder, "run.conf");
}

static void remove_folder(const char *path)
{
    DIR *stream = opendir(path);
    if (!stream) return;
    for (const struct dirent *file = readdir(stream); file; file = readdir(stream))
        (void)unlinkat(dirfd(stream), file->d_name, 0);
    (void)closedir(stream);
    (void)rmdir(path);
}

/* Shards are made again for another request: only a tokenizer, which took long, and settings bind
 * to what they were made of. */
static int begin_anew(const char *folder, const char *record)
{
    char shards[TEXT_PATH_BYTES];
    const int code = text_path(folder, "shards", shards);
    if (code != CLI_DONE) return code;
    remove_folder(shards);
    return write_record(folder, record);
}

static int settle(const train_request *request, const char *now)
{
    const char *out = request->out;
    char path[TEXT_PATH_BYTES];
    size_t bytes = 0;
    if (!text_has(out, record_name)) return write_record(out, now);
    int code = text_path(out, record_name, path);
    char *before = code == CLI_DONE ? cli_read_text(path, RECORD_BYTES, &bytes) : NULL;
    if (!before) return CLI_FAILED;
    if (strcmp(before, now) == 0)
        code = CLI_DONE;
    else if (text_has(out, "tokenizer.json") || text_has(out, "run.conf"))
        code = compare_records(request, before, now);
    else
        code = begin_anew(out, now);
    free(before);
    return code;
}

/* The lock of the run, which the library takes later: a lock of the system's, which goes with the
 * process. One without a name was removed by a process that failed in this moment. */
static int take_lock(text_folder *folder)
{
    char path[TEXT_PATH_BYTES];
    struct stat info;
    const int code = text_path(folder->path, lock_name, path);
    if (code != CLI_DONE) return code;
    folder->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (folder->lock < 0) return cli_fail("%s: %s", path, strerror(errno));
    const bool is_taken = flock(folder->lock, LOCK_EX | LOCK_NB) == 0;
    const int error = errno;
    if (is_taken && fstat(folder->lock, &info) == 0 && info.st_nlink > 0) return CLI_DONE;
    (void)close(folder->lock);
    return is_taken || error == EWOULDBLOCK
               ? cli_fail("%s: another process trains in this folder", folder->path)
               : cli_fail("%s: %s", path, strerror(error));
}

static int open_folder(text_folder *folder)
{
    const char *path = folder->path;
    folder->is_made = mkdir(path, 0777) == 0;
    if (!folder->is_made && errno != EEXIST) return cli_fail("%s: %s", path, strerror(errno));
    /* Before anything is left in a folder of others. */
    const int code = text_has(path, record_name) ? CLI_DONE : check_empty(path);
    return code == CLI_DONE ? take_lock(folder) : code;
}

int text_folder_open(const train_request *request, const char *asked, text_folder *folder)
{
    char *now = NULL;
    *folder = (text_folder){.path = request->out, .lock = -1};
    int code = make_record(request, asked, &now);
    if (code == CLI_DONE) code = open_folder(folder);
    if (code == CLI_DONE) {
        code = settle(request, now);
        if (code != CLI_DONE) text_folder_close(folder, code);
    }
    free(now);
    return code;
}

static void remove_file(const char *folder, const char *name)
{
    char path[TEXT_PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) < TEXT_PATH_BYTES) (void)unlink(path);
}

void text_folder_close(const text_folder *folder, int code)
{
    if (code == CLI_FAILED && !has_stage(folder->path)) {
        remove_file(folder->path, record_name);
        remove_file(folder->path, lock_name);
        if (folder->is_made) (void)rmdir(folder->path);
    }
    (void)close(folder->lock);
}

bool text_folder_is_begun(const char *path)
{
    return text_has(path, record_name) && !text_has(path, "run.conf");
}

int text_folder_unready(const char *verb, const char *path)
{
    return cli_wrong("%s: %s was stopped before its first step; the command that began it goes on, "
                     "with the same texts and -o %s",
                     verb, path, path);
}

void text_sweep(const char *folder)
{
    DIR *stream = opendir(folder);
    if (!stream) return;
    for (const struct dirent *file = readdir(stream); file; file = readdir(stream)) {
        char path[TEXT_PATH_BYTES];
        if (fnmatch("shards.[0-9]*.[0-9]*.part", file->d_name, 0) != 0) continue;
        const long owner = strtol(file->d_name + strlen("shards."), NULL, 10);
        if (owner > 0 && kill((pid_t)owner, 0) == 0) continue; /* it may still be at work */
        if (snprintf(path, sizeof path, "%s/%s", folder, file->d_name) < TEXT_PATH_BYTES)
            remove_folder(path);
    }
    (void)closedir(stream);
}
