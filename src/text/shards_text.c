/* What a folder of shards holds, for who only has its name. */
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "focal/corpus.h"
#include "io/file.h"
#include "io/shards.h"

focal_status focal_shards_describe(focal_ctx *ctx, const char *folder, focal_shards_info *info)
{
    foci_shards *shards = NULL;
    *info = (focal_shards_info){0};
    FOCAL_TRY(foci_shards_open(ctx, folder, false, &shards));
    const foci_shards_info all = foci_shards_describe(shards);
    *info = (focal_shards_info){.tokens = all.token_count,
                                .documents = all.document_count,
                                .vocab = all.vocab,
                                .shards = all.shard_count};
    foci_shards_close(shards);
    return FOCAL_OK;
}

static focal_status read_ids(focal_ctx *ctx, const char *folder, int64_t begin, int64_t count,
                             int32_t **ids)
{
    foci_shards *shards = NULL;
    FOCAL_TRY(foci_shards_open(ctx, folder, false, &shards));
    const foci_shards_info all = foci_shards_describe(shards);
    focal_status status = FOCAL_OK;
    if (begin < 0 || count < 0 || begin > all.token_count || count > all.token_count - begin)
        status = foci_fail(ctx, FOCAL_EINVAL, "%s: %lld tokens from token %lld on, there are %lld",
                           folder, (long long)count, (long long)begin, (long long)all.token_count);
    if (status == FOCAL_OK) {
        *ids = foci_alloc(ctx, (size_t)count, sizeof **ids);
        status = *ids ? foci_shards_read(shards, begin, count, *ids) : FOCAL_ENOMEM;
    }
    foci_shards_close(shards);
    return status;
}

focal_status focal_shards_text(focal_ctx *ctx, const char *folder, int64_t begin, int64_t count,
                               focal_buffer *out)
{
    focal_tokenizer *tokenizer = NULL;
    int32_t *ids = NULL;
    char *path = foci_path_join(ctx, folder, strlen(folder), "tokenizer.json");
    focal_status status = path ? read_ids(ctx, folder, begin, count, &ids) : FOCAL_ENOMEM;
    if (status == FOCAL_OK) status = focal_tokenizer_open(ctx, path, &tokenizer);
    if (status == FOCAL_OK)
        status = focal_tokenizer_decode(ctx, tokenizer, ids, count, FOCAL_DECODE_SKIP_SPECIAL, out);
    focal_tokenizer_free(tokenizer);
    foci_free(ctx, ids);
    foci_free(ctx, path);
    return status;
}
