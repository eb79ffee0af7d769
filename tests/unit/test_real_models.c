/* Real models against the figures of other programs: losses, perplexities and greedy texts.
 *
 * FOCAL_TEST_MODELS is a folder with the GGUF files, FOCAL_TEST_DATA one with the expected values
 * (smollm2.json, other-models.json) and FOCAL_TEST_TEXTS one with books/val/NAME.txt and
 * text/wikitext2_valid.txt. FOCAL_TEST_ADAPTER is the folder that tools/golden_adapter.py wrote, in
 * f32. What is not there is skipped. FOCAL_TEST_LONG=1 takes every value that
 * the files have, else the first of each list. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "focal/adapter.h"
#include "focal/eval.h"
#include "focal/generate.h"
#include "model/cache.h"
#include "ops/route/keyset.h"
#include "support/folder.h"
#include "support/golden_tokenizer.h"

static const char smollm2[] = "SmolLM2-135M-Instruct.Q4_1.gguf";

enum { PATH_BYTES = 1024, NOVEL_IDS = 2049, CHUNK = 512, CONTEXT = 2048 };

/* How far a path of each precision may be from the float32 of others. */
typedef struct limits {
    const char *name;
    focal_dtype precision;
    double loss;       /* nats */
    double perplexity; /* of itself */
} limits;

static const limits paths[] = {{"f32", FOCAL_F32, 0.0005, 0.0005},
                               {"bf16", FOCAL_BF16, 0.005, 0.003}};

typedef struct place {
    char path[PATH_BYTES];
} place;

/* What lies under the folder that a variable names; skips the test when it is not there. */
static place need(const char *variable, const char *name)
{
    const char *root = getenv(variable);
    char how[PATH_BYTES];
    place found;
    (void)snprintf(how, sizeof how, "%s names the folder that has it (docs/TESTING.md)", variable);
    if (!root || !*root) skip_without(name, how);
    (void)snprintf(found.path, sizeof found.path, "%s/%s", root ? root : "", name);
    if (access(found.path, R_OK) != 0) skip_without(found.path, how);
    return found;
}

static bool is_long(void)
{
    const char *value = getenv("FOCAL_TEST_LONG");
    return value && strcmp(value, "1") == 0;
}

/* A context of its own: threads as many as the machine has, memory not counted. */
static focal_model *open_model(const char *path, focal_dtype precision)
{
    const focal_model_options options = {precision, true};
    focal_ctx *ctx = NULL;
    focal_model *model = NULL;
    assert_int_equal(focal_ctx_open(NULL, &ctx, NULL), FOCAL_OK);
    assert_status(ctx, focal_model_open(ctx, path, &options, &model), FOCAL_OK);
    return model;
}

static void close_model(focal_model *model)
{
    focal_ctx *ctx = focal_model_ctx(model);
    focal_model_close(model);
    focal_ctx_close(ctx);
}

static focal_ids encode_file(const focal_model *model, const char *path, unsigned flags)
{
    focal_ctx *ctx = focal_model_ctx(model);
    size_t bytes = 0;
    focal_ids ids = {0};
    char *text = read_bytes(path, &bytes);
    assert_status(
        ctx, focal_tokenizer_encode(ctx, focal_model_tokenizer(model), text, bytes, flags, &ids),
        FOCAL_OK);
    free(text);
    return ids;
}

static void assert_near(const char *what, double got, double expected, double limit)
{
    print_message("%s: %.6f, expected %.6f\n", what, got, expected);
    if (!(fabs(got - expected) <= limit))
        fail_msg("%s: %.6f is %.6f from %.6f, allowed are %.6f", what, got, fabs(got - expected),
                 expected, limit);
}

/* The mean loss of predictions [from, to) against a golden member. */
static void check_mean(const char *what, const double *nll, int from, int to, const foci_json *item,
                       const char *key, double limit)
{
    char name[2 * PATH_BYTES];
    double sum = 0.0;
    for (int n = from; n < to; n++) sum += nll[n];
    (void)snprintf(name, sizeof name, "%s, %s", what, key);
    assert_near(name, sum / (to - from), foci_json_real(foci_json_get(item, key), (double)NAN),
                limit);
}

