/* The way of a tokenizer through files. */
#include "support/tokenizer_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_export.h"

foci_json *quoted_json(focal_ctx *ctx, const char *text)
{
    const size_t bytes = strlen(text);
    char *copy = new_array(bytes + 1, 1);
    foci_json *root = NULL;
    for (size_t n = 0; n < bytes; n++) copy[n] = (char)(text[n] == '\'' ? '"' : text[n]);
    assert_status(ctx, foci_json_parse(ctx, "t.json", copy, bytes, &root), FOCAL_OK);
    free(copy);
    return root;
}

focal_status write_gguf(focal_ctx *ctx, const folder *f, const foci_json *json,
                        const foci_json *config, int64_t vocab)
{
    foci_gguf_writer *writer = NULL;
    focal_status status = foci_gguf_writer_new(ctx, &writer);
    if (status == FOCAL_OK)
        status = foci_tokenizer_put_gguf(ctx, "t.json", json, config, vocab, writer);
    if (status == FOCAL_OK)
        status = foci_gguf_writer_commit(writer, folder_file(f, "t.gguf"), NULL, NULL);
    foci_gguf_writer_free(writer);
    return status;
}

static void put_ids(focal_ctx *ctx, foci_gguf_writer *writer, const foci_vocab_source *s)
{
    static const char *const keys[] = {"bos", "eos", "eot", "unknown", "padding"};
    const int64_t ids[] = {s->bos, s->eos, s->eot, s->unk, s->pad};
    static const char *const flags[] = {"add_bos_token", "add_eos_token", "add_space_prefix"};
    const int values[] = {s->add_bos, s->add_eos, s->add_space_prefix};
    char key[64];
    for (size_t n = 0; n < FOCAL_COUNT(ids); n++) {
        if (ids[n] < 0) continue;
        (void)snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", keys[n]);
        assert_status(ctx, foci_gguf_put_u32(writer, key, (uint32_t)ids[n]), FOCAL_OK);
    }
    for (size_t n = 0; n < FOCAL_COUNT(flags); n++) {
        if (values[n] < 0) continue;
        (void)snprintf(key, sizeof key, "tokenizer.ggml.%s", flags[n]);
        assert_status(ctx, foci_gguf_put_bool(writer, key, values[n] != 0), FOCAL_OK);
    }
}

void write_source(focal_ctx *ctx, const folder *f, const foci_vocab_source *s)
{
    foci_gguf_writer *w = NULL;
    int32_t *types = new_array((size_t)s->token_count, sizeof *types);
    for (int64_t n = 0; n < s->token_count && s->types; n++) types[n] = (int32_t)s->types[n];
    assert_status(ctx, foci_gguf_writer_new(ctx, &w), FOCAL_OK);
    assert_status(ctx, foci_gguf_put_text(w, "tokenizer.ggml.model", s->model), FOCAL_OK);
    if (s->pre.data)
        assert_status(ctx, foci_gguf_put_text(w, "tokenizer.ggml.pre", s->pre), FOCAL_OK);
    assert_status(ctx, foci_gguf_put_texts(w, "tokenizer.ggml.tokens", s->tokens, s->token_count),
                  FOCAL_OK);
    if (s->types)
        assert_status(ctx,
                      foci_gguf_put_i32s(w, "tokenizer.ggml.token_type", types, s->token_count),
                      FOCAL_OK);
    if (s->scores)
        assert_status(ctx,
                      foci_gguf_put_f32s(w, "tokenizer.ggml.scores", s->scores, s->token_count),
                      FOCAL_OK);
    if (s->merge_count > 0)
        assert_status(ctx,
                      foci_gguf_put_texts(w, "tokenizer.ggml.merges", s->merges, s->merge_count),
                      FOCAL_OK);
    put_ids(ctx, w, s);
    assert_status(ctx, foci_gguf_writer_commit(w, folder_file(f, "t.gguf"), NULL, NULL), FOCAL_OK);
    foci_gguf_writer_free(w);
    free(types);
}

focal_tokenizer *read_gguf(focal_ctx *ctx, const folder *f)
{
    foci_gguf *gguf = NULL;
    focal_tokenizer *tokenizer = NULL;
    assert_status(ctx, foci_gguf_open(ctx, folder_file(f, "t.gguf"), &gguf), FOCAL_OK);
    assert_status(ctx, foci_tokenizer_from_gguf(ctx, gguf, &tokenizer), FOCAL_OK);
    foci_gguf_close(gguf);
    return tokenizer;
}

focal_tokenizer *read_json(focal_ctx *ctx, const folder *f)
{
    foci_json *json = json_file(ctx, folder_file(f, "tokenizer.json"));
    foci_json *config = json_file(ctx, folder_file(f, "tokenizer_config.json"));
    focal_tokenizer *tokenizer = NULL;
    assert_status(ctx, foci_tokenizer_from_json(ctx, "tokenizer.json", json, config, &tokenizer),
                  FOCAL_OK);
    foci_json_free(json);
    foci_json_free(config);
    return tokenizer;
}

focal_status gguf_to_json(focal_ctx *ctx, const folder *f)
{
    foci_gguf *gguf = NULL;
    focal_status status = foci_gguf_open(ctx, folder_file(f, "t.gguf"), &gguf);
    if (status == FOCAL_OK) status = foci_tokenizer_write_json(ctx, gguf, f->path);
    foci_gguf_close(gguf);
    return status;
}

focal_status json_to_gguf(focal_ctx *ctx, const folder *f, int64_t vocab)
{
    foci_json *json = json_file(ctx, folder_file(f, "tokenizer.json"));
    foci_json *config = json_file(ctx, folder_file(f, "tokenizer_config.json"));
    const focal_status status = write_gguf(ctx, f, json, config, vocab);
    foci_json_free(json);
    foci_json_free(config);
    return status;
}
