/* What a run begins with: every kind of new model, models that are continued, settings that do not
 * go with data or model; and the small parts of the loop by themselves. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sizes.h"
#include "support/tiny_run.h"
#include "train/feed.h"
#include "train/pace.h"
#include "train/run.h"
#include "train/shard_tokens.h"
#include "train/spike.h"
#include "train/start.h"
#include "train/validate.h"

#define GOLDEN FOCAL_TEST_DIR "/golden/models/"
#define SHORT "schedule.steps=2\nschedule.warmup=0\nvalidation.tokens=32\n"

static void every_kind_trains(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const kinds[] = {
        SHORT "model.qk_norm=gain\nmodel.tied=false",
        SHORT "model.qk_norm=none\nmodel.rope_base=500",
        SHORT "model.family=gpt2",
        SHORT "model.kv_heads=1\nmodel.head_dim=8\nmodel.vocabulary=40",
        SHORT "temperature.kind=learned\nprecision=f32",
        SHORT "temperature.kind=learned-paper\nsamples.every=1",
        SHORT "temperature.kind=per-head\ntemperature.layers=1",
        SHORT "temperature.kind=length\ntemperature.heads=0\ntemperature.length_n0=4",
        SHORT "temperature.kind=length\ntemperature.length_c=0",
        SHORT "optimiser.kind=muon\nrecompute=block\noptimiser.z_loss=0.001",
        SHORT "schedule.kind=decay\nrecompute=inputs\ndata.cross_documents=true",
        SHORT "schedule.kind=constant\ndata.valid_share=0",
    };
    const tiny_run tiny = tiny_run_new(ctx);
    char path[256];
    (void)snprintf(path, sizeof path, "%s/model/model.safetensors", tiny.out);
    for (size_t n = 0; n < FOCAL_COUNT(kinds); n++) {
        tiny_watch w = {.stop_at = -1};
        tiny_run_clear(&tiny, tiny.out);
        assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, kinds[n], &w), FOCAL_OK);
        assert_int_equal(w.result.step, 2);
        assert_true(isfinite(w.result.loss) && w.result.parameter_count > 1000);
        assert_int_equal(access(path, R_OK), 0);
        const bool asks_samples = strstr(kinds[n], "samples") != NULL;
        assert_true((strstr(w.notes, "no samples") != NULL) == asks_samples);
        assert_true(isnan(w.result.valid_loss) == (strstr(kinds[n], "valid_share=0") != NULL));
    }
    tiny_run_free(&tiny);
}

/* Each golden model for two steps; its weights are random, so the first loss is that of chance. */
static void models_are_continued(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const names[] = {"llama", "qwen2",  "qwen3", "mistral",
                                        "olmo2", "gemma2", "gpt2",  "tiny.gguf"};
    const tiny_run tiny = tiny_run_new(ctx);
    for (size_t n = 0; n < FOCAL_COUNT(names); n++) {
        char sets[512];
        tiny_watch w = {.stop_at = 1};
        tiny_run_clear(&tiny, tiny.out);
        (void)snprintf(sets, sizeof sets,
                       "start.from=" GOLDEN "%s\n" SHORT "temperature.value=0.5\n"
                       "start.ramp_steps=4%s",
                       names[n], strcmp(names[n], "llama") == 0 ? "\nstart.yarn_factor=2" : "");
        /* tiny_run says what a new model is like, which a continued one brings. */
        assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, sets, &w), FOCAL_EINVAL);
        assert_non_null(strstr(focal_ctx_error(ctx), "model.layers"));
        (void)snprintf(sets + strlen(sets), sizeof sets - strlen(sets),
                       "\nmodel.layers=8\nmodel.width=512\nmodel.ffn=1408\nmodel.heads=8\n"
                       "model.vocabulary=16384");
        for (int part = 0; part < 2; part++) {
            assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, sets, &w), FOCAL_OK);
            assert_int_equal(w.result.step, part + 1);
            assert_true(isfinite(w.result.loss));
            w.stop_at = -1;
        }
    }
    tiny_run_free(&tiny);
}

#define FROM(name)                                                                                 \
    "model.layers=8\nmodel.width=512\nmodel.ffn=1408\nmodel.heads=8\n"                             \
    "model.vocabulary=16384\nstart.from=" GOLDEN name "\n"

