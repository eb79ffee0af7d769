/* What is measured of an adapter's groups: every setting against perplexity of the same setting,
 * sizes and tokens against plain counts, and the file against what its reader makes of it. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/group_eval.h"
#include "report/fits_read.h"
#include "support/folder.h"

enum { TEXTS = 2, FIRST = 96, SECOND = 60, CONTEXT = 80, VOCAB = 96 };
static const char model_path[] = FOCAL_TEST_DIR "/golden/models/tiny.gguf";
static const char adapter_path[] = FOCAL_TEST_DIR "/golden/adapters/tiny";

typedef struct rig {
    focal_ctx *ctx;
    focal_model *model;
    focal_adapter *adapter;
    int32_t ids[TEXTS][FIRST];
    focal_group_text texts[TEXTS];
    focal_group_args args;
    int64_t readings;
} rig;

static void on_reading(void *user, int64_t done, int64_t of)
{
    rig *r = user;
    assert_int_equal(done, ++r->readings);
    assert_true(done <= of);
}

static void open_rig(focal_ctx *ctx, const char *adapter, rig *r)
{
    const focal_model_options options = {FOCAL_F32, true};
    *r = (rig){.ctx = ctx};
    assert_status(ctx, focal_model_open(ctx, model_path, &options, &r->model), FOCAL_OK);
    assert_status(ctx, focal_adapter_open(ctx, adapter, &r->adapter), FOCAL_OK);
    for (int t = 0; t < TEXTS; t++)
        for (int n = 0; n < FIRST; n++) r->ids[t][n] = (n * n * (t + 3) + 11) % VOCAB;
    r->texts[0] = (focal_group_text){"a \"first\" <text>", r->ids[0], FIRST};
    r->texts[1] = (focal_group_text){"\xFF"
                                     "second",
                                     r->ids[1], SECOND};
    r->args = (focal_group_args){.texts = r->texts,
                                 .text_count = TEXTS,
                                 .context = CONTEXT,
                                 .batch = 32,
                                 .on_reading = on_reading,
                                 .user = r};
}

static void close_rig(rig *r)
{
    focal_adapter_close(r->adapter);
    focal_model_close(r->model);
}

/* The loss of one text with the adapter attached as the setting says. */
static double plain_loss(rig *r, const focal_group_setting *s, int text)
{
    const focal_attach_options options = {.top = s->top,
                                          .has_no_distant =
                                              s->kind == FOCAL_GROUP_TOP && s->top == 0,
                                          .has_no_groups = s->kind == FOCAL_GROUP_TEMPERATURES};
    const focal_adapter *adapter = s->kind == FOCAL_GROUP_DENSE ? NULL : r->adapter;
    const bool is_bare = s->kind == FOCAL_GROUP_ADAPTER;
    assert_status(r->ctx, focal_model_attach(r->model, adapter, is_bare ? NULL : &options),
                  FOCAL_OK);
    const int64_t count = r->texts[text].count < CONTEXT ? r->texts[text].count : CONTEXT;
    const focal_ppl_args args = {
        .ids = r->texts[text].ids, .count = count, .context = CONTEXT, .batch = 32};
    focal_ppl_result result;
    assert_status(r->ctx, focal_ppl(r->model, &args, &result), FOCAL_OK);
    assert_status(r->ctx, focal_model_attach(r->model, NULL, NULL), FOCAL_OK);
    return result.loss;
}

static void check_losses(rig *r, const focal_group_eval *eval)
{
    const focal_group_setting *s;
    for (int32_t n = 0; (s = focal_group_eval_at(eval, n)) != NULL; n++) {
        const double first = plain_loss(r, s, 0), second = plain_loss(r, s, 1);
        const double mean =
            (first * (CONTEXT - 1) + second * (SECOND - 1)) / (CONTEXT + SECOND - 2);
        assert_true(fabs(s->losses[0] - first) < 1e-9);
        assert_true(fabs(s->losses[1] - second) < 1e-9);
        assert_true(fabs(s->loss - mean) < 1e-9);
    }
}

/* Losses of the model as it is that are given are taken, and not measured again. */
static void dense_is_read_once(void **state)
{
    rig r;
    focal_group_eval *eval = NULL;
    open_rig(*state, adapter_path, &r);
    const double dense[TEXTS] = {2.0, 3.0};
    r.args.dense = dense;
    assert_status(r.ctx, focal_group_eval_new(r.model, r.adapter, &r.args, &eval), FOCAL_OK);
    const focal_group_setting *s = focal_group_eval_at(eval, 0);
    assert_int_equal(s->kind, FOCAL_GROUP_DENSE);
    assert_memory_equal(s->losses, dense, sizeof dense);
    const double mean = (2.0 * (CONTEXT - 1) + 3.0 * (SECOND - 1)) / (CONTEXT + SECOND - 2);
    assert_true(fabs(s->loss - mean) < 1e-12);
    assert_true(s->kept == 1.0);
    int32_t count = 1;
    for (; (s = focal_group_eval_at(eval, count)) != NULL; count++)
        assert_true(fabs(s->losses[1] - plain_loss(&r, s, 1)) < 1e-9);
    assert_int_equal(r.readings, (int64_t)(count - 1) * TEXTS);
    focal_group_eval_free(eval);
    const double bad[TEXTS] = {2.0, (double)NAN};
    r.args.dense = bad;
    assert_status(r.ctx, focal_group_eval_new(r.model, r.adapter, &r.args, &eval), FOCAL_EINVAL);
    assert_null(eval);
    close_rig(&r);
}

