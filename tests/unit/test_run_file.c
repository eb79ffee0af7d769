/* Run files: every key, every kind of fault with its sentence, a resolved run that reads back to
 * the bit, and docs/TRAINING.md against the table. FOCAL_TEST_UPDATE=1 rewrites the page's table.
 */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"
#include "train/run_file.h"
#include "train/run_groups.h"

enum { VALUES = offsetof(foci_run, is_given) }; /* bytes of a run that its file holds */

static foci_run *new_run(void)
{
    foci_run *run = new_array(1, sizeof *run);
    foci_run_init(run);
    return run;
}

/* The text must be refused with these words. */
static void refuse(focal_ctx *ctx, const char *text, const char *words)
{
    foci_run *run = new_run();
    assert_status(ctx, foci_run_parse(ctx, "run.conf", foci_text_of(text), run), FOCAL_EFORMAT);
    if (!strstr(focal_ctx_error(ctx), words))
        fail_msg("'%s' does not say '%s'", focal_ctx_error(ctx), words);
    free(run);
}

static void accept(focal_ctx *ctx, const char *text, foci_run *run)
{
    assert_status(ctx, foci_run_parse(ctx, "run.conf", foci_text_of(text), run), FOCAL_OK);
}

static void the_table_is_sound(void **state)
{
    focal_ctx *ctx = *state;
    foci_run *run = new_run();
    for (int n = 0; n < FOCI_RUN_KEYS; n++) {
        const foci_run_key *key = &foci_run_keys[n];
        char line[FOCI_RUN_VALUE + 128], value[FOCI_RUN_VALUE], accepts[FOCI_RUN_TEXT];
        assert_non_null(key->name);
        assert_true(key->about && key->about[0] && key->about[strlen(key->about) - 1] != '.');
        assert_null(strpbrk(key->about, "|\n"));
        assert_int_equal(foci_run_find(foci_text_of(key->name)), n);
        assert_int_equal(foci_run_nearest(foci_text_of(key->name)), n);
        (void)snprintf(line, sizeof line, "%s = %s", key->name, key->initial);
        accept(ctx, line, run);
        assert_true(run->is_given[n]);
        foci_run_value(run, n, value);
        if (key->type == FOCI_RUN_STRING)
            assert_string_equal(value, "\"\"");
        else if (key->type == FOCI_RUN_REAL)
            assert_true(strtod(value, NULL) == strtod(key->initial, NULL));
        else
            assert_string_equal(value, key->initial);
        foci_run_accepts(key, accepts);
        assert_true(accepts[0] != '\0');
        for (int other = 0; other < n; other++)
            assert_true(foci_run_keys[other].offset != key->offset);
    }
    free(run);
}

static void defaults_are_those_of_the_papers_model(void **state)
{
    focal_ctx *ctx = *state;
    foci_run *run = new_run();
    assert_status(ctx, foci_run_resolve(ctx, run), FOCAL_OK);
    assert_int_equal(run->model.layers, 8);
    assert_int_equal(run->model.kv_heads, 8);
    assert_int_equal(run->model.head_dim, 64);
    assert_int_equal(run->model.qk_norm, FOCI_RUN_QK_PLAIN);
    assert_int_equal(run->schedule.kind, FOCI_RUN_COSINE);
    assert_int_equal(run->schedule.steps, 1100);
    assert_int_equal(run->schedule.warmup, 60);
    assert_true(run->temperature.value == 0.4 && run->optimiser.lr == 1.5e-3);
    assert_true(run->optimiser.beta2 == 0.95 && run->optimiser.decay == 0.1);
    assert_true(run->model.tied && !run->data.cross_documents);
    assert_int_equal(run->temperature.layers.count, 0);
    free(run);
}

static void every_kind_is_read(void **state)
{
    focal_ctx *ctx = *state;
    foci_run *run = new_run();
    accept(ctx,
           "# a comment\r\n"
           "\n"
           "  model.layers=12\t# and another\r\n"
           "optimiser.lr = 2.5e-4\n"
           "data.cross_documents = true\n"
           "temperature.kind = learned-paper\n"
           "temperature.layers = 0,2,5-7\n"
           "data.shards = /data/my shards#1\n"
           "samples.prompt = \"He said \\\"no\\\" # loudly\\n\\t\\\\ \xC3\xA9\" # the end\n"
           "seed = 9007199254740992",
           run);
    assert_int_equal(run->model.layers, 12);
    assert_true(run->optimiser.lr == 2.5e-4);
    assert_true(run->data.cross_documents);
    assert_int_equal(run->temperature.kind, FOCI_RUN_T_LEARNED_PAPER);
    assert_int_equal(run->temperature.layers.count, 5);
    assert_int_equal(run->temperature.layers.values[4], 7);
    assert_string_equal(run->data.shards, "/data/my shards#1");
    assert_string_equal(run->samples.prompt, "He said \"no\" # loudly\n\t\\ \xC3\xA9");
    assert_true(run->seed == INT64_C(9007199254740992));
    assert_status(ctx, foci_run_set(ctx, "model.layers=3", run), FOCAL_OK);
    assert_status(ctx, foci_run_set(ctx, "model.layers = 4", run), FOCAL_OK);
    assert_status(ctx, foci_run_set(ctx, "samples.prompt=a = b # c", run), FOCAL_OK);
    assert_int_equal(run->model.layers, 4);
    assert_string_equal(run->samples.prompt, "a = b # c");
    free(run);
}

