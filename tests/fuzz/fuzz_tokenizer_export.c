/* Bytes as a tokenizer.json, and behind a NUL a text for it: what can be written as GGUF must give
 * the ids of the original, and so must the tokenizer.json that is written from that. Bytes that
 * begin as a GGUF file does are one, and what is written from it must be JSON. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ctx.h"
#include "text/tokenizer.h"
#include "text/tokenizer_export.h"

enum { ALIGNMENT = 64, ROWS = 2000 };

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A folder and its three files; gone when the input is done with. */
typedef struct place {
    char folder[32], gguf[64], json[64], config[64];
} place;

static void make_place(place *p)
{
    /* In memory where that can be had: each file is synced. */
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(p->folder, sizeof p->folder, "%s/focal-fuzz-XXXXXX", parent);
    if (!mkdtemp(p->folder)) abort();
    (void)snprintf(p->gguf, sizeof p->gguf, "%s/t.gguf", p->folder);
    (void)snprintf(p->json, sizeof p->json, "%s/tokenizer.json", p->folder);
    (void)snprintf(p->config, sizeof p->config, "%s/tokenizer_config.json", p->folder);
}

static void remove_place(const place *p)
{
    (void)unlink(p->gguf);
    (void)unlink(p->json);
    (void)unlink(p->config);
    if (rmdir(p->folder) != 0) abort(); /* something else was left there */
}

static void check_status(const focal_ctx *ctx, focal_status status)
{
    if (status != FOCAL_OK && !*focal_ctx_error(ctx)) abort();
}

static foci_json *parse(focal_ctx *ctx, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    foci_json *root = NULL;
    if (foci_read_file(ctx, path, 1U << 28, &text, &bytes) != FOCAL_OK) abort();
    /* Jansson takes no NUL in a key, which is the one thing that may be wrong. */
    if (foci_json_parse(ctx, path, text, bytes, &root) != FOCAL_OK &&
        !memmem(text, bytes, "\\u0000", 6))
        abort();
    foci_free(ctx, text);
    return root;
}

static focal_tokenizer *read_gguf(focal_ctx *ctx, const place *p)
{
    foci_gguf *gguf = NULL;
    focal_tokenizer *tokenizer = NULL;
    if (foci_gguf_open(ctx, p->gguf, &gguf) != FOCAL_OK) abort();
    check_status(ctx, foci_tokenizer_from_gguf(ctx, gguf, &tokenizer));
    const focal_status status = foci_tokenizer_write_json(ctx, gguf, p->folder);
    check_status(ctx, status);
    foci_gguf_close(gguf);
    return tokenizer;
}

static focal_tokenizer *read_json(focal_ctx *ctx, const place *p)
{
    focal_tokenizer *tokenizer = NULL;
    if (access(p->config, F_OK) != 0) return NULL;
    foci_json *json = parse(ctx, p->json), *config = parse(ctx, p->config);
    if (json && config)
        check_status(ctx, foci_tokenizer_from_json(ctx, "json", json, config, &tokenizer));
    foci_json_free(json);
    foci_json_free(config);
    return tokenizer;
}

/* Where a file may part from what GGUF says: see tokenizer_export.h. */
static bool is_exact(const focal_tokenizer *t)
{
    for (int32_t n = 0; n < t->splitter.count; n++)
        if (t->splitter.steps[n].space_bytes > 0) return false;
    for (int32_t n = 0; n < t->normalizer.count; n++)
        if (t->normalizer.steps[n].kind == FOCI_NORMALIZE_FORM) return false;
    return !t->added.has_normalized || t->normalizer.count == 0;
}

static void compare(focal_ctx *ctx, const focal_tokenizer *a, const focal_tokenizer *b,
                    const char *text, size_t bytes)
{
    static const unsigned flags[] = {0, FOCAL_ENCODE_ADD_SPECIAL | FOCAL_ENCODE_PARSE_SPECIAL};
    for (size_t n = 0; a && b && n < 2; n++) {
        focal_ids x = {0}, y = {0};
        const focal_status p = focal_tokenizer_encode(ctx, a, text, bytes, flags[n], &x);
        const focal_status q = focal_tokenizer_encode(ctx, b, text, bytes, flags[n], &y);
        if (p == FOCAL_OK && q == FOCAL_OK &&
            (x.count != y.count ||
             (x.count > 0 && memcmp(x.ids, y.ids, (size_t)x.count * sizeof *x.ids) != 0)))
            abort();
        focal_ids_free(ctx, &x);
        focal_ids_free(ctx, &y);
    }
}

static void run_json(focal_ctx *ctx, const place *p, const foci_json *root, const char *text,
                     size_t bytes)
{
    foci_gguf_writer *writer = NULL;
    focal_tokenizer *a = NULL, *b = NULL, *c = NULL;
    if (foci_gguf_writer_new(ctx, &writer) != FOCAL_OK) abort();
    focal_status status = foci_tokenizer_put_gguf(ctx, "input", root, NULL, ROWS, writer);
    check_status(ctx, status);
    if (status == FOCAL_OK) status = foci_gguf_writer_commit(writer, p->gguf, NULL, NULL);
    foci_gguf_writer_free(writer);
    if (status != FOCAL_OK) return;
    if (foci_tokenizer_from_json(ctx, "input", root, NULL, &a) != FOCAL_OK) abort();
    b = read_gguf(ctx, p);
    if (b) c = read_json(ctx, p);
    if (is_exact(a)) compare(ctx, a, b, text, bytes);
    compare(ctx, b, c, text, bytes);
    focal_tokenizer_free(a);
    focal_tokenizer_free(b);
    focal_tokenizer_free(c);
}

static void run_gguf(focal_ctx *ctx, const place *p, const uint8_t *data, size_t size)
{
    foci_gguf *gguf = NULL;
    void *copy = aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (!copy) abort();
    memcpy(copy, data, size);
    const foci_map map = {copy, size};
    if (foci_gguf_from_memory(ctx, "input", &map, 1, &gguf) == FOCAL_OK) {
        check_status(ctx, foci_tokenizer_write_json(ctx, gguf, p->folder));
        focal_tokenizer_free(read_json(ctx, p));
    }
    foci_gguf_close(gguf);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    focal_ctx *ctx = NULL;
    foci_json *root = NULL;
    place p;
    const focal_ctx_options options = {.threads = 1};
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    const size_t bytes = end ? (size_t)(end - data) : size;
    if (focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) abort();
    make_place(&p);
    if (size >= 4 && memcmp(data, "GGUF", 4) == 0)
        run_gguf(ctx, &p, data, size);
    else if (foci_json_parse(ctx, "input", (const char *)data, bytes, &root) == FOCAL_OK)
        run_json(ctx, &p, root, end ? (const char *)end + 1 : "", end ? size - bytes - 1 : 0);
    foci_json_free(root);
    remove_place(&p);
    focal_ctx_trim(ctx);
    if (focal_ctx_memory(ctx).now_bytes > 0) abort();
    focal_ctx_close(ctx);
    return 0;
}