static void settings_are_those_of_perplexity(void **state)
{
    rig r;
    focal_group_eval *eval = NULL;
    open_rig(*state, adapter_path, &r);
    r.args.rounds = 2;
    assert_status(r.ctx, focal_group_eval_new(r.model, r.adapter, &r.args, &eval), FOCAL_OK);
    static const struct {
        focal_group_kind kind;
        int32_t top;
    } want[] = {{FOCAL_GROUP_DENSE, 0}, {FOCAL_GROUP_TOP, 0}, {FOCAL_GROUP_TOP, 1},
                {FOCAL_GROUP_TOP, 2},   {FOCAL_GROUP_TOP, 4}, {FOCAL_GROUP_TEMPERATURES, 0}};
    double before = -1.0;
    for (int32_t n = 0; n < (int32_t)FOCAL_COUNT(want); n++) {
        const focal_group_setting *s = focal_group_eval_at(eval, n);
        assert_non_null(s);
        assert_int_equal(s->kind, want[n].kind);
        assert_int_equal(s->top, want[n].top);
        assert_true(s->speed > 0.0);
        if (s->kind == FOCAL_GROUP_TOP) {
            assert_true(s->kept > before);
            before = s->kept;
            if (s->top == 0) assert_true(s->kept == 0.0);
            if (s->top == 4) assert_true(s->kept == 1.0);
        } else {
            assert_true(s->kept == 1.0);
        }
    }
    assert_string_equal(eval->cache_type, "f32"); /* as the precision: none was asked for */
    assert_null(focal_group_eval_at(eval, FOCAL_COUNT(want)));
    assert_null(focal_group_eval_at(eval, -1));
    assert_int_equal(r.readings, (int64_t)FOCAL_COUNT(want) * (TEXTS + 2));
    check_losses(&r, eval);
    /* Groups change something, so that equal losses are no accident. */
    assert_true(fabs(focal_group_eval_at(eval, 2)->loss - focal_group_eval_at(eval, 0)->loss) >
                1e-4);
    focal_group_eval_free(eval);
    close_rig(&r);
}

static void adapters_without_routers_have_one_setting(void **state)
{
    rig r;
    focal_group_eval *eval = NULL;
    const int32_t one = 1;
    open_rig(*state, FOCAL_TEST_DIR "/golden/adapters/lora-tiny", &r);
    r.args.tops = &one; /* for other adapters of the same call */
    r.args.top_count = 1;
    assert_status(r.ctx, focal_group_eval_new(r.model, r.adapter, &r.args, &eval), FOCAL_OK);
    assert_int_equal(focal_group_eval_at(eval, 0)->kind, FOCAL_GROUP_DENSE);
    assert_int_equal(focal_group_eval_at(eval, 1)->kind, FOCAL_GROUP_ADAPTER);
    assert_true(isnan(focal_group_eval_at(eval, 1)->speed));
    assert_null(focal_group_eval_at(eval, 2));
    check_losses(&r, eval);
    focal_group_eval_free(eval);
    close_rig(&r);
}

static void every_key_is_counted(void **state)
{
    rig r;
    focal_group_eval *eval = NULL;
    open_rig(*state, adapter_path, &r);
    const int32_t tops[] = {3, 1, 3};
    r.args.tops = tops;
    r.args.top_count = 3;
    assert_status(r.ctx, focal_group_eval_new(r.model, r.adapter, &r.args, &eval), FOCAL_OK);
    assert_int_equal(eval->setting_count, 4); /* dense, 1, 3, temperatures */
    assert_int_equal(eval->settings[eval->own].top, 3);
    for (int32_t row = 0; row < eval->L * eval->routers; row++) {
        int64_t sum = 0;
        for (int32_t c = 0; c < eval->K; c++) sum += eval->sizes[row * eval->K + c];
        assert_int_equal(sum, CONTEXT + SECOND);
    }
    focal_group_eval_free(eval);
    close_rig(&r);
}

