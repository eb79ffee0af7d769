/* -m MODEL: a path, or the name of a model that `focal pull` has fetched. */
#include "model_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

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
                        .help = "arithmetic; auto: bf16 where the CPU has AVX2 or more, else f32",
                        .choices = "auto|f32|bf16"};
}

int cli_model_path(const char *name, char *path, size_t bytes)
{
    const pull_model *pulled = pull_find(name);
    struct stat info;
    if (!pulled || stat(name, &info) == 0) {
        if ((size_t)snprintf(path, bytes, "%s", name) < bytes) return CLI_DONE;
        return cli_fail("a path of %zu bytes, at most %zu can be", strlen(name), bytes - 1);
    }
    if (!pull_path(pulled, path, bytes))
        return cli_fail("no cache directory: set XDG_CACHE_HOME or HOME");
    if (stat(path, &info) == 0) return CLI_DONE;
    return cli_fail("%s is not here yet; fetch it (%s) with: focal pull %s", pulled->name,
                    pulled->size, pulled->name);
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

int cli_cache_type(const char *command, const char *name, model_choice *choice)
{
    static const char *const names[] = {"auto", "f32", "bf16", "q8_0"};
    for (size_t n = 0; n < CLI_COUNT(names); n++) {
        if (strcmp(names[n], name) != 0) continue;
        choice->cache_type = (int32_t)n;
        return -1;
    }
    return cli_wrong("%s: a cache of type '%s', there is auto, f32, bf16 and q8_0", command, name);
}

focal_cache_options cli_cache_options(const model_choice *choice)
{
    static const focal_dtype types[] = {FOCAL_F32, FOCAL_F32, FOCAL_BF16, FOCAL_Q8_0};
    return (focal_cache_options){.dtype = types[choice->cache_type],
                                 .has_dtype = choice->cache_type > 0};
}

int cli_open_model(focal_ctx *ctx, const model_choice *choice, focal_model **model)
{
    char path[CLI_PATH_BYTES];
    if (!choice->name)
        return cli_wrong("no model: say which with -m FILE.gguf, -m DIRECTORY or -m NAME");
    const int code = cli_model_path(choice->name, path, sizeof path);
    if (code != CLI_DONE) return code;
    const focal_model_options options = {
        .precision = choice->precision == 2 ? FOCAL_BF16 : FOCAL_F32,
        .has_precision = choice->precision > 0,
    };
    const focal_status status = focal_model_open(ctx, path, &options, model);
    return status == FOCAL_OK ? adapter_attach(ctx, &choice->adapter, *model)
                              : cli_fail_ctx(ctx, status);
}

cli_option cli_load_option(model_choice *choice)
{
    return (cli_option){.name = "load",
                        .kind = CLI_CHOICE,
                        .target = &choice->loads,
                        .value = "auto|yes|no",
                        .help =
                            "copy the weights into memory: decoding is faster; auto: when twice\n"
                            "                              their size is free",
                        .choices = "auto|yes|no"};
}

/* Bytes that could be taken without others losing theirs; 0: unknown. */
static double free_bytes(void)
{
    static const char name[] = "MemAvailable:";
    char line[256];
    double kilobytes = 0.0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && kilobytes == 0.0 && fgets(line, sizeof line, file))
        if (strncmp(line, name, sizeof name - 1) == 0)
            kilobytes = strtod(line + sizeof name - 1, NULL);
    if (file) (void)fclose(file);
    return 1024.0 * kilobytes;
}

void cli_load_model(focal_model *model, const model_choice *choice)
{
    const double bytes = (double)focal_model_describe(model).weight_bytes;
    if (choice->loads == 2 || (choice->loads == 0 && free_bytes() < 2.0 * bytes)) return;
    if (!focal_model_load(model) && choice->loads == 1)
        (void)fprintf(stderr,
                      "focal: some weights stay in the mapped file: there is no memory for them\n");
}

void cli_warn_context(const focal_model *model, int64_t context)
{
    const int32_t made_for = focal_model_describe(model).context;
    if (context > made_for)
        (void)fprintf(stderr,
                      "focal: a context of %lld tokens, the model was made for %d: what it makes "
                      "of more may be no sense\n",
                      (long long)context, made_for);
}

void cli_warn_lost(const focal_tokenizer *tokenizer, const char *text, size_t bytes)
{
    const int64_t lost = focal_tokenizer_lost(tokenizer, text, bytes);
    if (lost > 0)
        (void)fprintf(
            stderr,
            "focal: %lld byte%s of the text %s no token in this model's vocabulary and %s "
            "left out\n",
            (long long)lost, lost == 1 ? "" : "s", lost == 1 ? "has" : "have",
            lost == 1 ? "is" : "are");
}

/* All of a stream, or NULL after saying why not. */
static char *read_stream(FILE *file, const char *name, size_t limit, size_t *bytes)
{
    enum { STEP = 1 << 16 };
    char *text = NULL;
    size_t used = 0, capacity = 0;
    struct stat info;
    if (fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode) && info.st_size > (off_t)limit)
        used = limit + 1; /* known before the first byte is read */
    while (used <= limit) {
        if (capacity - used < STEP) {
            capacity = capacity ? 2 * capacity : STEP;
            char *more = realloc(text, capacity);
            if (!more) {
                (void)cli_fail("%s: no memory for %zu bytes", name, capacity);
                break;
            }
            text = more;
        }
        const size_t got = fread(text + used, 1, capacity - used - 1, file);
        used += got;
        if (got > 0 && !feof(file)) continue; /* a terminal must not be asked behind its end */
        if (ferror(file)) {
            (void)cli_fail("%s: %s", name, strerror(errno));
            break;
        }
        if (used > limit) break;
        text[used] = '\0';
        *bytes = used;
        return text;
    }
    if (used > limit)
        (void)cli_fail("%s: more than %zu MiB of text, which is the most that is read", name,
                       limit >> 20);
    free(text);
    return NULL;
}

char *cli_read_text(const char *path, size_t limit, size_t *bytes)
{
    *bytes = 0;
    if (strcmp(path, "-") == 0) return read_stream(stdin, "standard input", limit, bytes);
    FILE *file = fopen(path, "rb");
    if (!file) {
        (void)cli_fail("%s: %s", path, strerror(errno));
        return NULL;
    }
    char *text = read_stream(file, path, limit, bytes);
    (void)fclose(file);
    return text;
}

char *cli_read_language(const char *path, size_t limit, size_t *bytes)
{
    char *text = cli_read_text(path, limit, bytes);
    if (!text || !memchr(text, '\0', *bytes)) return text;
    (void)cli_fail("%s: has a NUL byte, so it is no text", path);
    free(text);
    return NULL;
}
