/* Perplexity: each method against sums over plain passes, windows of every kind, and what a caller
 * may ask for. */
#include "support/check.h"

#include <math.h>
#include <string.h>

#include "focal/eval.h"

enum { VOCAB = 96, TOKENS = 60, MOST = 512 };

typedef struct rig {
    focal_ctx *ctx;
    focal_model *model;
    int32_t ids[TOKENS];
    /* What the callbacks saw. */
    int64_t index[MOST];
    double nll[MOST];
    int count, chunks, chunk_stop;
    double last;
} rig;

static void on_token(void *user, int64_t index, int32_t id, double nll)
{
    rig *r = user;
    assert_true(r->count < MOST);
    assert_int_equal(id, r->ids[index]);
    r->index[r->count] = index;
    r->nll[r->count++] = nll;
}

static bool on_chunk(void *user, int64_t chunk, int64_t chunk_count, double perplexity)
{
    rig *r = user;
    assert_int_equal(chunk, r->chunks++);
    assert_true(chunk < chunk_count);
    r->last = perplexity;
    return r->chunks != r->chunk_stop;
}

static void open_rig(focal_ctx *ctx, const char *name, rig *r)
{
    const focal_model_options options = {FOCAL_F32, true};
    *r = (rig){.ctx = ctx};
    for (int n = 0; n < TOKENS; n++) r->ids[n] = (n * 37 + 11) % VOCAB;
    assert_status(ctx, focal_model_open(ctx, name, &options, &r->model), FOCAL_OK);
}

static focal_status measure(rig *r, focal_ppl_args args, focal_ppl_result *result)
{
    r->count = r->chunks = 0;
    if (!args.ids) args.ids = r->ids;
    if (args.count == 0) args.count = TOKENS;
    args.on_token = on_token;
    args.on_chunk = on_chunk;
    args.user = r;
    return focal_ppl(r->model, &args, result);
}

/* Minus the log-probability of ids[at], read behind ids[first .. at - 1], by a softmax in double;
 * begin replaces the first, unless it is -1. */
static double exact_nll(rig *r, int64_t first, int64_t at, int32_t begin)
{
    static float logits[1 << 10];
    int32_t ids[TOKENS];
    focal_cache *cache = NULL;
    const int32_t V = focal_model_describe(r->model).V;
    memcpy(ids, r->ids, sizeof ids);
    if (begin >= 0) ids[first] = begin;
    const focal_batch_item item = {0, (int32_t)(at - first), ids + first, 1};
    const focal_forward_args args = {.item_count = 1, .items = &item, .logits = logits};
    assert_true(V <= (int32_t)FOCAL_COUNT(logits));
    assert_status(r->ctx, focal_cache_new(r->model, NULL, &cache), FOCAL_OK);
    assert_status(r->ctx, focal_forward(r->model, cache, &args), FOCAL_OK);
    focal_cache_free(cache);
    double sum = 0.0;
    for (int32_t v = 0; v < V; v++) sum += exp((double)logits[v]);
    return log(sum) - (double)logits[r->ids[at]];
}

/* Whether the run scored exactly the ids of `places`, each behind what `first` says, and whether
 * its figures are those of their sum. */
static void check_run(rig *r, const focal_ppl_result *result, const int64_t *first, int32_t begin)
{
    double sum = 0.0;
    int count = 0;
    for (int64_t at = 0; at < TOKENS; at++) {
        if (first[at] < 0) continue;
        const double exact = exact_nll(r, first[at], at, begin);
        assert_int_equal(r->index[count], at);
        if (fabs(r->nll[count] - exact) > 1e-4)
            fail_msg("id %lld: %g and %g", (long long)at, r->nll[count], exact);
        sum += exact;
        count++;
    }
    assert_int_equal(r->count, count);
    assert_int_equal(result->tokens, count);
    assert_true(fabs(result->loss - sum / count) < 1e-4);
    assert_true(fabs(result->perplexity / exp(sum / count) - 1.0) < 1e-3);
    assert_true(fabs(result->bits - sum / log(2.0)) < 1e-4 * count);
    assert_true(fabs(r->last / result->perplexity - 1.0) < 1e-9);
}

static void strides_score_every_id_once(void **state)
{
    static const struct {
        int32_t context, stride, chunks;
    } rows[] = {{16, 8, 0},  {16, 1, 0}, {16, 16, 0}, {16, 15, 0}, {64, 0, 0},
                {60, 30, 0}, {59, 0, 0}, {2, 1, 0},   {2, 2, 0},   {16, 8, 3}};
    rig r;
    open_rig(*state, FOCAL_TEST_DIR "/golden/models/qwen3", &r);
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        const int32_t context = rows[n].context;
        const int32_t stride = rows[n].stride ? rows[n].stride : context / 2;
        const int32_t batches[] = {0, 1, 7};
        for (size_t b = 0; b < FOCAL_COUNT(batches); b++) {
            focal_ppl_result result;
            const focal_ppl_args args = {.context = context,
                                         .stride = rows[n].stride,
                                         .chunks = rows[n].chunks,
                                         .batch = batches[b]};
            assert_status(r.ctx, measure(&r, args, &result), FOCAL_OK);
            int64_t first[TOKENS], window = 0, windows = 1;
            for (int64_t at = 0; at < TOKENS; at++) {
                while (at >= window + context) {
                    window += stride;
                    windows++;
                }
                first[at] = at > window ? window : -1; /* nothing stands before a window's first */
                if (rows[n].chunks && windows > rows[n].chunks) first[at] = -1;
            }
            check_run(&r, &result, first, -1);
            assert_int_equal(result.chunks, rows[n].chunks ? rows[n].chunks : windows);
            assert_int_equal(r.chunks, result.chunks);
        }
    }
    focal_model_close(r.model);
}

