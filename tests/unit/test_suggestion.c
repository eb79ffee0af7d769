/* What a model's files suggest: both formats, the ends of texts, and what is refused. */
#include "support/golden_tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "model/suggestion.h"
#include "support/folder.h"

enum { V = 420 };

static focal_status read_json(focal_ctx *ctx, const char *text, focal_tokenizer *t,
                              focal_suggestion *out)
{
    foci_json *root = NULL;
    assert_status(ctx, foci_json_parse(ctx, "g.json", text, strlen(text), &root), FOCAL_OK);
    const focal_status status = foci_suggestion_from_json(ctx, "g.json", root, V, t, out);
    foci_json_free(root);
    return status;
}

static void assert_near(float got, double expected)
{
    assert_true((double)got > expected - 1e-6 && (double)got < expected + 1e-6);
}

static void json_is_read(void **state)
{
    focal_ctx *ctx = *state;
    focal_suggestion s;
    assert_status(ctx,
                  read_json(ctx,
                            "{\"temperature\": 0.6, \"top_k\": 20, \"top_p\": 1, \"min_p\": 0.1, "
                            "\"repetition_penalty\": 1.05, \"do_sample\": true, \"other\": {}}",
                            NULL, &s),
                  FOCAL_OK);
    assert_true(s.has_temperature && s.has_top_k && s.has_top_p && s.has_min_p &&
                s.has_repeat_penalty);
    assert_near(s.temperature, 0.6);
    assert_int_equal(s.top_k, 20);
    assert_near(s.top_p, 1.0);
    assert_near(s.min_p, 0.1);
    assert_near(s.repeat_penalty, 1.05);
    assert_status(ctx, read_json(ctx, "{\"temperature\": null, \"do_sample\": null}", NULL, &s),
                  FOCAL_OK);
    assert_false(s.has_temperature || s.has_top_k || s.has_top_p || s.has_min_p ||
                 s.has_repeat_penalty);
    assert_status(ctx, read_json(ctx, "{\"temperature\": 0.6, \"do_sample\": false}", NULL, &s),
                  FOCAL_OK);
    assert_true(s.has_temperature);
    assert_near(s.temperature, 0.0);
    /* A directory without the file suggests nothing. */
    assert_status(ctx, foci_suggestion_from_json(ctx, "g.json", NULL, V, NULL, &s), FOCAL_OK);
    assert_false(s.has_temperature);
}

static void ends_join_the_tokenizer(void **state)
{
    focal_ctx *ctx = *state;
    focal_suggestion s;
    focal_tokenizer *t = golden_tokenizer(ctx, "gpt2");
    assert_false(focal_tokenizer_is_end(t, 7));
    assert_status(ctx, read_json(ctx, "{\"eos_token_id\": 7}", t, &s), FOCAL_OK);
    assert_true(focal_tokenizer_is_end(t, 7));
    assert_status(ctx, read_json(ctx, "{\"eos_token_id\": [8, 7, 419]}", t, &s), FOCAL_OK);
    assert_true(focal_tokenizer_is_end(t, 8) && focal_tokenizer_is_end(t, 419));
    assert_false(focal_tokenizer_is_end(t, 9));
    char many[512] = "{\"eos_token_id\": [20";
    size_t used = strlen(many);
    for (int n = 21; n < 60; n++)
        used += (size_t)snprintf(many + used, sizeof many - used, ", %d", n);
    (void)snprintf(many + used, sizeof many - used, "]}");
    assert_status(ctx, read_json(ctx, many, t, &s), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx),
                        "g.json: 'eos_token_id' makes more than 32 end tokens");
    focal_tokenizer_free(t);
}