static void misfits_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *sets, *word;
        focal_status status;
    } cases[] = {
        {"model.vocabulary=23", "model.vocabulary has 23 ids", FOCAL_EINVAL},
        {"data.length=100000", "order: ", FOCAL_EINVAL},
        {"data.shards=/nowhere", "/nowhere", FOCAL_EIO},
        {"data.shards=", "data.shards is not set", FOCAL_EINVAL},
        {"data.batch=1048576\ndata.length=4096", "data.accumulation", FOCAL_EINVAL},
        {"model.family=gpt2\nmodel.rope_base=5", "model.rope_base is 5", FOCAL_EINVAL},
        {"temperature.kind=learned-paper\ntemperature.value=0.5", "0.442", FOCAL_EINVAL},
        {"start.from=/nowhere\n", "model.layers", FOCAL_EINVAL},
        {FROM("nothing"), "nothing", FOCAL_EIO},
        {FROM("llama") "temperature.layers=500", "temperature.layers", FOCAL_EINVAL},
        {FROM("llama") "temperature.heads=600", "temperature.heads", FOCAL_EINVAL},
        {FROM("llama") "start.ramp_steps=2\ntemperature.kind=learned", "ramp", FOCAL_EINVAL},
        {FROM("qwen3") "model.qk_norm=none", "model.qk_norm is none", FOCAL_EINVAL},
        {FROM("gpt2") "start.rope_base=5", "learned positions", FOCAL_EINVAL},
        {FROM("gpt2") "data.length=300", "learned positions", FOCAL_EINVAL},
        {FROM("yarn") "start.yarn_factor=2", "stretched already", FOCAL_EINVAL},
    };
    const tiny_run tiny = tiny_run_new(ctx);
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, cases[n].sets, NULL),
                      cases[n].status);
        if (!strstr(focal_ctx_error(ctx), cases[n].word))
            fail_msg("'%s' lacks '%s'", focal_ctx_error(ctx), cases[n].word);
        assert_int_not_equal(access(tiny.out, F_OK),
                             0); /* a run that cannot begin leaves nothing */
    }
    tiny_run_free(&tiny);
}

static void ramp_goes_from_one(void **state)
{
    focal_ctx *ctx = *state;
    const tiny_run tiny = tiny_run_new(ctx);
    foci_run run;
    foci_run_init(&run);
    char set[256];
    (void)snprintf(set, sizeof set, "data.shards=%s", tiny.shards);
    assert_status(ctx, foci_run_set(ctx, set, &run), FOCAL_OK);
    assert_status(ctx, foci_run_set(ctx, "start.from=" GOLDEN "llama", &run), FOCAL_OK);
    assert_status(ctx, foci_run_set(ctx, "start.ramp_steps=10", &run), FOCAL_OK);
    assert_status(ctx, foci_run_set(ctx, "temperature.value=0.5", &run), FOCAL_OK);
    assert_status(ctx, foci_run_set(ctx, "start.yarn_factor=4", &run), FOCAL_OK);
    assert_status(ctx, foci_run_set(ctx, "data.length=16", &run), FOCAL_OK);
    assert_status(ctx, foci_run_resolve(ctx, &run), FOCAL_OK);
    foci_start s;
    assert_status(ctx, foci_start_open(ctx, &run, &s), FOCAL_OK);
    assert_int_equal(s.trainable->model->config.rope.kind, FOCI_ROPE_YARN);
    static const struct {
        int64_t step;
        float t;
    } points[] = {{0, 1.0F}, {5, 0.75F}, {10, 0.5F}, {1000, 0.5F}};
    for (size_t n = 0; n < FOCAL_COUNT(points); n++) {
        foci_start_ramp(&s, &run, points[n].step);
        assert_true(s.trainable->temperatures[1].t == points[n].t);
        assert_true(s.trainable->model->config.temperature.t == points[n].t);
    }
    foci_start_close(&s);
    foci_start_close(&s); /* closed once more is fine */
    tiny_run_free(&tiny);
}

static void documents_begin_where_shards_say(void **state)
{
    focal_ctx *ctx = *state;
    const tiny_run tiny = tiny_run_new(ctx);
    foci_shards *shards = NULL;
    assert_status(ctx, foci_shards_open(ctx, tiny.shards, true, &shards), FOCAL_OK);
    const foci_tokens tokens = foci_shard_tokens(shards);
    const int64_t documents = foci_shards_describe(shards).document_count;
    assert_int_equal(documents, 40);
    for (int64_t begin = 0; begin < tokens.count; begin += 13)
        for (int64_t end = begin; end <= tokens.count; end += 29) {
            int64_t starts[3], count = -1, expected = 0;
            assert_status(ctx, tokens.starts(tokens.user, begin, end, 3, starts, &count), FOCAL_OK);
            for (int64_t d = 0; d < documents; d++) {
                const int64_t at = foci_shards_begin(shards, d);
                if (at < begin || at >= end) continue;
                if (expected < 3) assert_int_equal(starts[expected], at);
                expected++;
            }
            assert_int_equal(count, expected);
        }
    foci_shards_close(shards);
    tiny_run_free(&tiny);
}

