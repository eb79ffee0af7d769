/* Sweep files: what each line gives, the runs and commands of a plan, and what is refused with
 * which sentence. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "focal/sweep.h"
#include "support/folder.h"
#include "train/sweep_file.h"

static focal_sweep *open_text(focal_ctx *ctx, const folder *f, const char *text)
{
    focal_sweep *sweep = NULL;
    write_bytes(folder_file(f, "a.sweep"), text, strlen(text));
    assert_status(ctx, focal_sweep_open(ctx, folder_file(f, "a.sweep"), &sweep), FOCAL_OK);
    return sweep;
}

static void run_is(focal_ctx *ctx, focal_sweep *sweep, int32_t n, const char *name,
                   const char *difference, int64_t tokens)
{
    focal_sweep_run run;
    assert_status(ctx, focal_sweep_run_at(sweep, n, &run), FOCAL_OK);
    assert_string_equal(run.name, name);
    assert_string_equal(run.difference, difference);
    assert_int_equal(run.tokens, tokens);
}

static void grids_multiply(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    focal_sweep *sweep = open_text(ctx, &f,
                                   "# a question\n"
                                   "data.shards = tokens\n"
                                   "data.length = 64 # a comment\n"
                                   "set data.batch = 2\n"
                                   "schedule.steps = 10\n"
                                   "case plain:\n"
                                   "case gain: model.qk_norm=gain temperature.value=0.5\n"
                                   "grid model.width = 64 | 128\n"
                                   "seeds = 1-2,7\n"
                                   "baseline = plain\n");
    assert_status(ctx, focal_sweep_plan(sweep, "out"), FOCAL_OK);
    assert_int_equal(focal_sweep_run_count(sweep), 12);
    run_is(ctx, sweep, 0, "plain-width64-s1",
           "model.width=64 model.qk_norm=plain temperature.value=0.4 seed=1", 1280);
    run_is(ctx, sweep, 2, "plain-width64-s7",
           "model.width=64 model.qk_norm=plain temperature.value=0.4 seed=7", 1280);
    run_is(ctx, sweep, 3, "plain-width128-s1",
           "model.width=128 model.qk_norm=plain temperature.value=0.4 seed=1", 1280);
    run_is(ctx, sweep, 11, "gain-width128-s7",
           "model.width=128 model.qk_norm=gain temperature.value=0.5 seed=7", 1280);
    assert_string_equal(focal_sweep_baseline(sweep), "plain");
    focal_sweep_run run;
    assert_status(ctx, focal_sweep_run_at(sweep, 12, &run), FOCAL_EINVAL);
    focal_sweep_free(sweep);

    /* Without anything that varies there is one run. */
    sweep = open_text(ctx, &f, "data.shards = tokens\nschedule.minutes = 1\n");
    assert_status(ctx, focal_sweep_plan(sweep, "out"), FOCAL_OK);
    assert_int_equal(focal_sweep_run_count(sweep), 1);
    run_is(ctx, sweep, 0, "run", "", 0);
    focal_sweep_free(sweep);
    folder_remove(&f);
}