static void bad_values_are_told(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *json, *message;
    } rows[] = {
        {"{\"temperature\": -1}", "g.json: 'temperature' is -1, 0 to 100 are accepted"},
        {"{\"temperature\": \"hot\"}", "g.json: 'temperature' must be a number"},
        {"{\"temperature\": true}", "g.json: 'temperature' must be a number"},
        {"{\"top_k\": 2.5}", "g.json: 'top_k' must be an integer"},
        {"{\"top_k\": 4194305}", "g.json: 'top_k' is 4194305, 0 to 4194304 are accepted"},
        {"{\"top_p\": 1.5}", "g.json: 'top_p' is 1.5, 0 to 1 are accepted"},
        {"{\"min_p\": -0.5}", "g.json: 'min_p' is -0.5, 0 to 1 are accepted"},
        {"{\"repetition_penalty\": 0}",
         "g.json: 'repetition_penalty' is 0, 0.01 to 100 are accepted"},
        {"{\"do_sample\": 1}", "g.json: 'do_sample' must be true or false"},
        {"{\"eos_token_id\": \"</s>\"}", "g.json: 'eos_token_id' must be an id or a list of ids"},
        {"{\"eos_token_id\": [1, null]}", "g.json: 'eos_token_id' must be an id or a list of ids"},
        {"{\"eos_token_id\": 420}", "g.json: 'eos_token_id' is 420, the vocabulary ends at 420"},
        {"{\"eos_token_id\": [1, -1]}", "g.json: 'eos_token_id' is -1, the vocabulary ends at 420"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        focal_suggestion s;
        assert_status(ctx, read_json(ctx, rows[n].json, NULL, &s), FOCAL_EFORMAT);
        assert_string_equal(focal_ctx_error(ctx), rows[n].message);
    }
}

/* A file with these keys and no tensors. */
static foci_gguf *keys_file(focal_ctx *ctx, const char *path, float temperature, uint32_t top_k)
{
    foci_gguf_writer *w = NULL;
    foci_gguf *gguf = NULL;
    assert_status(ctx, foci_gguf_writer_new(ctx, &w), FOCAL_OK);
    assert_status(ctx, foci_gguf_put_f32(w, "general.sampling.temp", temperature), FOCAL_OK);
    assert_status(ctx, foci_gguf_put_u32(w, "general.sampling.top_k", top_k), FOCAL_OK);
    assert_status(ctx, foci_gguf_put_f32(w, "general.sampling.penalty_repeat", 1.25F), FOCAL_OK);
    assert_status(ctx, foci_gguf_writer_commit(w, path, NULL, NULL), FOCAL_OK);
    foci_gguf_writer_free(w);
    assert_status(ctx, foci_gguf_open(ctx, path, &gguf), FOCAL_OK);
    return gguf;
}

static void gguf_is_read(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    focal_suggestion s;
    foci_gguf *gguf = keys_file(ctx, folder_file(&f, "a.gguf"), 0.5F, 30);
    assert_status(ctx, foci_suggestion_from_gguf(ctx, gguf, &s), FOCAL_OK);
    assert_true(s.has_temperature && s.has_top_k && s.has_repeat_penalty);
    assert_false(s.has_top_p || s.has_min_p);
    assert_near(s.temperature, 0.5);
    assert_int_equal(s.top_k, 30);
    assert_near(s.repeat_penalty, 1.25);
    foci_gguf_close(gguf);
    gguf = keys_file(ctx, folder_file(&f, "b.gguf"), 101.0F, 30);
    assert_status(ctx, foci_suggestion_from_gguf(ctx, gguf, &s), FOCAL_EFORMAT);
    assert_non_null(strstr(focal_ctx_error(ctx),
                           "b.gguf: 'general.sampling.temp' is 101, 0 to 100 are accepted"));
    foci_gguf_close(gguf);
    gguf = keys_file(ctx, folder_file(&f, "c.gguf"), 1.0F, 1U << 30);
    assert_status(ctx, foci_suggestion_from_gguf(ctx, gguf, &s), FOCAL_EFORMAT);
    assert_non_null(strstr(focal_ctx_error(ctx), "'general.sampling.top_k' is"));
    foci_gguf_close(gguf);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(json_is_read, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(ends_join_the_tokenizer, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_values_are_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(gguf_is_read, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("suggestion", tests, NULL, NULL);
}
