/* What fitting adds to training, each for itself: repeated passages against their definition, the
 * start of routers, and when groups count as collapsed. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/tiny_run.h"
#include "train/collapse.h"
#include "train/group_begin.h"
#include "train/repeat.h"
#include "train/run_groups.h"

enum { LENGTH = 64, WINDOWS = 400, ROWS = LENGTH * WINDOWS };

/* Rows whose ids are all different, two sequences a window: the first ends a document. */
static foci_windows new_rows(void)
{
    foci_windows rows = {.ids = new_array(ROWS, sizeof *rows.ids),
                         .targets = new_array(ROWS, sizeof *rows.targets),
                         .sequences = new_array(ROWS, sizeof *rows.sequences)};
    for (int32_t n = 0; n < ROWS; n++) {
        rows.ids[n] = n;
        rows.targets[n] = n + 1;
    }
    for (int32_t n = 0; n < WINDOWS; n++) {
        const int32_t first = n % 3 == 0 ? 24 : 0;
        if (first > 0) {
            rows.targets[n * LENGTH + first - 1] = -1;
            rows.sequences[rows.sequence_count++] = (foci_sequence){(int64_t)n * LENGTH, first};
        }
        rows.sequences[rows.sequence_count++] =
            (foci_sequence){(int64_t)n * LENGTH + first, LENGTH - first};
    }
    return rows;
}

static void free_rows(foci_windows *rows)
{
    free(rows->ids);
    free(rows->targets);
    free(rows->sequences);
}

/* a[n+1-o-l : n+1-o] = a[0:l] for one l and o in range, and nothing else has changed. True where
 * there is a passage. */
static bool check_sequence(const foci_windows *rows, const foci_sequence *s)
{
    const int32_t *ids = rows->ids + s->start, *targets = rows->targets + s->start;
    const int32_t begin = (int32_t)s->start, count = s->count;
    const int32_t n = targets[count - 1] < 0 ? count - 1 : count;
    int32_t a[LENGTH + 1] = {0}, from = -1, l = 0;
    for (int32_t i = 0; i < count; i++) a[i] = ids[i];
    for (int32_t i = 0; i < n; i++) { /* ids and targets tell of the same text */
        if (i + 1 < count) assert_int_equal(targets[i], a[i + 1]);
        a[i + 1] = targets[i];
    }
    for (int32_t i = 0; i <= n; i++) {
        if (a[i] == begin + i) continue;
        if (from < 0) from = i;
        assert_int_equal(a[i], begin + i - from);
        assert_int_equal(i, from + l); /* in one piece */
        l++;
    }
    if (from < 0) return false;
    const int32_t o = n + 1 - from - l;
    assert_in_range(l, n / 16, n / 4 - 1);
    assert_in_range(o, 0, n / 8 - 1);
    return true;
}

static void passages_are_repeated(void **state)
{
    (void)state;
    foci_windows rows = new_rows();
    int32_t count = 0;
    foci_repeat_passages(&rows, 1000, LENGTH, 0.3, 7);
    for (int64_t n = 0; n < rows.sequence_count; n++)
        count += check_sequence(&rows, &rows.sequences[n]);
    /* 0.3 of 534 by chance: a deviation of 10.6 */
    assert_in_range(count, 160 - 43, 160 + 43);
    /* The same samples in other company are the same. */
    foci_windows part = new_rows();
    part.sequence_count = 0;
    for (int64_t n = 0; n < rows.sequence_count; n++) {
        foci_sequence s = rows.sequences[n];
        if (s.start < (int64_t)100 * LENGTH) continue;
        s.start -= (int64_t)100 * LENGTH;
        part.sequences[part.sequence_count++] = s;
    }
    const int64_t left = (int64_t)300 * LENGTH;
    for (int64_t n = 0; n < left; n++) part.ids[n] = (int32_t)(n + (int64_t)100 * LENGTH);
    for (int64_t n = 0; n < left; n++) part.targets[n] = part.ids[n] + 1;
    for (int64_t n = 0; n < 300; n++)
        if ((n + 100) % 3 == 0) part.targets[n * LENGTH + 23] = -1;
    foci_repeat_passages(&part, 1100, LENGTH, 0.3, 7);
    assert_memory_equal(part.ids, rows.ids + (int64_t)100 * LENGTH,
                        (size_t)left * sizeof *part.ids);
    assert_memory_equal(part.targets, rows.targets + (int64_t)100 * LENGTH,
                        (size_t)left * sizeof *part.targets);
    free_rows(&part);
    free_rows(&rows);
    /* All or none. */
    rows = new_rows();
    foci_repeat_passages(&rows, 0, LENGTH, 0.0, 7);
    for (int32_t n = 0; n < ROWS; n++) assert_int_equal(rows.ids[n], n);
    foci_repeat_passages(&rows, 0, LENGTH, 1.0, 7);
    for (int64_t n = 0; n < rows.sequence_count; n++)
        assert_true(check_sequence(&rows, &rows.sequences[n]));
    free_rows(&rows);
}