static void typical_tokens_are_those_that_differ(void **state)
{
    focal_ctx *ctx = *state;
    enum { COUNT = 16, V = 6 };
    /* Token 0 is as frequent in group 0 as everywhere; 1 is always there, 2 mostly; 3 never; 4 once
     * in all. */
    static const int32_t ids[COUNT] = {0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 4};
    static const uint64_t masks[COUNT] = {1, 1, 2, 2, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 1};
    foci_typical_group groups[3];
    assert_status(ctx, foci_typical_tokens(ctx, ids, masks, COUNT, V, 3, groups), FOCAL_OK);
    assert_int_equal(groups[0].count, 2);
    assert_int_equal(groups[0].tokens[0].id, 1);
    assert_int_equal(groups[0].tokens[0].in_group, 3);
    assert_int_equal(groups[0].tokens[0].in_all, 3);
    assert_int_equal(groups[0].tokens[1].id, 2);
    assert_int_equal(groups[0].tokens[1].in_group, 2);
    assert_int_equal(groups[0].tokens[1].in_all, 3);
    assert_int_equal(groups[1].count, 1);
    assert_int_equal(groups[1].tokens[0].id, 3);
    assert_int_equal(groups[2].count, 0);
    /* More candidates than room, all equal: the lowest ids stay. */
    enum { MANY = 40 };
    int32_t many[MANY];
    uint64_t many_masks[MANY];
    for (int n = 0; n < MANY; n++) {
        many[n] = MANY / 2 - 1 - n / 2;
        many_masks[n] = many[n] < 12 ? 1 : 2;
    }
    assert_status(ctx, foci_typical_tokens(ctx, many, many_masks, MANY, MANY, 1, groups), FOCAL_OK);
    assert_int_equal(groups[0].count, FOCI_GROUP_TOKENS);
    for (int n = 0; n < FOCI_GROUP_TOKENS; n++) assert_int_equal(groups[0].tokens[n].id, n);
}

static void the_file_reads_back(void **state)
{
    rig r;
    focal_group_eval *eval = NULL;
    foci_fit_measure *m = NULL;
    size_t bytes = 0;
    const folder f = folder_new();
    open_rig(*state, adapter_path, &r);
    const focal_cache_options cache = {.dtype = FOCAL_BF16, .has_dtype = true};
    r.args.rounds = 1;
    r.args.cache = &cache;
    assert_status(r.ctx, focal_group_eval_new(r.model, r.adapter, &r.args, &eval), FOCAL_OK);
    const char *path = folder_file(&f, "measure.json");
    assert_status(r.ctx, focal_group_eval_write(eval, path), FOCAL_OK);
    char *text = read_bytes(path, &bytes);
    assert_status(r.ctx, foci_fit_measure_parse(r.ctx, text, bytes, &m), FOCAL_OK);
    assert_string_equal(m->model, "tiny.gguf");
    assert_string_equal(m->fingerprint, focal_model_fingerprint(r.model));
    assert_string_equal(m->adapter_checksum, focal_adapter_describe(r.adapter).checksum);
    assert_string_equal(m->names[0], r.texts[0].name);
    assert_string_equal(m->names[1], "\xEF\xBF\xBDsecond");
    assert_int_equal(m->tokens[0], CONTEXT - 1);
    assert_int_equal(m->context, CONTEXT);
    assert_string_equal(m->precision, "f32");
    assert_string_equal(m->cache_type, "bf16");
    assert_int_equal(m->K, 4);
    assert_int_equal(m->groups_top, 2);
    assert_int_equal(m->setting_count, eval->setting_count);
    for (int32_t n = 0; n < m->setting_count; n++) {
        assert_int_equal((int)m->settings[n].kind, (int)eval->settings[n].kind);
        assert_int_equal(m->settings[n].top, eval->settings[n].top);
        assert_true(fabs(m->settings[n].loss - eval->settings[n].loss) < 1e-5);
        assert_true(fabs(m->settings[n].kept - eval->settings[n].kept) < 1e-5);
        assert_true(fabs(m->settings[n].losses[1] - eval->settings[n].losses[1]) < 1e-5);
        assert_true(m->settings[n].speed > 0.0);
    }
    assert_int_equal(m->size_count, eval->L * eval->routers);
    assert_int_equal(m->typical_count, eval->layer_count);
    assert_int_equal(m->typical[0].groups[0].count, eval->typical[0].count);
    assert_status(r.ctx, focal_group_eval_write(eval, "/nowhere/measure.json"), FOCAL_EIO);
    foci_fit_measure_free(r.ctx, m);
    focal_group_eval_free(eval);
    free(text);
    close_rig(&r);
    folder_remove(&f);
}