static void bases_and_sets_are_one_run_file(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    static const char base[] = "data.length = 32\ndata.batch = 4\nmodel.layers = 3\n";
    write_bytes(folder_file(&f, "base.conf"), base, sizeof base - 1);
    focal_sweep *sweep = open_text(ctx, &f,
                                   "base = base.conf\n"
                                   "data.shards = {data}/shards\n"
                                   "data.batch = 8\n"
                                   "samples.prompt = \"a {thing} | b\"\n"
                                   "grid temperature.value = 1 | 0.4\n");
    assert_status(ctx, focal_sweep_set(sweep, "model.layers=2"), FOCAL_OK);
    assert_status(ctx, focal_sweep_set(sweep, "temperature.value=2"), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx),
                        "--set: 'temperature.value' is what the sweep varies");
    assert_status(ctx, focal_sweep_set(sweep, "model.layer=2"), FOCAL_EINVAL);
    assert_status(ctx, focal_sweep_plan(sweep, "some/out"), FOCAL_OK);
    assert_status(ctx, focal_sweep_run_write(sweep, 1, folder_file(&f, "run.conf")), FOCAL_OK);
    foci_run *run = new_array(1, sizeof *run);
    foci_run_init(run);
    assert_status(ctx, foci_run_read(ctx, folder_file(&f, "run.conf"), run), FOCAL_OK);
    assert_int_equal(run->data.length, 32);
    assert_int_equal(run->data.batch, 8);
    assert_int_equal(run->model.layers, 2);
    assert_true(run->temperature.value == 0.4);
    assert_string_equal(run->data.shards, "some/out/data/shards");
    assert_string_equal(run->samples.prompt, "a {thing} | b");
    free(run);
    focal_sweep_free(sweep);
    folder_remove(&f);
}

static void command_is(focal_ctx *ctx, focal_sweep *sweep, focal_sweep_when when, int32_t n,
                       const char *output, const char *expected)
{
    focal_sweep_command command = {0};
    bool is_there = false;
    char all[4096] = "";
    size_t used = 0;
    assert_status(ctx, focal_sweep_command_at(sweep, when, n, 1, &command, &is_there), FOCAL_OK);
    assert_true(is_there == (expected != NULL));
    if (expected) {
        const char *at = command.words.data;
        for (int32_t i = 0; i < command.count; i++, at += strlen(at) + 1)
            used += (size_t)snprintf(all + used, sizeof all - used, "[%s]", at);
        assert_string_equal(all, expected);
        assert_string_equal(command.output, output);
    }
    focal_buffer_free(ctx, &command.words);
}

static void commands_have_their_names_filled_in(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new(), texts = folder_new();
    write_bytes(folder_file(&texts, "b.txt"), "b", 1);
    write_bytes(folder_file(&texts, "a.txt"), "a", 1);
    write_bytes(folder_file(&texts, ".hidden"), "h", 1);
    focal_sweep *sweep =
        open_text(ctx, &f,
                  "data.shards = {data}/shards\n"
                  "input texts = a folder\n"
                  "input other = a file\n"
                  "after = eval copy -m {model} {other} --json\n"
                  "prepare t.json = tokenize --train {texts} -o {out}\n"
                  "prepare shards = tokenize -m {data}/t.json \"a b\" {} x{texts} -o {out}\n"
                  "after = info -m {model} {\"a\":1} {run}/x\n"
                  "grid temperature.value = 1 | 0.4\n");
    char give[512], expected[2048];
    focal_sweep_input input;
    (void)snprintf(give, sizeof give, "texts=%s", texts.path);
    assert_status(ctx, focal_sweep_give(sweep, give), FOCAL_OK);
    assert_true(focal_sweep_input_at(sweep, 1, &input));
    assert_string_equal(input.about, "a file");
    assert_null(input.path);
    assert_false(focal_sweep_input_at(sweep, 2, &input));
    assert_status(ctx, focal_sweep_give(sweep, "text=x"), FOCAL_EINVAL);
    assert_status(ctx, focal_sweep_give(sweep, "texts"), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "--input: NAME=PATH, not 'texts'");
    assert_status(ctx, focal_sweep_plan(sweep, "out"), FOCAL_OK);
    (void)snprintf(expected, sizeof expected,
                   "[tokenize][--train][%s/a.txt][%s/b.txt][-o][out/data/t.json]", texts.path,
                   texts.path);
    command_is(ctx, sweep, FOCAL_SWEEP_PREPARE, 0, "out/data/t.json", expected);
    (void)snprintf(expected, sizeof expected,
                   "[tokenize][-m][out/data/t.json][a b][{}][x%s][-o][out/data/shards]",
                   texts.path);
    command_is(ctx, sweep, FOCAL_SWEEP_PREPARE, 1, "out/data/shards", expected);
    command_is(ctx, sweep, FOCAL_SWEEP_PREPARE, 2, "", NULL);
    command_is(ctx, sweep, FOCAL_SWEEP_AFTER, 0, "",
               "[eval][copy][-m][out/t0.4/model][{other}][--json]");
    command_is(ctx, sweep, FOCAL_SWEEP_AFTER, 1, "",
               "[info][-m][out/t0.4/model][{\"a\":1}][out/t0.4/x]");
    command_is(ctx, sweep, FOCAL_SWEEP_AFTER, 2, "", NULL);
    focal_sweep_free(sweep);
    folder_remove(&texts);
    folder_remove(&f);
}