static void check_novel(focal_model *model, const limits *path, const foci_json *item)
{
    focal_ctx *ctx = focal_model_ctx(model);
    const char *name = foci_json_string(foci_json_get(item, "file"));
    char file[PATH_BYTES], what[PATH_BYTES];
    static double nll[NOVEL_IDS];
    focal_cache *cache = NULL;
    (void)snprintf(file, sizeof file, "books/val/%s.txt", name);
    (void)snprintf(what, sizeof what, "%s, %s", path->name, name);
    focal_ids ids = encode_file(model, need("FOCAL_TEST_TEXTS", file).path, 0);
    assert_int_equal(ids.count, foci_json_int(foci_json_get(item, "ids_in_file"), -1));
    const foci_json *first = foci_json_get(item, "first_128_ids");
    for (int64_t n = 0; n < foci_json_count(first); n++)
        assert_int_equal(ids.ids[n], foci_json_int(foci_json_at(first, n), -1));
    assert_status(ctx, focal_cache_new(model, NULL, &cache), FOCAL_OK);
    for (int32_t done = 0; done < NOVEL_IDS - 1; done += CHUNK) {
        const focal_batch_item part = {0, CHUNK, ids.ids + done, 0};
        const focal_forward_args args = {
            .item_count = 1, .items = &part, .targets = ids.ids + done + 1, .nll = nll + done};
        assert_status(ctx, focal_forward(model, cache, &args), FOCAL_OK);
    }
    focal_cache_free(cache);
    focal_ids_free(ctx, &ids);
    check_mean(what, nll, 0, NOVEL_IDS - 1, item, "nll", path->loss);
    check_mean(what, nll, 0, 256, item, "nll_first_256", path->loss);
    check_mean(what, nll, 1024, NOVEL_IDS - 1, item, "nll_last_1024", path->loss);
}

static void smollm2_loses_as_little(void **state)
{
    const place golden = need("FOCAL_TEST_DATA", "smollm2.json");
    const place file = need("FOCAL_TEST_MODELS", smollm2);
    (void)need("FOCAL_TEST_TEXTS", "books/val");
    foci_json *root = json_file(*state, golden.path);
    const foci_json *items = foci_json_get(foci_json_get(root, "novels"), "items");
    assert_int_equal(foci_json_count(items), 4);
    for (size_t p = 0; p < FOCAL_COUNT(paths); p++) {
        focal_model *model = open_model(file.path, paths[p].precision);
        for (int64_t n = 0; n < (is_long() ? foci_json_count(items) : 2); n++)
            check_novel(model, &paths[p], foci_json_at(items, n));
        close_model(model);
    }
    foci_json_free(root);
}

/* One continuation: ids equal or, on the fast path, a near tie where they part. */
static void check_greedy(focal_model *model, const limits *path, const foci_json *item)
{
    focal_ctx *ctx = focal_model_ctx(model);
    const char *name = foci_json_string(foci_json_get(item, "name"));
    const foci_json *prompt = foci_json_get(item, "prompt");
    const foci_json *expected = foci_json_get(item, "ids");
    const int32_t V = focal_model_describe(model).V;
    float *logits = new_array((size_t)V, sizeof *logits);
    focal_ids ids = {0};
    focal_cache *cache = NULL;
    assert_encodes(ctx, focal_model_tokenizer(model), name, prompt, FOCAL_ENCODE_PARSE_SPECIAL,
                   foci_json_get(item, "prompt_ids"));
    assert_status(ctx,
                  focal_tokenizer_encode(ctx, focal_model_tokenizer(model),
                                         foci_json_string(prompt), foci_json_length(prompt),
                                         FOCAL_ENCODE_PARSE_SPECIAL, &ids),
                  FOCAL_OK);
    assert_status(ctx, focal_cache_new(model, NULL, &cache), FOCAL_OK);
    focal_batch_item part = {0, (int32_t)ids.count, ids.ids, 1};
    int64_t n = 0;
    for (; n < foci_json_count(expected); n++) {
        const focal_forward_args args = {.item_count = 1, .items = &part, .logits = logits};
        assert_status(ctx, focal_forward(model, cache, &args), FOCAL_OK);
        const int32_t right = (int32_t)foci_json_int(foci_json_at(expected, n), -1);
        int32_t id = 0;
        for (int32_t v = 1; v < V; v++)
            if (logits[v] > logits[id]) id = v;
        const double gap = (double)logits[id] - (double)logits[right];
        if (id != right && (path->precision == FOCAL_F32 || gap >= 0.1))
            fail_msg("%s, %s: id %lld is %d, expected %d, %.3f nats behind", path->name, name,
                     (long long)n, id, right, gap);
        if (id != right) break;
        ids.ids[0] = id;
        part.count = 1;
    }
    print_message("%s, %s: %lld of %lld ids equal\n", path->name, name, (long long)n,
                  (long long)foci_json_count(expected));
    focal_cache_free(cache);
    focal_ids_free(ctx, &ids);
    free(logits);
}