/* The loss alone is that of the pass with gradients, and leaves these alone. */
static void losses_alone_are_the_same(void **state)
{
    focal_ctx *ctx = *state;
    const tiny_run tiny = tiny_run_new(ctx);
    foci_run run;
    foci_run_init(&run);
    char set[256];
    (void)snprintf(set, sizeof set, "data.shards=%s", tiny.shards);
    assert_status(ctx, foci_run_set(ctx, set, &run), FOCAL_OK);
    assert_status(ctx, foci_run_set(ctx, "data.length=16", &run), FOCAL_OK);
    assert_status(ctx, foci_run_set(ctx, "model.width=64", &run), FOCAL_OK);
    assert_status(ctx, foci_run_set(ctx, "temperature.kind=learned-paper", &run), FOCAL_OK);
    assert_status(ctx, foci_run_resolve(ctx, &run), FOCAL_OK);
    foci_start s;
    foci_feed feed;
    foci_validation plan;
    foci_batch_loss alone, sum = {0};
    bool is_stopped = true;
    const foci_backward_options loss_only = {.is_loss_only = true};
    assert_status(ctx, foci_start_open(ctx, &run, &s), FOCAL_OK);
    const foci_order order = {
        .tokens = &s.tokens, .length = 16, .end = s.tokens.count, .is_shuffled = true};
    assert_status(ctx, foci_validation_plan(ctx, &order, 100, 1000, 3, &plan), FOCAL_OK);
    assert_int_equal(plan.windows, foci_min64(1000 / 16, (s.tokens.count - 101) / 16));
    assert_status(ctx, foci_feed_open(ctx, 64, 16, &feed), FOCAL_OK);
    assert_status(
        ctx, foci_validate(s.trainable, &plan, &feed, &loss_only, NULL, NULL, &alone, &is_stopped),
        FOCAL_OK);
    assert_false(is_stopped);
    for (size_t n = 0; n < s.trainable->gradient_count; n++)
        assert_true(s.trainable->gradients[n] == 0.0F);
    assert_status(ctx, foci_feed_read(&feed, &plan.order, 0, (int32_t)plan.windows), FOCAL_OK);
    const int64_t targets = feed.target_count;
    for (int32_t first = 0; first < plan.windows; first += 3) {
        const int32_t count = (int32_t)foci_min64(3, plan.windows - first);
        const foci_backward_options options = {.scale = 1.0};
        foci_batch_loss part;
        const foci_batch batch = foci_feed_pass(&feed, &plan.order, first, count);
        assert_status(ctx, foci_backward(s.trainable, &batch, &options, &part), FOCAL_OK);
        sum.nll += part.nll;
        sum.targets += part.targets;
    }
    assert_int_equal(alone.targets, targets);
    assert_int_equal(sum.targets, targets);
    assert_true(fabs(alone.nll - sum.nll) < 1e-6 * sum.nll);
    /* A tail that is shorter than a window, and none. */
    assert_status(ctx, foci_validation_plan(ctx, &order, s.tokens.count - 9, 1000, 3, &plan),
                  FOCAL_OK);
    assert_int_equal(plan.order.length, 8);
    assert_int_equal(plan.windows, 1);
    assert_status(ctx, foci_validation_plan(ctx, &order, s.tokens.count, 1000, 3, &plan), FOCAL_OK);
    assert_int_equal(plan.windows, 0);
    foci_feed_close(&feed);
    foci_start_close(&s);
    tiny_run_free(&tiny);
}

static void spikes_are_known(void **state)
{
    (void)state;
    foci_spike_memory memory = {0};
    const foci_gradient_norm fine = {1.0, 0}, odd = {1.0, 3};
    char why[FOCI_SPIKE_SENTENCE];
    assert_false(foci_spike_found(&memory, 1e9, &fine, 2.0, why)); /* nothing to compare with */
    assert_true(foci_spike_found(&memory, (double)NAN, &fine, 0.0, why));
    assert_non_null(strstr(why, "not a number"));
    assert_true(foci_spike_found(&memory, (double)INFINITY, &fine, 0.0, why));
    assert_true(foci_spike_found(&memory, 1.0, &odd, 0.0, why));
    assert_non_null(strstr(why, "3 numbers of the gradient"));
    for (int n = 0; n < 100; n++) foci_spike_remember(&memory, n < 84 ? 50.0 : 4.0);
    assert_false(foci_spike_found(&memory, 5.99, &fine, 2.0, why));
    assert_true(foci_spike_found(&memory, 6.01, &fine, 2.0, why)); /* only the last 16 count */
    assert_false(foci_spike_found(&memory, 6.01, &fine, 0.0, why));
}

