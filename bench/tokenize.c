/* Tokenizes a file with a model's tokenizer and prints how fast: bench/versus/tokenizer.py runs it
 * beside the tokenizers package. Usage: focal-bench-tokenize MODEL TEXT [REPEATS [IDS]]; MODEL is a
 * .gguf or a tokenizer.json, IDS a file that gets the ids as int32. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/file.h"
#include "text/tokenizer.h"

enum { MOST_JSON = 1 << 28 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static focal_status open_json(focal_ctx *ctx, const char *path, focal_tokenizer **out)
{
    char *data = NULL;
    size_t bytes = 0;
    foci_json *root = NULL;
    focal_status status = foci_read_file(ctx, path, MOST_JSON, &data, &bytes);
    if (status == FOCAL_OK) status = foci_json_parse(ctx, path, data, bytes, &root);
    if (status == FOCAL_OK) {
        const double begin = seconds();
        status = foci_tokenizer_from_json(ctx, path, root, NULL, out);
        (void)printf("load_ms %.2f\n", 1e3 * (seconds() - begin));
    }
    foci_json_free(root);
    foci_free(ctx, data);
    return status;
}

static focal_status open_gguf(focal_ctx *ctx, const char *path, focal_tokenizer **out)
{
    foci_gguf *gguf = NULL;
    focal_status status = foci_gguf_open(ctx, path, &gguf);
    if (status == FOCAL_OK) {
        const double begin = seconds();
        status = foci_tokenizer_from_gguf(ctx, gguf, out);
        (void)printf("load_ms %.2f\n", 1e3 * (seconds() - begin));
    }
    foci_gguf_close(gguf);
    return status;
}

static bool write_ids(const char *path, const focal_ids *ids)
{
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    const size_t written = fwrite(ids->ids, sizeof *ids->ids, (size_t)ids->count, file);
    return fclose(file) == 0 && written == (size_t)ids->count;
}

/* The best of the repeats; the ids of the last one stay in *ids. */
static focal_status measure(focal_ctx *ctx, const focal_tokenizer *tokenizer, foci_map text,
                            int repeats, focal_ids *ids)
{
    double best = 1e9;
    for (int n = 0; n < repeats; n++) {
        focal_ids_free(ctx, ids);
        const double begin = seconds();
        FOCAL_TRY(
            focal_tokenizer_encode(ctx, tokenizer, (const char *)text.data, text.bytes, 0, ids));
        const double took = seconds() - begin;
        if (took < best) best = took;
    }
    (void)printf("ids %lld\nseconds %.6f\nMB/s %.2f\npeak_bytes %zu\n", (long long)ids->count, best,
                 (double)text.bytes / best / 1e6, focal_ctx_memory(ctx).peak_bytes);
    return FOCAL_OK;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 5) {
        (void)fprintf(stderr, "usage: %s MODEL TEXT [REPEATS [IDS]]\n", argv[0]);
        return 2;
    }
    focal_ctx *ctx = NULL;
    focal_tokenizer *tokenizer = NULL;
    foci_map text = {0};
    focal_ids ids = {0};
    const focal_ctx_options options = {.threads = 1};
    if (focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) return 1;
    const size_t name = strlen(argv[1]);
    const bool is_gguf = name > 5 && strcmp(argv[1] + name - 5, ".gguf") == 0;
    focal_status status =
        is_gguf ? open_gguf(ctx, argv[1], &tokenizer) : open_json(ctx, argv[1], &tokenizer);
    if (status == FOCAL_OK) status = foci_map_open(ctx, argv[2], &text);
    if (status == FOCAL_OK)
        status = measure(ctx, tokenizer, text, argc > 3 ? atoi(argv[3]) : 5, &ids);
    if (status != FOCAL_OK) (void)fprintf(stderr, "%s\n", focal_ctx_error(ctx));
    bool is_written = true;
    if (status == FOCAL_OK && argc > 4) is_written = write_ids(argv[4], &ids);
    foci_map_close(&text);
    focal_ids_free(ctx, &ids);
    focal_tokenizer_free(tokenizer);
    focal_ctx_close(ctx);
    return status == FOCAL_OK && is_written ? 0 : 1;
}