static void faults_have_sentences(void **state)
{
    focal_ctx *ctx = *state;
    refuse(ctx, "\nmodel.wdith = 8",
           "run.conf:2: there is no key 'model.wdith', the nearest is 'model.width'");
    refuse(ctx, "layers = 8", "the nearest is 'model.layers'");
    refuse(ctx, "lr = 1", "the nearest is 'optimiser.lr'");
    refuse(ctx, "learning_rate = 1", "run.conf:1: there is no key 'learning_rate'");
    refuse(ctx, "= 1", "there is no key ''");
    refuse(ctx, "model.width = 4", "'model.width' is '4', accepted: integer, 8 to 65536");
    refuse(ctx, "model.width = 65537", "8 to 65536");
    refuse(ctx, "model.width = 99999999999999999999", "8 to 65536");
    refuse(ctx, "model.width = -8", "'-8'");
    refuse(ctx, "model.width = 12.5", "integer");
    refuse(ctx, "model.width = ", "'model.width' is ''");
    refuse(ctx, "model.width = 8 9", "'8 9'");
    refuse(ctx, "model.width = \"8\"", "'\"8\"'");
    refuse(ctx, "optimiser.lr = nan", "number, 0 to 10");
    refuse(ctx, "optimiser.lr = inf", "number");
    refuse(ctx, "optimiser.lr = 0x1", "number");
    refuse(ctx, "optimiser.lr = 1e999", "number");
    refuse(ctx, "optimiser.lr = 1e", "number");
    refuse(ctx, "optimiser.lr = -0.1", "'optimiser.lr' is '-0.1'");
    refuse(ctx, "model.tied = yes", "'yes', accepted: true or false");
    refuse(ctx, "precision = fp8", "'fp8', accepted: bf16, f32");
    refuse(ctx, "precision = bf16|f32", "accepted");
    refuse(ctx, "precision =", "accepted");
    refuse(ctx, "temperature.layers = 1,1", "ascending");
    refuse(ctx, "temperature.layers = 3-1", "ascending");
    refuse(ctx, "temperature.layers = 1,,2", "ascending");
    refuse(ctx, "temperature.layers = 1,", "ascending");
    refuse(ctx, "temperature.layers = ", "ascending");
    refuse(ctx, "temperature.layers = 512", "0 to 511");
    refuse(ctx, "temperature.layers = 0-256", "ascending"); /* more than a list holds */
    refuse(ctx, "temperature.layers = -1", "0 to 511");
    refuse(ctx, "samples.prompt = \"a", "text");
    refuse(ctx, "samples.prompt = \"a\" b", "text");
    refuse(ctx, "samples.prompt = \"a\\\"", "text");
    refuse(ctx, "samples.prompt = \"\\x\"", "text");
    refuse(ctx, "samples.prompt = \"", "text");
    refuse(ctx, "seed = 1\n\nseed = 2", "run.conf:3: 'seed' stands in line 1 already");
    refuse(ctx, "seed", "run.conf:1: 'seed' has no '='");
    refuse(ctx, "seed = 1\x01", "run.conf:1: not plain UTF-8 text");
    refuse(ctx, "# \xFF", "not plain");
    char longest[FOCI_RUN_TEXT + 64];
    (void)snprintf(longest, sizeof longest, "start.from = %0*d", FOCI_RUN_TEXT, 0);
    refuse(ctx, longest, "up to 1023 bytes");

    foci_run *run = new_run();
    assert_status(ctx, foci_run_set(ctx, "sede=1", run), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx),
                        "--set: there is no key 'sede', the nearest is 'seed'");
    assert_status(ctx, foci_run_set(ctx, "seed", run), FOCAL_EINVAL);
    assert_status(ctx, foci_run_set(ctx, "seed=1\n", run), FOCAL_EINVAL);
    assert_status(ctx, foci_run_read(ctx, "/nonexistent", run), FOCAL_EIO);
    free(run);
}

