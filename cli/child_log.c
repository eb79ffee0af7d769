/* The messages of children: a sentence of an earlier one says nothing about this one. */
#include "child_log.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { TAIL_BYTES = 4096, SIGNAL_CODES = 128 };

int64_t child_log_end(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (int64_t)info.st_size : 0;
}

void child_log_last(const char *path, int64_t begin, const char *beginning,
                    char out[CHILD_LINE_BYTES])
{
    char tail[TAIL_BYTES + 1];
    const int64_t end = child_log_end(path),
                  from = end - begin > TAIL_BYTES ? end - TAIL_BYTES : begin;
    out[0] = '\0';
    FILE *file = fopen(path, "r");
    if (!file) return;
    tail[0] = '\0';
    if (fseek(file, (long)from, SEEK_SET) == 0) tail[fread(tail, 1, TAIL_BYTES, file)] = '\0';
    (void)fclose(file);
    char *rest = NULL;
    for (char *line = strtok_r(tail, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strncmp(line, beginning, strlen(beginning)) == 0)
            (void)snprintf(out, CHILD_LINE_BYTES, "%s", line);
}

void child_log_failure(const char *path, int64_t begin, int code, char out[CHILD_LINE_BYTES])
{
    if (code > SIGNAL_CODES) { /* what it said before is not why */
        (void)snprintf(out, CHILD_LINE_BYTES, "killed by signal %d", code - SIGNAL_CODES);
        return;
    }
    child_log_last(path, begin, "focal: ", out);
    if (!out[0]) (void)snprintf(out, CHILD_LINE_BYTES, "it ended without a word");
}