/* SentencePiece writes a space and single bytes with signs of its own: the file has the text. */
static void tokens_are_written_as_their_text(void **state)
{
    rig r;
    focal_group_eval *eval = NULL;
    focal_tokenizer *llama = NULL;
    foci_fit_measure *m = NULL;
    size_t bytes = 0;
    static const struct {
        const char *piece, *text;
    } tokens[] = {{"\xE2\x96\x81the\xE2\x96\x81", " the "},
                  {"<0x0A>", "\n"},
                  {"<0xE2>", "\xEF\xBF\xBD"},
                  {"<s>", "<s>"}};
    const folder f = folder_new();
    open_rig(*state, adapter_path, &r);
    assert_status(r.ctx, focal_group_eval_new(r.model, r.adapter, &r.args, &eval), FOCAL_OK);
    assert_status(
        r.ctx, focal_tokenizer_open(r.ctx, FOCAL_TEST_DIR "/golden/tokenizers/llama2.json", &llama),
        FOCAL_OK);
    eval->tokenizer = llama;
    for (int32_t n = 0; n < eval->layer_count * eval->K; n++) eval->typical[n].count = 0;
    foci_typical_group *group = eval->typical;
    for (size_t n = 0; n < FOCAL_COUNT(tokens); n++) {
        const char *piece = tokens[n].piece;
        const int32_t id = focal_tokenizer_find(llama, piece, strlen(piece));
        assert_true(id >= 0);
        group->tokens[group->count++] = (foci_typical){id, 1, 1};
    }
    /* a model may have more rows than its tokenizer has tokens */
    group->tokens[group->count++] = (foci_typical){focal_tokenizer_size(llama), 1, 1};
    const char *path = folder_file(&f, "measure.json");
    assert_status(r.ctx, focal_group_eval_write(eval, path), FOCAL_OK);
    char *text = read_bytes(path, &bytes);
    assert_status(r.ctx, foci_fit_measure_parse(r.ctx, text, bytes, &m), FOCAL_OK);
    for (size_t n = 0; n < FOCAL_COUNT(tokens); n++)
        assert_string_equal(m->typical[0].groups[0].tokens[n].text, tokens[n].text);
    assert_string_equal(m->typical[0].groups[0].tokens[FOCAL_COUNT(tokens)].text, "");
    foci_fit_measure_free(r.ctx, m);
    focal_group_eval_free(eval);
    focal_tokenizer_free(llama);
    free(text);
    close_rig(&r);
    folder_remove(&f);
}

static void bad_calls_are_refused(void **state)
{
    rig r;
    focal_group_eval *eval = NULL;
    open_rig(*state, adapter_path, &r);
    const int32_t beyond = 5, below = -1;
    const int32_t outside[] = {1, VOCAB * 1000};
    const focal_group_text none = {"none", r.ids[0], 1}, wrong = {"wrong", outside, 2};
    focal_group_args bad[8];
    for (size_t n = 0; n < FOCAL_COUNT(bad); n++) bad[n] = r.args;
    bad[0].text_count = 0;
    bad[1].text_count = FOCAL_GROUP_TEXTS_MOST + 1;
    bad[2].context = 1;
    bad[3].rounds = FOCAL_GROUP_ROUNDS_MOST + 1;
    bad[4].tops = &beyond;
    bad[5].tops = &below;
    bad[4].top_count = bad[5].top_count = 1;
    bad[6].texts = &none;
    bad[7].texts = &wrong;
    bad[6].text_count = bad[7].text_count = 1;
    for (size_t n = 0; n < FOCAL_COUNT(bad); n++) {
        assert_status(r.ctx, focal_group_eval_new(r.model, r.adapter, &bad[n], &eval),
                      FOCAL_EINVAL);
        assert_null(eval);
    }
    close_rig(&r);
}

/* Without memory at any place: ENOMEM, and nothing is left behind when the context closes. */
static void without_memory_nothing_stays(void **state)
{
    rig r;
    focal_group_eval *eval = NULL;
    open_rig(*state, adapter_path, &r);
    const int32_t top = 1;
    r.args.tops = &top;
    r.args.top_count = r.args.text_count = r.args.rounds = 1;
    focal_status status = FOCAL_ENOMEM;
    for (int64_t n = 1; status != FOCAL_OK; n += 1 + n / 8) {
        r.readings = 0;
        memory_fail(n, true);
        status = focal_group_eval_new(r.model, r.adapter, &r.args, &eval);
        memory_fail(0, false);
        if (status != FOCAL_OK) {
            assert_int_equal(status, FOCAL_ENOMEM);
            assert_null(eval);
        }
    }
    focal_group_eval_free(eval);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(settings_are_those_of_perplexity, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(dense_is_read_once, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(adapters_without_routers_have_one_setting, open_ctx,
                                        close_ctx),
        cmocka_unit_test_setup_teardown(every_key_is_counted, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(typical_tokens_are_those_that_differ, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(the_file_reads_back, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(tokens_are_written_as_their_text, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_calls_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(without_memory_nothing_stays, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("group_eval", tests, NULL, NULL);
}
