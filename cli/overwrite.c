/* Outputs that would replace an input. */
#include "overwrite.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

int overwrite_check(const char *what, const char *path, const char *const *inputs, int32_t count)
{
    struct stat out, in;
    /* Only a regular file has contents to lose: /dev/null may be both. */
    if (!path || stat(path, &out) != 0 || !S_ISREG(out.st_mode)) return CLI_DONE;
    for (int32_t n = 0; n < count; n++) {
        if (!inputs[n]) continue;
        const bool is_stdin = strcmp(inputs[n], "-") == 0;
        if ((is_stdin ? fstat(STDIN_FILENO, &in) : stat(inputs[n], &in)) != 0) continue;
        if (in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return cli_wrong("%s %s would replace what is read from %s, the same file", what, path,
                             is_stdin ? "standard input" : inputs[n]);
    }
    return CLI_DONE;
}