static void short_sequences_stay(void **state)
{
    (void)state;
    int32_t ids[15], targets[15];
    foci_sequence sequence = {0, 15};
    foci_windows rows = {ids, targets, &sequence, 1};
    for (int32_t n = 0; n < 15; n++) {
        ids[n] = n;
        targets[n] = n + 1;
    }
    foci_repeat_passages(&rows, 0, 15, 1.0, 7);
    for (int32_t n = 0; n < 15; n++) assert_int_equal(ids[n], n);
}

/* ---- The start of routers ---- */

typedef struct beginning {
    foci_run run;
    foci_start start;
    foci_order order;
} beginning;

static void open_beginning(focal_ctx *ctx, const tiny_run *tiny, const char *model,
                           const char *const *sets, size_t count, beginning *b)
{
    char set[512];
    int64_t border = 0;
    foci_run_init(&b->run);
    (void)snprintf(set, sizeof set, "data.shards=%s", tiny->shards);
    assert_status(ctx, foci_run_set(ctx, set, &b->run), FOCAL_OK);
    (void)snprintf(set, sizeof set, "start.from=%s", model);
    assert_status(ctx, foci_run_set(ctx, set, &b->run), FOCAL_OK);
    for (size_t n = 0; n < count; n++)
        assert_status(ctx, foci_run_set(ctx, sets[n], &b->run), FOCAL_OK);
    assert_status(ctx, foci_run_resolve(ctx, &b->run), FOCAL_OK);
    assert_status(ctx, foci_start_open(ctx, &b->run, &b->start), FOCAL_OK);
    assert_status(ctx, foci_order_split(ctx, &b->start.tokens, 0.1, &border), FOCAL_OK);
    b->order = (foci_order){.tokens = &b->start.tokens,
                            .end = border,
                            .length = (int32_t)b->run.data.length,
                            .seed = 1,
                            .is_shuffled = true,
                            .crosses_documents = true};
    assert_status(ctx, foci_order_check(ctx, &b->order), FOCAL_OK);
    bool is_stopped = true;
    assert_status(ctx, foci_group_begin(&b->start, &b->run, &b->order, NULL, NULL, &is_stopped),
                  FOCAL_OK);
    assert_false(is_stopped);
}

static const char *const begin_sets[] = {"learn=groups",       "data.length=64",  "groups.count=4",
                                         "groups.width=8",     "groups.window=4", "groups.sinks=1",
                                         "groups.method=start"};

