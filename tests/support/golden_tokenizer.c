/* Opening the golden tokenizers, from their files and the way GGUF holds them. */
#include "support/golden_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "io/file.h"

enum { MOST_BYTES = 1 << 24 };

foci_json *json_file(focal_ctx *ctx, const char *path)
{
    char *data = NULL;
    size_t bytes = 0;
    foci_json *root = NULL;
    assert_status(ctx, foci_read_file(ctx, path, MOST_BYTES, &data, &bytes), FOCAL_OK);
    assert_status(ctx, foci_json_parse(ctx, path, data, bytes, &root), FOCAL_OK);
    foci_free(ctx, data);
    return root;
}

foci_json *golden_json(focal_ctx *ctx, const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/golden/tokenizers/%s.json", FOCAL_TEST_DIR, name);
    return json_file(ctx, path);
}

focal_tokenizer *golden_tokenizer(focal_ctx *ctx, const char *name)
{
    foci_json *root = golden_json(ctx, name);
    focal_tokenizer *tokenizer = NULL;
    const focal_status status = foci_tokenizer_from_json(ctx, name, root, NULL, &tokenizer);
    foci_json_free(root);
    assert_status(ctx, status, FOCAL_OK);
    return tokenizer;
}

static foci_text text_of(const foci_json *value)
{
    return (foci_text){foci_json_string(value), foci_json_length(value)};
}

/* tokens, scores and types as they stand in the file. */
static void fill_from_lists(golden_source *g, foci_text *tokens, int64_t *types, float *scores)
{
    foci_vocab_source *s = &g->source;
    const foci_json *list = foci_json_get(g->root, "tokens");
    s->token_count = foci_json_count(list);
    for (int64_t n = 0; n < s->token_count; n++) {
        tokens[n] = text_of(foci_json_at(list, n));
        types[n] = foci_json_int(foci_json_at(foci_json_get(g->root, "types"), n), -1);
        scores[n] = (float)foci_json_real(foci_json_at(foci_json_get(g->root, "scores"), n), 0);
    }
    s->model = (foci_text){"llama", 5};
    s->scores = scores;
    s->bos = 1;
    s->eos = 2;
    s->unk = 0;
}

static void fill_from_model(golden_source *g, foci_text *tokens, int64_t *types, char *merges,
                            foci_text *merge)
{
    foci_vocab_source *s = &g->source;
    const foci_json *model = foci_json_get(g->root, "model");
    const foci_json *added = foci_json_get(g->root, "added_tokens");
    foci_json_member member = {0};
    while (foci_json_next(foci_json_get(model, "vocab"), &member)) {
        const int64_t id = foci_json_int(member.value, -1);
        tokens[id] = (foci_text){member.key, member.key_length};
        types[id] = FOCAL_TOKEN_NORMAL;
        if (id >= s->token_count) s->token_count = id + 1;
    }
    for (int64_t n = 0; n < foci_json_count(added); n++)
        types[foci_json_int(foci_json_get(foci_json_at(added, n), "id"), -1)] = FOCAL_TOKEN_CONTROL;
    s->merge_count = foci_json_count(foci_json_get(model, "merges"));
    for (int64_t n = 0; n < s->merge_count; n++) {
        const foci_json *pair = foci_json_at(foci_json_get(model, "merges"), n);
        const size_t left = foci_json_length(foci_json_at(pair, 0));
        const size_t right = foci_json_length(foci_json_at(pair, 1));
        memcpy(merges, foci_json_string(foci_json_at(pair, 0)), left);
        merges[left] = ' ';
        memcpy(merges + left + 1, foci_json_string(foci_json_at(pair, 1)), right);
        merge[n] = (foci_text){merges, left + 1 + right};
        merges += left + 1 + right;
    }
    s->model = (foci_text){"gpt2", 4};
    s->merges = merge;
    s->bos = 0;
}

void golden_source_open(focal_ctx *ctx, const char *name, golden_source *out)
{
    enum { MOST = 4096, MOST_MERGE_BYTES = 1 << 16 };
    *out = (golden_source){.source = {.what = name,
                                      .bos = -1,
                                      .eos = -1,
                                      .eot = -1,
                                      .unk = -1,
                                      .pad = -1,
                                      .add_bos = -1,
                                      .add_eos = -1,
                                      .add_space_prefix = -1}};
    out->root = golden_json(ctx, name);
    foci_text *tokens = out->arrays[0] = new_array(MOST, sizeof *tokens);
    int64_t *types = out->arrays[1] = new_array(MOST, sizeof *types);
    float *scores = out->arrays[2] = new_array(MOST, sizeof *scores);
    char *merges = out->arrays[3] = new_array(MOST_MERGE_BYTES, 1);
    foci_text *merge = out->arrays[4] = new_array(MOST, sizeof *merge);
    if (foci_json_get(out->root, "tokens"))
        fill_from_lists(out, tokens, types, scores);
    else
        fill_from_model(out, tokens, types, merges, merge);
    out->source.tokens = tokens;
    out->source.types = types;
}

void golden_source_close(golden_source *source)
{
    for (size_t n = 0; n < FOCAL_COUNT(source->arrays); n++) free(source->arrays[n]);
    foci_json_free(source->root);
}

static void print_ids(const char *label, const int32_t *ids, int64_t count)
{
    print_error("%s", label);
    for (int64_t n = 0; n < count; n++) print_error(" %d", ids[n]);
    print_error("\n");
}

void assert_encodes(focal_ctx *ctx, const focal_tokenizer *tokenizer, const char *name,
                    const foci_json *text, unsigned flags, const foci_json *expected)
{
    focal_ids ids = {0};
    const int64_t count = foci_json_count(expected);
    int32_t *want = new_array((size_t)count + 1, sizeof *want);
    for (int64_t n = 0; n < count; n++)
        want[n] = (int32_t)foci_json_int(foci_json_at(expected, n), -1);
    assert_status(ctx,
                  focal_tokenizer_encode(ctx, tokenizer, foci_json_string(text),
                                         foci_json_length(text), flags, &ids),
                  FOCAL_OK);
    bool is_equal = ids.count == count;
    for (int64_t n = 0; is_equal && n < count; n++) is_equal = ids.ids[n] == want[n];
    if (!is_equal) {
        print_error("%s, flags %u: '%s'\n", name, flags, foci_json_string(text));
        print_ids("got ", ids.ids, ids.count);
        print_ids("want", want, count);
    }
    free(want);
    focal_ids_free(ctx, &ids);
    assert_true(is_equal);
}
