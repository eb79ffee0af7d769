/* -m MODEL: a path, or the name of a model that `focal pull` has fetched. */
#include "model_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

enum { PATH_BYTES = 4096 };

cli_option cli_model_option(model_choice *choice)
{
    return (cli_option){.name = "model",
                        .letter = 'm',
                        .kind = CLI_TEXT,
                        .target = &choice->name,
                        .value = "MODEL",
                        .help =
                            "a .gguf file, a Hugging Face directory, or a pulled name (smollm2)"};
}

cli_option cli_precision_option(model_choice *choice)
{
    return (cli_option){.name = "precision",
                        .kind = CLI_CHOICE,
                        .target = &choice->precision,
                        .value = "auto|f32|bf16",
                        .help = "arithmetic; auto: bf16 where the CPU has it, else f32",
                        .choices = "auto|f32|bf16"};
}

cli_option cli_cache_option(model_choice *choice)
{
    return (cli_option){.name = "cache-type",
                        .kind = CLI_CHOICE,
                        .target = &choice->cache_type,
                        .value = "auto|f32|bf16|q8_0",
                        .help = "how keys and values are kept; auto: as --precision",
                        .choices = "auto|f32|bf16|q8_0"};
}

focal_cache_options cli_cache_options(const model_choice *choice)
{
    static const focal_dtype types[] = {FOCAL_F32, FOCAL_F32, FOCAL_BF16, FOCAL_Q8_0};
    return (focal_cache_options){.dtype = types[choice->cache_type],
                                 .has_dtype = choice->cache_type > 0};
}

int cli_open_model(focal_ctx *ctx, const model_choice *choice, focal_model **model)
{
    char path[PATH_BYTES];
    const char *where = choice->name;
    if (!where) return cli_wrong("no model: say which with -m FILE.gguf, -m DIRECTORY or -m NAME");
    const pull_model *pulled = pull_find(where);
    struct stat info;
    if (pulled && stat(where, &info) != 0) {
        if (!pull_path(pulled, path, sizeof path))
            return cli_fail("no cache directory: set XDG_CACHE_HOME or HOME");
        if (stat(path, &info) != 0)
            return cli_fail("%s is not here yet; fetch it (%s) with: focal pull %s", pulled->name,
                            pulled->size, pulled->name);
        where = path;
    }
    const focal_model_options options = {
        .precision = choice->precision == 2 ? FOCAL_BF16 : FOCAL_F32,
        .has_precision = choice->precision > 0,
    };
    const focal_status status = focal_model_open(ctx, where, &options, model);
    return status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(ctx, status);
}

char *cli_read_text(const char *path, size_t *bytes)
{
    enum { STEP = 1 << 16 };
    const bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "rb");
    char *text = NULL;
    size_t used = 0, capacity = 0;
    *bytes = 0;
    if (!file) {
        (void)cli_fail("%s: %s", path, strerror(errno));
        return NULL;
    }
    for (;;) {
        if (capacity - used < STEP) {
            capacity = capacity ? 2 * capacity : STEP;
            char *more = realloc(text, capacity);
            if (!more) {
                (void)cli_fail("%s: no memory for %zu bytes", path, capacity);
                break;
            }
            text = more;
        }
        const size_t got = fread(text + used, 1, capacity - used - 1, file);
        used += got;
        if (got > 0) continue;
        if (!ferror(file)) { /* the end */
            if (!is_stdin) (void)fclose(file);
            text[used] = '\0';
            *bytes = used;
            return text;
        }
        (void)cli_fail("%s: %s", is_stdin ? "standard input" : path, strerror(errno));
        break;
    }
    if (!is_stdin) (void)fclose(file);
    free(text);
    return NULL;
}