static void starts_are_reproducible(void **state)
{
    focal_ctx *ctx = *state;
    const tiny_run tiny = tiny_run_new(ctx);
    char model[256];
    (void)snprintf(model, sizeof model, "%s/model", tiny.out);
    static const char *const bases[] = {"temperature.value=1\nmodel.qk_norm=none", /* maps given */
                                        "temperature.value=1", /* least-squares maps */
                                        "temperature.value=1\nmodel.family=gpt2"};
    for (size_t n = 0; n < FOCAL_COUNT(bases); n++) {
        tiny_run_clear(&tiny, tiny.out);
        assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, bases[n], NULL), FOCAL_OK);
        beginning one, other;
        focal_ctx *own = new_ctx(n == 0 ? 3 : 2);
        const char *sets[FOCAL_COUNT(begin_sets) + 1];
        memcpy(sets, begin_sets, sizeof begin_sets);
        const bool is_gpt2 = strstr(bases[n], "gpt2") != NULL;
        sets[FOCAL_COUNT(begin_sets)] = is_gpt2 ? "data.length=16" : "data.length=64";
        open_beginning(ctx, &tiny, model, sets, FOCAL_COUNT(sets), &one);
        open_beginning(own, &tiny, model, sets, FOCAL_COUNT(sets), &other);
        const foci_groups *groups = one.start.groups;
        assert_memory_equal(groups->numbers, other.start.groups->numbers,
                            (size_t)groups->number_count * sizeof *groups->numbers);
        for (int32_t layer = 0; layer < groups->shape.L; layer++)
            for (int which = 0; which < FOCI_GROUP_TENSORS; which++) {
                const int64_t count =
                    foci_groups_count(&groups->shape, layer, (foci_group_tensor)which);
                double squares = 0.0;
                for (int64_t i = 0; i < count; i++)
                    squares += (double)groups->layers[layer].tensors[which][i] *
                               (double)groups->layers[layer].tensors[which][i];
                /* offsets of queries come from biases, and temperatures begin with 1 */
                const bool is_zero = which == FOCI_GROUP_LT || which == FOCI_GROUP_AQ;
                /* and routers have no scale of distant logits */
                assert_true(is_zero || (which == FOCI_GROUP_LS ? count == 0 : squares > 0.0));
                assert_true(which != FOCI_GROUP_LT || squares == 0.0);
            }
        foci_start_close(&one.start);
        foci_start_close(&other.start);
        focal_ctx_close(own);
    }
    tiny_run_free(&tiny);
}

/* A stream without end, in which a document is as long as the stream. */
static focal_status count_up(void *user, int64_t begin, int64_t count, int32_t *ids)
{
    (void)user;
    for (int64_t n = 0; n < count; n++) ids[n] = (int32_t)((begin + n) * (begin + n) % TINY_VOCAB);
    return FOCAL_OK;
}

static focal_status one_document(void *user, int64_t begin, int64_t end, int64_t room,
                                 int64_t *starts, int64_t *count)
{
    (void)user;
    (void)end;
    *count = begin == 0;
    if (begin == 0 && room > 0) starts[0] = 0;
    return FOCAL_OK;
}

/* Numbers by chance depend on the tokens of the pass alone, by their mean. */
static const char *const chance_sets[] = {"learn=groups",   "data.length=64",    "groups.count=4",
                                          "groups.width=8", "groups.window=4",   "groups.sinks=1",
                                          "precision=f32",  "groups.init=random"};

static void long_windows_are_cut_for_the_start(void **state)
{
    focal_ctx *ctx = *state;
    const tiny_run tiny = tiny_run_new(ctx);
    const foci_tokens tokens = {.count = 40000, .read = count_up, .starts = one_document};
    static const int32_t lengths[] = {16384, 20000};
    beginning b;
    char model[256];
    float *first = NULL;
    (void)snprintf(model, sizeof model, "%s/model", tiny.out);
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, "temperature.value=1", NULL), FOCAL_OK);
    open_beginning(ctx, &tiny, model, chance_sets, FOCAL_COUNT(chance_sets), &b);
    const foci_groups *groups = b.start.groups;
    const size_t bytes = (size_t)groups->number_count * sizeof *groups->numbers;
    for (size_t n = 0; n < FOCAL_COUNT(lengths); n++) {
        bool is_stopped = true;
        foci_order order = {.tokens = &tokens,
                            .end = tokens.count,
                            .length = lengths[n],
                            .crosses_documents = true};
        assert_status(ctx, foci_order_check(ctx, &order), FOCAL_OK);
        assert_status(ctx, foci_group_begin(&b.start, &b.run, &order, NULL, NULL, &is_stopped),
                      FOCAL_OK);
        assert_int_equal(order.length, lengths[n]);
        if (!first) {
            first = new_array((size_t)groups->number_count, sizeof *first);
            memcpy(first, groups->numbers, bytes);
        }
        assert_memory_equal(groups->numbers, first, bytes);
    }
    free(first);
    foci_start_close(&b.start);
    tiny_run_free(&tiny);
}

