/* A tokenizer from a file of its own, tokenizer.json, and its files into another folder. */
#include <string.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/file.h"
#include "text/tokenizer.h"
#include "text/tokenizer_export.h"

enum { TOKENIZER_BYTES = 256 << 20, CONFIG_BYTES = 16 << 20 };

static focal_status read_json_file(focal_ctx *ctx, const char *path, size_t limit, foci_json **root)
{
    char *text = NULL;
    size_t bytes = 0;
    *root = NULL;
    FOCAL_TRY(foci_read_file(ctx, path, limit, &text, &bytes));
    const focal_status status = foci_json_parse(ctx, path, text, bytes, root);
    foci_free(ctx, text);
    return status;
}

static const char config_name[] = "tokenizer_config.json";

/* The path of a file in the same folder; NULL without memory. */
static char *path_beside(focal_ctx *ctx, const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return slash ? foci_path_join(ctx, path, (size_t)(slash - path), name)
                 : foci_path_join(ctx, ".", 1, name);
}

/* tokenizer_config.json beside the file; *root stays NULL when there is none. */
static focal_status read_config(focal_ctx *ctx, const char *path, foci_json **root)
{
    char *beside = path_beside(ctx, path, config_name);
    if (!beside) return FOCAL_ENOMEM;
    focal_status status = FOCAL_OK;
    if (access(beside, F_OK) == 0) status = read_json_file(ctx, beside, CONFIG_BYTES, root);
    foci_free(ctx, beside);
    return status;
}

focal_status focal_tokenizer_open(focal_ctx *ctx, const char *path, focal_tokenizer **tokenizer)
{
    foci_json *root = NULL, *config = NULL;
    *tokenizer = NULL;
    focal_status status = read_json_file(ctx, path, TOKENIZER_BYTES, &root);
    if (status == FOCAL_OK) status = read_config(ctx, path, &config);
    if (status == FOCAL_OK) status = foci_tokenizer_from_json(ctx, path, root, config, tokenizer);
    if (status == FOCAL_OK) status = foci_tokenizer_set_origin(*tokenizer, path, false);
    foci_json_free(config);
    foci_json_free(root);
    if (status != FOCAL_OK) {
        focal_tokenizer_free(*tokenizer);
        *tokenizer = NULL;
    }
    return status;
}

static focal_status write_from_gguf(focal_ctx *ctx, const char *path, const char *folder)
{
    foci_gguf *gguf = NULL;
    FOCAL_TRY(foci_gguf_open(ctx, path, &gguf));
    const focal_status status = foci_tokenizer_write_json(ctx, gguf, folder);
    foci_gguf_close(gguf);
    return status;
}

static focal_status copy_into(focal_ctx *ctx, const char *from, const char *folder,
                              const char *name)
{
    char *to = foci_path_join(ctx, folder, strlen(folder), name);
    const focal_status status = from && to ? foci_copy_file(ctx, from, to) : FOCAL_ENOMEM;
    foci_free(ctx, to);
    return status;
}

focal_status foci_tokenizer_write_folder(focal_ctx *ctx, const focal_tokenizer *tokenizer,
                                         const char *folder)
{
    const char *path = tokenizer->origin;
    if (!path) return FOCAL_OK;
    if (tokenizer->origin_is_gguf) return write_from_gguf(ctx, path, folder);
    FOCAL_TRY(copy_into(ctx, path, folder, "tokenizer.json"));
    char *config = path_beside(ctx, path, config_name);
    focal_status status = config ? FOCAL_OK : FOCAL_ENOMEM;
    if (status == FOCAL_OK && access(config, F_OK) == 0)
        status = copy_into(ctx, config, folder, config_name);
    foci_free(ctx, config);
    return status;
}
