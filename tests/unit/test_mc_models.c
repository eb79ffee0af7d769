/* Multiple choice on SmolLM2 against transformers in float32 (tools/golden_mc.py).
 *
 * FOCAL_TEST_MODELS is a folder with the GGUF file; the test is skipped without. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "focal/eval.h"
#include "support/folder.h"
#include "support/golden_tokenizer.h"

#define GOLDEN FOCAL_TEST_DIR "/golden/mc/"

static const char file[] = "SmolLM2-135M-Instruct.Q4_1.gguf";
static const double limit = 1e-4; /* nats a token */

typedef struct comparison {
    const foci_json *rows; /* of expected values, one an item */
    double farthest;
} comparison;

static bool compare(void *user, const focal_mc_score *score)
{
    comparison *c = user;
    const foci_json *row = foci_json_at(c->rows, score->done - 1);
    const foci_json *logprob = foci_json_get(row, "logprob"),
                    *tokens = foci_json_get(row, "tokens");
    assert_int_equal(foci_json_count(logprob), score->item->choice_count);
    for (int32_t n = 0; n < score->item->choice_count; n++) {
        const int64_t count = foci_json_int(foci_json_at(tokens, n), -1);
        const double expected = foci_json_real(foci_json_at(logprob, n), (double)NAN);
        const double gap = fabs(score->logprob[n] - expected) / (double)count;
        if (score->tokens[n] != count || !(gap <= limit))
            fail_msg("line %lld, choice %d: %.6f of %d tokens, transformers has %.6f of %lld",
                     (long long)score->item->line, n, score->logprob[n], score->tokens[n], expected,
                     (long long)count);
        if (gap > c->farthest) c->farthest = gap;
    }
    return true;
}

static void check_items(focal_model *model, const foci_json *rows, focal_mc_options options)
{
    focal_ctx *ctx = focal_model_ctx(model);
    const focal_mc_source source = {.path = GOLDEN "items.jsonl"};
    comparison c = {.rows = rows};
    focal_mc_set *set = NULL;
    focal_mc_result result;
    options.on_item = compare;
    options.user = &c;
    assert_status(ctx, focal_mc_open(ctx, &source, &set), FOCAL_OK);
    assert_status(ctx, focal_mc(model, set, &options, &result), FOCAL_OK);
    assert_int_equal(result.count, foci_json_count(rows));
    focal_mc_close(set);
    print_message("%lld items, at most %.6f nats a token from transformers\n",
                  (long long)result.count, c.farthest);
}

static void smollm2_chooses_as_in_transformers(void **state)
{
    static const char how[] = "FOCAL_TEST_MODELS names the folder that has it (docs/TESTING.md)";
    const char *root = getenv("FOCAL_TEST_MODELS");
    char path[1024];
    if (!root || !*root) skip_without(file, how);
    (void)snprintf(path, sizeof path, "%s/%s", root ? root : "", file);
    if (access(path, R_OK) != 0) skip_without(path, how);
    const focal_model_options precision = {FOCAL_F32, true};
    focal_model *model = NULL;
    size_t bytes = 0;
    char *prefix = read_bytes(GOLDEN "prefix.txt", &bytes);
    foci_json *golden = json_file(*state, GOLDEN "smollm2.json");
    assert_status(*state, focal_model_open(*state, path, &precision, &model), FOCAL_OK);
    focal_mc_options options = {0};
    check_items(model, foci_json_get(golden, "alone"), options);
    options.prefix = prefix;
    options.prefix_bytes = bytes;
    check_items(model, foci_json_get(golden, "behind"), options);
    options.prefix_tokens = (int32_t)foci_json_int(foci_json_get(golden, "prefix_tokens"), 0);
    check_items(model, foci_json_get(golden, "behind_end"), options);
    focal_model_close(model);
    foci_json_free(golden);
    free(prefix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(smollm2_chooses_as_in_transformers, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("mc_models", tests, NULL, NULL);
}