static void a_start_without_memory_says_so(void **state)
{
    focal_ctx *ctx = *state;
    const tiny_run tiny = tiny_run_new(ctx);
    beginning b;
    char model[256];
    bool is_stopped = true, is_said = false;
    focal_status status = FOCAL_ENOMEM;
    (void)snprintf(model, sizeof model, "%s/model", tiny.out);
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, "temperature.value=1", NULL), FOCAL_OK);
    open_beginning(ctx, &tiny, model, begin_sets, FOCAL_COUNT(begin_sets), &b);
    for (int64_t n = 1; status == FOCAL_ENOMEM; n++) {
        assert_in_range(n, 1, 500);
        memory_fail(n, true);
        status = foci_group_begin(&b.start, &b.run, &b.order, NULL, NULL, &is_stopped);
        memory_fail(0, false);
        is_said |= status == FOCAL_ENOMEM &&
                   strstr(focal_ctx_error(ctx), "the pass that routers begin with, 1") &&
                   strstr(focal_ctx_error(ctx), "windows of 64 tokens");
    }
    assert_status(ctx, status, FOCAL_OK);
    if (!is_said) fail_msg("the last sentence is \"%s\"", focal_ctx_error(ctx));
    foci_start_close(&b.start);
    tiny_run_free(&tiny);
}

/* ---- Collapse ---- */

static void collapse_is_found_once(void **state)
{
    (void)state;
    const foci_groups groups = {.shape = {.K = 16, .mode = FOCAL_DIRECTED}, .top_fit = 2};
    const foci_groups shared = {.shape = {.K = 4, .mode = FOCAL_SHARED}, .top_fit = 2};
    assert_true(foci_collapse_limit(&groups) > 0.5 && foci_collapse_limit(&groups) < 0.6);
    assert_true(foci_collapse_limit(&shared) > 0.3 && foci_collapse_limit(&shared) < 0.5);
    foci_collapse memory = {0};
    for (int n = 0; n < 4; n++) assert_false(foci_collapse_found(&memory, &groups, 0.9));
    assert_false(foci_collapse_found(&memory, &groups, 0.2)); /* it has passed */
    for (int n = 0; n < 4; n++) assert_false(foci_collapse_found(&memory, &groups, 0.9));
    assert_true(foci_collapse_found(&memory, &groups, 0.9));
    for (int n = 0; n < 9; n++) assert_false(foci_collapse_found(&memory, &groups, 0.9));
}

static void a_collapse_that_passed_may_come_again(void **state)
{
    (void)state;
    const foci_groups groups = {.shape = {.K = 16, .mode = FOCAL_DIRECTED}, .top_fit = 2};
    foci_collapse memory = {0};
    for (int n = 0; n < 5; n++)
        assert_int_equal(foci_collapse_found(&memory, &groups, 0.9), n == 4);
    for (int n = 0; n < 4; n++) assert_false(foci_collapse_found(&memory, &groups, 0.2));
    for (int n = 0; n < 9; n++) assert_false(foci_collapse_found(&memory, &groups, 0.9));
    for (int n = 0; n < 5; n++) assert_false(foci_collapse_found(&memory, &groups, 0.2));
    for (int n = 0; n < 5; n++)
        assert_int_equal(foci_collapse_found(&memory, &groups, 0.9), n == 4);
}

static void advice_is_for_the_balance_in_use(void **state)
{
    (void)state;
    foci_run run;
    foci_run_init(&run);
    assert_non_null(strstr(foci_collapse_advice(&run), "groups.rate"));
    run.groups.balance = FOCI_RUN_BALANCE_SIGN;
    assert_non_null(strstr(foci_collapse_advice(&run), "groups.rate"));
    run.groups.balance = FOCI_RUN_BALANCE_NONE;
    assert_null(strstr(foci_collapse_advice(&run), "groups.rate"));
    assert_non_null(strstr(foci_collapse_advice(&run), "groups.balance = bias"));
    run.groups.balance = FOCI_RUN_BALANCE_SINKHORN;
    run.groups.router = FOCI_RUN_ROUTER_RAW;
    assert_null(strstr(foci_collapse_advice(&run), "groups.rate"));
    assert_non_null(strstr(foci_collapse_advice(&run), "groups.router = unit"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passages_are_repeated),
        cmocka_unit_test(short_sequences_stay),
        cmocka_unit_test_setup_teardown(starts_are_reproducible, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(long_windows_are_cut_for_the_start, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_start_without_memory_says_so, open_ctx, close_ctx),
        cmocka_unit_test(collapse_is_found_once),
        cmocka_unit_test(a_collapse_that_passed_may_come_again),
        cmocka_unit_test(advice_is_for_the_balance_in_use),
    };
    return cmocka_run_group_tests_name("fit_parts", tests, NULL, NULL);
}