static void bad_lines_are_refused(void **state)
{
    static const struct {
        const char *text, *sentence;
    } rows[] = {
        {"gird temperature.value = 1 | 2\n", "S:1: there is no line 'gird', the nearest is 'grid'"},
        {"\nmodel.widht = 64\n",
         "S:2: there is no key 'model.widht', the nearest is 'model.width'"},
        {"grid model.widht = 64 | 128\n",
         "S:1: there is no key 'model.widht', the nearest is 'model.width'"},
        {"case a: model.widht=64\n",
         "S:1: there is no key 'model.widht', the nearest is 'model.width'"},
        {"model.width = 64\nmodel.width = 64\n", "S:2: 'model.width' stands in line 1 already"},
        {"set model.width = 64\ngrid model.width = 64 | 128\n",
         "S:2: 'model.width' stands in line 1 already"},
        {"seeds = 1-2\nseed = 3\n", "S:2: 'seed' stands in line 1 already"},
        {"case a: seed=3\nseeds = 1-2\n", "S:1: the case sets 'seed', which line 2 varies"},
        {"grid model.width = 64|128\ncase a: model.width=32\n",
         "S:2: the case sets 'model.width', which line 1 varies"},
        {"case a: model.width=32 model.width=64\n", "S:1: 'model.width' is set twice"},
        {"case a b: model.width=32\n",
         "S:1: a case's name has up to 47 letters, digits and . _ -, not 'a b'"},
        {"case a model.width=32\n",
         "S:1: a case is `case name: key=value key=value ...`, not 'a model.width=32'"},
        {"case a: model.width\n",
         "S:1: a case is `case name: key=value key=value ...`, not 'model.width'"},
        {"seeds = 3-1\n", "S:1: seeds are numbers as in 1-3 or 1,2,7, not '3-1'"},
        {"seeds = 1,,2\n", "S:1: seeds are numbers as in 1-3 or 1,2,7, not ''"},
        {"seeds = 1-1000\n", "S:1: more than 256 seeds"},
        {"seeds 1\n", "S:1: seeds are given as `seeds = 1-3`, not '1'"},
        {"base = a\nbase = b\n", "S:2: this word stands in an earlier line already, not 'b'"},
        {"base =\n", "S:1: this line is `word = text`, not '='"},
        {"after = \n", "S:1: what follows a run is `after = command of focal`, not '='"},
        {"prepare ../x = tokenize\n",
         "S:1: a preparation is `prepare FILE = command of focal`, not '../x = tokenize'"},
        {"input data = x\n",
         "S:1: data, out, model and run have a meaning of their own, not 'data'"},
        {"input a = x\ninput a = y\n", "S:2: each input stands there once, not 'a'"},
        {"hello\n", "S:1: there is no line 'hello', the nearest is 'seeds'"},
        {"model.width 64\n", "S:1: 'model.width 64' has no '=': a setting is `key = value`"},
        {"\x01\n", "S:1: not plain UTF-8 text"},
    };
    focal_ctx *ctx = *state;
    foci_sweep *sweep = new_array(1, sizeof *sweep);
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        const focal_status status = foci_sweep_parse(ctx, "S", foci_text_of(rows[n].text), sweep);
        if (status != FOCAL_EFORMAT || strcmp(focal_ctx_error(ctx), rows[n].sentence) != 0)
            fail_msg("'%s': %d, %s", rows[n].text, status, focal_ctx_error(ctx));
    }
    free(sweep);
}

