/* A tokenizer from a file of its own, tokenizer.json. */
#include <string.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/file.h"
#include "text/tokenizer.h"

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

/* tokenizer_config.json beside the file; *root stays NULL when there is none. */
static focal_status read_config(focal_ctx *ctx, const char *path, foci_json **root)
{
    const char *slash = strrchr(path, '/');
    char *beside = slash
                       ? foci_path_join(ctx, path, (size_t)(slash - path), "tokenizer_config.json")
                       : foci_path_join(ctx, ".", 1, "tokenizer_config.json");
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
    foci_json_free(config);
    foci_json_free(root);
    return status;
}