static void smollm2_goes_on_alike(void **state)
{
    const place golden = need("FOCAL_TEST_DATA", "smollm2.json");
    const place file = need("FOCAL_TEST_MODELS", smollm2);
    foci_json *root = json_file(*state, golden.path);
    const foci_json *items = foci_json_get(foci_json_get(root, "greedy"), "items");
    assert_true(foci_json_count(items) > 0);
    for (size_t p = 0; p < FOCAL_COUNT(paths); p++) {
        focal_model *model = open_model(file.path, paths[p].precision);
        for (int64_t n = 0; n < foci_json_count(items); n++)
            check_greedy(model, &paths[p], foci_json_at(items, n));
        close_model(model);
    }
    foci_json_free(root);
}

typedef struct running {
    const char *what;
    const foci_json *expected;
    double limit;
} running;

static bool on_chunk(void *user, int64_t chunk, int64_t chunk_count, double perplexity)
{
    const running *r = user;
    char name[256];
    const double expected = foci_json_real(foci_json_at(r->expected, chunk), (double)NAN);
    (void)chunk_count;
    (void)snprintf(name, sizeof name, "%.200s, chunk %lld", r->what, (long long)chunk + 1);
    assert_near(name, perplexity, expected, r->limit * expected);
    return true;
}

/* Running perplexities of a file, as llama-perplexity defines them. */
static void check_perplexity(const char *file, const foci_json *expected)
{
    assert_true(foci_json_count(expected) > 0);
    for (size_t p = 0; p < FOCAL_COUNT(paths); p++) {
        char what[256];
        (void)snprintf(what, sizeof what, "%s, %.100s", paths[p].name, file);
        running r = {what, expected, paths[p].perplexity};
        focal_model *model = open_model(need("FOCAL_TEST_MODELS", file).path, paths[p].precision);
        focal_ids ids =
            encode_file(model, need("FOCAL_TEST_TEXTS", "text/wikitext2_valid.txt").path,
                        FOCAL_ENCODE_ADD_SPECIAL);
        const focal_ppl_args args = {.method = FOCAL_PPL_LLAMA,
                                     .ids = ids.ids,
                                     .count = ids.count,
                                     .context = CONTEXT,
                                     .chunks = is_long() ? foci_json_count(expected) : 1,
                                     .on_chunk = on_chunk,
                                     .user = &r};
        focal_ppl_result result;
        assert_status(focal_model_ctx(model), focal_ppl(model, &args, &result), FOCAL_OK);
        focal_ids_free(focal_model_ctx(model), &ids);
        close_model(model);
    }
}

/* The member of a file of expected values that has the perplexities of a model. */
static void check_model(focal_ctx *ctx, const char *file, const char *golden, const char *object,
                        const char *key)
{
    const place expected = need("FOCAL_TEST_DATA", golden);
    (void)need("FOCAL_TEST_MODELS", file);
    (void)need("FOCAL_TEST_TEXTS", "text/wikitext2_valid.txt");
    foci_json *root = json_file(ctx, expected.path);
    check_perplexity(file, foci_json_get(foci_json_get(root, object), key));
    foci_json_free(root);
}

static void smollm2_has_its_perplexity(void **state)
{
    check_model(*state, smollm2, "smollm2.json", "wikitext2_valid", "c2048_f32");
}

/* What two other implementations agree on, with groups as in docs/MATH.md, 3.3. Near ties flip, so
 * losses with groups agree less. */
typedef struct routed_loss {
    const char *name;
    focal_attach_options options;
    double losses[2], limit;
} routed_loss;