static void minutes_set_the_pace(void **state)
{
    focal_ctx *ctx = *state;
    foci_run run;
    foci_pace pace;
    foci_run_init(&run);
    assert_status(ctx, foci_run_set(ctx, "schedule.minutes=10", &run), FOCAL_OK);
    assert_status(ctx, foci_run_set(ctx, "optimiser.lr=1", &run), FOCAL_OK);
    assert_status(ctx, foci_run_resolve(ctx, &run), FOCAL_OK);
    assert_status(ctx, foci_pace_open(ctx, &run, &pace), FOCAL_OK);
    assert_false(foci_pace_is_over(&pace, 1000000, 599.9));
    assert_true(foci_pace_is_over(&pace, 1, 600.0));
    assert_true(fabs(foci_pace_rate(&pace, 0, 0.0) - 1.0 / 60.0) < 1e-9); /* steps of warm-up */
    assert_true(foci_pace_rate(&pace, 60, 1.0) > 0.999);
    assert_true(foci_pace_rate(&pace, 1, 61.0) > 0.95); /* slow steps: a tenth of the time */
    assert_true(fabs(foci_pace_rate(&pace, 100, 300.0) - 0.55) < 1e-6);
    assert_true(fabs(foci_pace_rate(&pace, 100, 600.0) - 0.1) < 1e-6);
    assert_true(fabs(foci_pace_rate(&pace, 100, 700.0) - 0.1) < 1e-6);
    assert_status(ctx, foci_run_set(ctx, "schedule.steps=100", &run), FOCAL_OK);
    assert_status(ctx, foci_pace_open(ctx, &run, &pace), FOCAL_OK);
    assert_true(foci_pace_is_over(&pace, 100, 1.0));
    assert_true(foci_pace_rate(&pace, 50, 1.0) == foci_pace_rate(&pace, 50, 500.0));
}

/* What is written reads back, and is then written the same. */
static void settings_are_written(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    focal_run *run = NULL, *again = NULL;
    char value[FOCAL_RUN_VALUE];
    size_t bytes = 0, more = 0;
    assert_status(ctx, focal_run_new(ctx, &run), FOCAL_OK);
    assert_status(ctx, focal_run_new(ctx, &again), FOCAL_OK);
    assert_status(ctx, focal_run_set(run, "seed=5"), FOCAL_OK);
    assert_status(ctx, focal_run_set(run, "data.shards=a folder"), FOCAL_OK);
    assert_status(ctx, focal_run_write(run, folder_file(&f, "run.conf")), FOCAL_OK);
    assert_status(ctx, focal_run_read(again, folder_file(&f, "run.conf")), FOCAL_OK);
    assert_status(ctx, focal_run_get(again, "seed", value), FOCAL_OK);
    assert_string_equal(value, "5");
    assert_status(ctx, focal_run_write(again, folder_file(&f, "again.conf")), FOCAL_OK);
    char *one = read_bytes(folder_file(&f, "run.conf"), &bytes);
    char *two = read_bytes(folder_file(&f, "again.conf"), &more);
    assert_int_equal(more, bytes);
    assert_memory_equal(two, one, bytes);
    free(one);
    free(two);
    assert_status(ctx, focal_run_write(run, folder_file(&f, "none/run.conf")), FOCAL_EIO);
    focal_run_free(run);
    focal_run_free(again);
    folder_remove(&f);
}

static void settings_are_told(void **state)
{
    focal_ctx *ctx = *state;
    focal_run *run = NULL;
    char value[FOCAL_RUN_VALUE], line[FOCAL_TRAIN_LINE];
    assert_status(ctx, focal_run_new(ctx, &run), FOCAL_OK);
    assert_status(ctx, focal_run_set(run, "seed=5"), FOCAL_OK);
    assert_status(ctx, focal_run_get(run, "seed", value), FOCAL_OK);
    assert_string_equal(value, "5");
    assert_status(ctx, focal_run_get(run, "sed", value), FOCAL_EINVAL);
    assert_non_null(strstr(focal_ctx_error(ctx), "'seed'"));
    for (int32_t n = 0; n < focal_run_key_count(); n++) {
        focal_run_key_help(n, value);
        assert_true(strlen(value) > 10);
    }
    focal_run_key_help(focal_run_key_count(), value);
    assert_string_equal(value, "");
    const focal_train_step step = {.step = 120,
                                   .steps = 1100,
                                   .loss = 4.1234,
                                   .tokens_per_second = 1215,
                                   .peak_share = 0.58,
                                   .seconds_left = 720};
    focal_train_line(&step, line);
    assert_string_equal(line,
                        "step   120/1,100  loss  4.1234    1,215 tok/s  58 % of peak  12 min left");
    focal_run_free(run);
    focal_run_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_kind_trains, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(models_are_continued, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(misfits_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(ramp_goes_from_one, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(documents_begin_where_shards_say, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(losses_alone_are_the_same, open_ctx, close_ctx),
        cmocka_unit_test(spikes_are_known),
        cmocka_unit_test_setup_teardown(minutes_set_the_pace, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(settings_are_written, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(settings_are_told, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("train_start", tests, NULL, NULL);
}