/* llama-perplexity's: whole chunks only, of each the ids behind the first half. */
static void llama_scores_second_halves(void **state)
{
    static const char *const paths[] = {FOCAL_TEST_DIR "/golden/models/qwen3",
                                        FOCAL_TEST_DIR "/golden/models/tiny.gguf"};
    for (int has_begin = 0; has_begin < 2; has_begin++) {
        rig r;
        open_rig(*state, paths[has_begin], &r);
        const int32_t begin =
            has_begin ? focal_tokenizer_special(focal_model_tokenizer(r.model)).bos : -1;
        const int32_t contexts[] = {16, 15, 30, 4};
        for (size_t c = 0; c < FOCAL_COUNT(contexts); c++) {
            const int32_t context = contexts[c];
            focal_ppl_result result;
            const focal_ppl_args args = {.method = FOCAL_PPL_LLAMA, .context = context, .batch = 5};
            assert_status(r.ctx, measure(&r, args, &result), FOCAL_OK);
            int64_t first[TOKENS];
            for (int64_t at = 0; at < TOKENS; at++) {
                const int64_t chunk = at / context;
                const bool is_whole = (chunk + 1) * context <= TOKENS;
                first[at] = is_whole && at % context > context / 2 ? chunk * context : -1;
            }
            check_run(&r, &result, first, begin);
            assert_int_equal(result.chunks, TOKENS / context);
            if (has_begin) assert_true(result.bytes > 0);
        }
        focal_model_close(r.model);
    }
}

static void callbacks_may_stop_it(void **state)
{
    rig r;
    focal_ppl_result result;
    open_rig(*state, FOCAL_TEST_DIR "/golden/models/qwen3", &r);
    r.chunk_stop = 2;
    assert_status(r.ctx, measure(&r, (focal_ppl_args){.context = 16, .stride = 8}, &result),
                  FOCAL_OK);
    assert_int_equal(result.chunks, 2);
    assert_int_equal(result.tokens, 23);
    focal_model_close(r.model);
}

static void bad_calls_are_refused(void **state)
{
    static const struct {
        focal_ppl_args args;
        const char *sentence;
    } cases[] = {
        {{.count = 1}, "ppl: a text of 1 tokens, at least 2"},
        {{.count = -1}, "ppl: a text of -1 tokens, at least 2"},
        {{.context = 1}, "ppl: context 1 (at least 2), stride 0 (1 to the context), batch 1024"},
        {{.context = 16, .stride = 17},
         "ppl: context 16 (at least 2), stride 17 (1 to the context), batch 1024"},
        {{.context = 16, .stride = -1},
         "ppl: context 16 (at least 2), stride -1 (1 to the context), batch 1024"},
        {{.context = 16, .batch = -1},
         "ppl: context 16 (at least 2), stride 8 (1 to the context), batch -1"},
        {{.method = FOCAL_PPL_LLAMA, .context = 31},
         "ppl: a text of 60 tokens, two chunks of 31 are needed: take a smaller context or "
         "--method stride"},
    };
    rig r;
    focal_ppl_result result;
    open_rig(*state, FOCAL_TEST_DIR "/golden/models/qwen3", &r);
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        assert_status(r.ctx, measure(&r, cases[n].args, &result), FOCAL_EINVAL);
        assert_string_equal(focal_ctx_error(r.ctx), cases[n].sentence);
        assert_int_equal(r.count, 0);
    }
    r.ids[50] = VOCAB; /* an id that is none is told, however late */
    assert_status(r.ctx, measure(&r, (focal_ppl_args){.context = 16}, &result), FOCAL_EINVAL);
    focal_model_close(r.model);
}

static void memory_may_run_out(void **state)
{
    rig r;
    focal_ppl_result result;
    open_rig(*state, FOCAL_TEST_DIR "/golden/models/tiny.gguf", &r);
    for (int64_t n = 1;; n++) {
        assert_true(n < 10000);
        focal_ctx_trim(r.ctx);
        const int64_t live = memory_live_blocks();
        memory_fail(n, n % 2 == 0);
        const focal_status status = measure(&r, (focal_ppl_args){.context = 30}, &result);
        const bool was_reached = memory_requests() >= n;
        memory_fail(0, false);
        if (status != FOCAL_OK) assert_status(r.ctx, status, FOCAL_ENOMEM);
        focal_ctx_trim(r.ctx);
        assert_int_equal(memory_live_blocks(), live);
        if (!was_reached) break;
    }
    focal_model_close(r.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(strides_score_every_id_once, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(llama_scores_second_halves, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(callbacks_may_stop_it, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_calls_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_run_out, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("ppl", tests, NULL, NULL);
}