static const char *const routed_novels[] = {"ENG19010_Mason", "ENG18411_Tupper"};
static const routed_loss routed[] = {
    {"dense", {.has_no_groups = true, .has_no_temperatures = true}, {3.308071, 4.116601}, 2e-5},
    {"window and sinks",
     {.has_no_distant = true, .has_no_temperatures = true},
     {3.475303, 4.272182},
     2e-5},
    {"k 2", {.top = 2}, {3.316602, 4.136178}, 5e-4},
    {"k 4", {.top = 4}, {3.309374, 4.125582}, 5e-4},
    {"k 16", {.top = 16}, {3.307060, 4.118408}, 2e-5},
    {"temperatures", {.has_no_groups = true}, {3.307060, 4.118408}, 2e-5},
};

/* Layer 0, key head 0 of the first novel. */
static void check_groups(const focal_cache *cache)
{
    static const int32_t keys[] = {5, 2, 6, 14, 14, 5, 8, 0, 1, 0, 1, 0, 12, 14, 14, 7};
    const focal_keyset *set = cache->seqs[0].chains->layers[0].set;
    for (size_t j = 0; j < FOCAL_COUNT(keys); j++)
        assert_int_equal(__builtin_ctzll(set->key_mask[j]), keys[j]);
    const uint64_t last = set->query_mask[set->T - 1];
    assert_true(last == (1U << 11 | 1U << 3 | 1U << 5 | 1U << 7));
}

static double routed_nll(focal_model *model, const int32_t *ids, bool has_groups)
{
    static double nll[NOVEL_IDS];
    focal_ctx *ctx = focal_model_ctx(model);
    focal_cache *cache = NULL;
    double sum = 0.0;
    assert_status(ctx, focal_cache_new(model, NULL, &cache), FOCAL_OK);
    for (int32_t done = 0; done < NOVEL_IDS - 1; done += CHUNK) {
        const focal_batch_item part = {0, CHUNK, ids + done, 0};
        const focal_forward_args args = {
            .item_count = 1, .items = &part, .targets = ids + done + 1, .nll = nll + done};
        assert_status(ctx, focal_forward(model, cache, &args), FOCAL_OK);
    }
    if (has_groups) check_groups(cache);
    focal_cache_free(cache);
    for (int n = 0; n < NOVEL_IDS - 1; n++) sum += nll[n];
    return sum / (NOVEL_IDS - 1);
}

static void smollm2_runs_with_the_golden_router(void **state)
{
    (void)state;
    const place adapter = need("FOCAL_TEST_ADAPTER", ".");
    const place file = need("FOCAL_TEST_MODELS", smollm2);
    focal_model *model = open_model(file.path, FOCAL_F32);
    focal_ctx *ctx = focal_model_ctx(model);
    for (int novel = 0; novel < 2; novel++) {
        char name[PATH_BYTES];
        (void)snprintf(name, sizeof name, "books/val/%s.txt", routed_novels[novel]);
        focal_ids ids = encode_file(model, need("FOCAL_TEST_TEXTS", name).path, 0);
        for (size_t n = 0; n < FOCAL_COUNT(routed); n++) {
            const routed_loss *r = &routed[n];
            assert_status(ctx, focal_model_adapt(model, adapter.path, &r->options), FOCAL_OK);
            (void)snprintf(name, sizeof name, "%s, %s", routed_novels[novel], r->name);
            const double loss = routed_nll(model, ids.ids, novel == 0 && r->options.top == 4);
            assert_near(name, loss, r->losses[novel], r->limit);
        }
        focal_ids_free(ctx, &ids);
    }
    close_model(model);
}

static void gemma3_has_its_perplexity(void **state)
{
    static const char file[] = "gemma-3-270m-q4_k_m.gguf";
    check_model(*state, file, "other-models.json", file, "ppl_f32");
}

static void qwen2_has_its_perplexity(void **state)
{
    static const char file[] = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf";
    check_model(*state, file, "other-models.json", file, "ppl_f32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(smollm2_loses_as_little, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(smollm2_goes_on_alike, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(smollm2_has_its_perplexity, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(smollm2_runs_with_the_golden_router, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(gemma3_has_its_perplexity, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(qwen2_has_its_perplexity, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("real_models", tests, NULL, NULL);
}