/* One line that contradicts the defaults, and the word that its sentence must have. */
static void contradictions_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const wrong[][2] = {
        {"data.accumulation = 3", "3 passes"},
        {"model.kv_heads = 3", "3 key heads"},
        {"model.heads = 7", "7 heads"},
        {"model.head_dim = 63", "63"},
        {"model.width = 9632", "1204 each, 256 is the most"},
        {"model.family = gpt2\nmodel.qk_norm = plain", "gpt2"},
        {"model.family = gpt2\nmodel.tied = false", "gpt2"},
        {"model.family = gpt2\nmodel.kv_heads = 4", "gpt2"},
        {"temperature.layers = 7,8", "number 8, the model's last is 7"},
        {"temperature.heads = 9", "temperature.heads"},
        {"start.ramp_steps = 10", "start.from"},
        {"start.yarn_factor = 2", "start.from"},
        {"start.from = x\nstart.rope_base = 0.5", "0.5"},
        {"schedule.steps = 0", "when it ends"},
        {"schedule.warmup = 1101", "1101 steps of warm-up in a run of 1100"},
        {"optimiser.lr = 0", "above 0"},
        {"groups.top = 8", "groups.top is 8, and groups.count does not say"},
        {"groups.window = 64", "groups.window is 64"},
        {"groups.gate = log", "groups.gate is log"},
        {"groups.layers = 1,3", "groups.layers is 1,3"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(wrong); n++) {
        foci_run *run = new_run();
        accept(ctx, wrong[n][0], run);
        assert_status(ctx, foci_run_resolve(ctx, run), FOCAL_EINVAL);
        if (!strstr(focal_ctx_error(ctx), wrong[n][1]))
            fail_msg("'%s' does not say '%s'", focal_ctx_error(ctx), wrong[n][1]);
        free(run);
    }
}

static void values_follow_from_others(void **state)
{
    focal_ctx *ctx = *state;
    foci_run *run = new_run();
    accept(ctx, "start.from = model.gguf\ntemperature.layers = 20\ndata.length = 77", run);
    assert_status(ctx, foci_run_resolve(ctx, run), FOCAL_OK);
    assert_true(run->temperature.value == 1.0);
    assert_int_equal(run->temperature.length_n0, 77);
    foci_run_init(run);
    accept(ctx, "start.from = model.gguf\ntemperature.value = 0.4", run);
    assert_status(ctx, foci_run_resolve(ctx, run), FOCAL_OK);
    assert_true(run->temperature.value == 0.4);
    foci_run_init(run);
    accept(ctx, "model.family = gpt2\nschedule.steps = 50", run);
    assert_status(ctx, foci_run_resolve(ctx, run), FOCAL_OK);
    assert_int_equal(run->model.qk_norm, FOCI_RUN_QK_NONE);
    assert_int_equal(run->schedule.warmup, 5);
    foci_run_init(run);
    accept(ctx, "schedule.minutes = 20", run);
    assert_status(ctx, foci_run_resolve(ctx, run), FOCAL_OK);
    assert_int_equal(run->schedule.steps, 0);
    foci_run_init(run); /* dense, in so many words */
    accept(ctx, "groups.count = 0\ngroups.top = 8", run);
    assert_status(ctx, foci_run_resolve(ctx, run), FOCAL_OK);
    free(run);
}

/* Keys and the methods that look at them, one way or the other. */
static void keys_are_of_methods(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *method, *used, *idle;
    } cases[] = {{"focus", "groups.rate_end", "lora.rank"},
                 {"start", "groups.rate", "optimiser.lr"},
                 {"random", "seed", "groups.top_fit"},
                 {"random", "groups.top", "data.shards"},
                 {"none", "groups.window", "groups.top"},
                 {"none", "groups.layers", "seed"},
                 {"temperature", "schedule.steps", "groups.window"},
                 {"temperature\ngroups.top = 0", "groups.window", "groups.count"},
                 {"temperature\ngroups.top = 0", "groups.top", "groups.top_fit"},
                 {"scale", "groups.sinks", "groups.mode"},
                 {"lora", "lora.targets", "groups.window"},
                 {"lora", "checkpoint.every", "groups.balance"}};
    foci_run *run = new_run();
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        char text[128];
        (void)snprintf(text, sizeof text, "learn = groups\ngroups.method = %s", cases[n].method);
        foci_run_init(run);
        accept(ctx, text, run);
        if (!foci_run_uses(run, cases[n].used) || foci_run_uses(run, cases[n].idle))
            fail_msg("%s: %s, %s", cases[n].method, cases[n].used, cases[n].idle);
    }
    foci_run_init(run);
    assert_true(foci_run_uses(run, "lora.rank")); /* nobody asks: learn = all */
    free(run);
}