static void bad_plans_are_refused(void **state)
{
    static const struct {
        const char *text, *sentence; /* behind the file's name */
    } rows[] = {
        {"grid model.heads = 2 | 3\n",
         ": heads3: run: a width of 512 does not divide into 3 heads: set model.head_dim"},
        {"grid model.width = 64 | 64\n", ": two runs are called 'width64'"},
        {"grid temperature.value = 1 | 1.0\n",
         ": t1 and t1.0 are the same run: temperature.value=1"},
        {"case a: model.kv_heads=8\ncase b:\nseeds = 1-2\n",
         ": a-s1 and b-s1 are the same run: model.kv_heads=8 seed=1"},
        {"case data: model.width=32\n",
         ": a run cannot be called 'data': the sweep has such a folder"},
        {"case a: model.width=32\nbaseline = b\n", ": baseline: no run is called 'b'"},
        {"baseline = temperature.valu=1\n",
         ": baseline: there is no key 'temperature.valu', the nearest is 'temperature.value'"},
        {"grid temperature.value = 1 | 0.4\nbaseline = temperature.value=7\n",
         ": baseline: no run has temperature.value=7, the first has 1"},
        {"grid temperature.value = 1 | 0.4\nbaseline = temperature.value=x\n",
         ": baseline: 'temperature.value' is 'x', accepted: number, 0.01 to 100"},
        {"start.from = {dta}/model\n",
         ": run: start.from: there is no {dta}, the nearest is {data}"},
        {"start.from = {model}\n", ": run: start.from: there is no {model}"},
        {"input texts = x\nprepare a = tokenize {text} -o {out}\n",
         ": prepare a: there is no {text}, the nearest is {texts}"},
        {"after = eval recall -m {modl}\n", ": after: there is no {modl}, the nearest is {model}"},
        {"after = eval recall -m {model} -o {out}\n", ": after: there is no {out}"},
        {"seeds = 1-100\ngrid model.width = 8|16|24|32|40|48|56|64|72\ngrid model.layers = "
         "1|2|3|4|5\n",
         ": more than 4096 runs"},
    };
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        char expected[1024], text[1024];
        (void)snprintf(text, sizeof text, "data.shards = tokens\n%s", rows[n].text);
        focal_sweep *sweep = open_text(ctx, &f, text);
        assert_status(ctx, focal_sweep_plan(sweep, "out"), FOCAL_EINVAL);
        (void)snprintf(expected, sizeof expected, "%s%s", folder_file(&f, "a.sweep"),
                       rows[n].sentence);
        assert_string_equal(focal_ctx_error(ctx), expected);
        focal_sweep_free(sweep);
    }
    focal_sweep *sweep = open_text(ctx, &f, "");
    assert_status(ctx, focal_sweep_plan(sweep, "out"), FOCAL_EINVAL);
    assert_non_null(strstr(focal_ctx_error(ctx), "a.sweep: run: run: data.shards is not set: the "
                                                 "folder that `focal tokenize` wrote"));
    focal_sweep_free(sweep);
    sweep = NULL;
    assert_status(ctx, focal_sweep_open(ctx, folder_file(&f, "none.sweep"), &sweep), FOCAL_EIO);
    assert_null(sweep);
    write_bytes(folder_file(&f, "b.sweep"), "base = none.conf\n", 17);
    assert_status(ctx, focal_sweep_open(ctx, folder_file(&f, "b.sweep"), &sweep), FOCAL_EIO);
    assert_null(sweep);
    folder_remove(&f);
}