/* Odd values of every kind, written, read and written again. */
static void a_resolved_run_reads_back(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    foci_run *run = new_run(), *again = new_run();
    accept(ctx,
           "optimiser.lr = 0.0012345678901234567\noptimiser.eps = 4.9406564584124654e-20\n"
           "temperature.layers = 0-3,6\ntemperature.heads = 0\n"
           "samples.prompt = \"  \\\"x\\\\\\n\\t# \xE2\x82\xAC \"\ndata.shards = a # b\n"
           "model.family = qwen3\nrecompute = block\nmodel.rope_base = 123456.789\n"
           "schedule.minutes = 0.1\nseed = 1234567890123456",
           run);
    assert_status(ctx, foci_run_resolve(ctx, run), FOCAL_OK);
    assert_status(ctx, foci_run_write(ctx, folder_file(&f, "a"), run), FOCAL_OK);
    assert_status(ctx, foci_run_read(ctx, folder_file(&f, "a"), again), FOCAL_OK);
    assert_memory_equal(run, again, VALUES);
    assert_status(ctx, foci_run_resolve(ctx, again), FOCAL_OK);
    assert_memory_equal(run, again, VALUES);
    for (int n = 0; n < FOCI_RUN_KEYS; n++) assert_true(again->is_given[n]);
    assert_string_equal(again->data.shards, "a");
    assert_string_equal(again->samples.prompt, "  \"x\\\n\t# \xE2\x82\xAC ");
    assert_status(ctx, foci_run_write(ctx, "/nonexistent/run", run), FOCAL_EIO);
    for (int64_t n = 1; n <= 2; n++) {
        memory_fail(n, false);
        assert_status(ctx, foci_run_write(ctx, folder_file(&f, "b"), run), FOCAL_ENOMEM);
        memory_fail(0, false);
    }
    memory_fail(1, false);
    assert_status(ctx, foci_run_read(ctx, folder_file(&f, "a"), again), FOCAL_ENOMEM);
    memory_fail(0, false);
    assert_int_equal(folder_count(&f), 1);
    free(run);
    free(again);
    folder_remove(&f);
}

/* The table as docs/TRAINING.md has it. */
static char *make_table(void)
{
    const size_t room = 1 << 16;
    char *page = new_array(room, 1);
    size_t used =
        (size_t)snprintf(page, room, "| key | default | accepted | |\n|---|---|---|---|\n");
    for (int n = 0; n < FOCI_RUN_KEYS; n++) {
        const foci_run_key *key = &foci_run_keys[n];
        char accepts[FOCI_RUN_TEXT];
        foci_run_accepts(key, accepts);
        used += (size_t)snprintf(page + used, room - used, "| `%s` | %s | %s | %s |\n", key->name,
                                 key->initial, accepts, key->about);
        assert_true(used < room);
    }
    return page;
}

static void help_is_two_lines(void **state)
{
    (void)state;
    char help[FOCI_RUN_VALUE];
    foci_run_help(&foci_run_keys[foci_run_find(foci_text_of("model.kv_heads"))], help);
    assert_string_equal(help, "model.kv_heads = 0\n    key and value heads; 0: as many as query "
                              "heads (integer, 0 to 1024)\n");
}

static void the_page_has_the_table(void **state)
{
    (void)state;
    static const char begin_mark[] = "<!-- keys: made from src/train/run_keys.c -->\n";
    static const char end_mark[] = "<!-- end of keys -->\n";
    const char *path = FOCAL_TEST_DIR "/../docs/TRAINING.md";
    size_t bytes = 0;
    char *page = read_bytes(path, &bytes), *table = make_table();
    char *text = new_array(bytes + 1, 1);
    memcpy(text, page, bytes);
    const char *begin = strstr(text, begin_mark), *end = strstr(text, end_mark);
    if (!begin || !end || end < begin) {
        fail_msg("docs/TRAINING.md has lost the marks of its table");
        return; /* fail_msg does not come back, which not every reader knows */
    }
    begin += sizeof begin_mark - 1;
    const bool is_equal =
        (size_t)(end - begin) == strlen(table) && memcmp(begin, table, strlen(table)) == 0;
    if (!is_equal && getenv("FOCAL_TEST_UPDATE")) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        (void)fprintf(file, "%.*s%s%s", (int)(begin - text), text, table, end);
        assert_int_equal(fclose(file), 0);
    } else if (!is_equal) {
        fail_msg(
            "docs/TRAINING.md is not what the table of keys says: FOCAL_TEST_UPDATE=1 mends it");
    }
    free(page);
    free(table);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_table_is_sound, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(defaults_are_those_of_the_papers_model, open_ctx,
                                        close_ctx),
        cmocka_unit_test_setup_teardown(every_kind_is_read, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(faults_have_sentences, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(contradictions_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(values_follow_from_others, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(keys_are_of_methods, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_resolved_run_reads_back, open_ctx, close_ctx),
        cmocka_unit_test(help_is_two_lines),
        cmocka_unit_test(the_page_has_the_table),
    };
    return cmocka_run_group_tests_name("run_file", tests, NULL, NULL);
}