/* The folder of the test is that of the run: the sweep's is the one around it. */
static void runs_that_are_there_must_agree(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new(), tokens = folder_new();
    char text[512], around[sizeof f.path], expected[1024];
    (void)snprintf(around, sizeof around, "%s", f.path);
    char *name = strrchr(around, '/');
    *name++ = '\0';
    (void)snprintf(text, sizeof text, "data.shards = %s/../%s\ncase %s:\n", tokens.path,
                   strrchr(tokens.path, '/') + 1, name);
    focal_sweep *sweep = open_text(ctx, &f, text);
    assert_status(ctx, focal_sweep_plan(sweep, around), FOCAL_OK);
    assert_status(ctx, focal_sweep_run_check(sweep, 0), FOCAL_OK); /* there is none */
    assert_status(ctx, focal_sweep_run_check(sweep, 1), FOCAL_EINVAL);

    assert_status(ctx, focal_sweep_run_write(sweep, 0, folder_file(&f, "run.conf")), FOCAL_OK);
    size_t bytes = 0;
    char *written = read_bytes(folder_file(&f, "run.conf"), &bytes);
    (void)snprintf(expected, sizeof expected, "\ndata.shards = \"%s\"\n", tokens.path);
    assert_non_null(memmem(written, bytes, expected, strlen(expected)));
    free(written);

    write_bytes(folder_file(&f, "log.jsonl"), "{}\n", 3); /* it has begun */
    assert_status(ctx, focal_sweep_run_check(sweep, 0), FOCAL_OK);
    assert_status(ctx, focal_sweep_set(sweep, "checkpoint.keep=7"), FOCAL_OK);
    assert_status(ctx, focal_sweep_run_check(sweep, 0), FOCAL_OK);
    assert_status(ctx, focal_sweep_set(sweep, "model.layers=7"), FOCAL_OK);
    assert_status(ctx, focal_sweep_run_check(sweep, 0), FOCAL_EINVAL);
    (void)snprintf(
        expected, sizeof expected,
        "%s: there is a run with 'model.layers' = 8, this one has 7: take another folder", f.path);
    assert_string_equal(focal_ctx_error(ctx), expected);
    assert_int_equal(folder_count(&f), 3); /* a.sweep and the run's two */
    focal_sweep_free(sweep);
    folder_remove(&tokens);
    folder_remove(&f);
}

static void memory_may_run_out(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    static const char text[] =
        "data.shards = x\ninput texts = x\nprepare a = b {texts} {out}\nseeds = 1-3\n";
    write_bytes(folder_file(&f, "a.sweep"), text, sizeof text - 1);
    char path[512], give[512];
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "a.sweep"));
    (void)snprintf(give, sizeof give, "texts=%s", f.path);
    for (int64_t n = 1;; n++) {
        assert_true(n < 1000);
        const int64_t live = memory_live_blocks();
        focal_sweep *sweep = NULL;
        focal_sweep_command command = {0};
        bool is_there = false;
        memory_fail(n, n % 2 == 0);
        focal_status status = focal_sweep_open(ctx, path, &sweep);
        if (status == FOCAL_OK) status = focal_sweep_give(sweep, give);
        if (status == FOCAL_OK) status = focal_sweep_plan(sweep, "out");
        if (status == FOCAL_OK)
            status = focal_sweep_command_at(sweep, FOCAL_SWEEP_PREPARE, 0, -1, &command, &is_there);
        const bool was_reached = memory_requests() >= n;
        memory_fail(0, false);
        if (status != FOCAL_OK) assert_status(ctx, status, FOCAL_ENOMEM);
        focal_buffer_free(ctx, &command.words);
        focal_sweep_free(sweep);
        assert_int_equal(memory_live_blocks(), live);
        if (!was_reached) break;
    }
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(grids_multiply, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bases_and_sets_are_one_run_file, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(commands_have_their_names_filled_in, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_lines_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_plans_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(runs_that_are_there_must_agree, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_run_out, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("sweep_file", tests, NULL, NULL);
}
