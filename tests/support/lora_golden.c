/* LoRA adapters for tests, and the logits that peft gives with them. */
#include "support/lora_golden.h"

#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/adapter_layout.h"
#include "support/golden.h"

enum { PATH_BYTES = 512 };

static const char *golden_path(const char *folder_name, const char *name)
{
    static char paths[2][PATH_BYTES];
    static int turn;
    char *path = paths[turn++ % 2];
    (void)snprintf(path, PATH_BYTES, "%s/golden/%s/%s", FOCAL_TEST_DIR, folder_name, name);
    return path;
}

const char *lora_path(const char *name)
{
    return golden_path("adapters", name);
}

const char *lora_model_path(const char *name)
{
    return golden_path("models", name);
}

folder lora_copy(const char *name)
{
    static const char *const files[] = {FOCI_ADAPTER_CONFIG, FOCI_ADAPTER_TENSORS};
    const folder f = folder_new();
    for (size_t n = 0; n < FOCAL_COUNT(files); n++) {
        char path[PATH_BYTES + 64];
        size_t bytes = 0;
        (void)snprintf(path, sizeof path, "%s/%s", lora_path(name), files[n]);
        void *data = read_bytes(path, &bytes);
        write_bytes(folder_file(&f, files[n]), data, bytes);
        free(data);
    }
    return f;
}

focal_model *lora_open_model(focal_ctx *ctx, const char *path, focal_dtype precision)
{
    focal_model *model = NULL;
    const focal_model_options options = {.precision = precision, .has_precision = true};
    assert_status(ctx, focal_model_open(ctx, path, &options, &model), FOCAL_OK);
    return model;
}

void lora_logits(focal_model *model, const int32_t *ids, float *logits)
{
    enum { FIRST = 31 };
    focal_cache *cache = NULL;
    assert_int_equal(focal_cache_new(model, NULL, &cache), FOCAL_OK);
    const focal_batch_item parts[] = {{0, FIRST, ids, FIRST},
                                      {0, LORA_TOKENS - FIRST, ids + FIRST, LORA_TOKENS - FIRST}};
    for (int n = 0; n < 2; n++) {
        focal_forward_args args = {.item_count = 1, .items = &parts[n]};
        args.logits = logits + (ptrdiff_t)n * FIRST * LORA_VOCAB;
        assert_int_equal(focal_forward(model, cache, &args), FOCAL_OK);
    }
    focal_cache_free(cache);
}

void lora_read_expected(const char *name, lora_expected *to)
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "adapters/%s/expected", name);
    golden *g = golden_open(path);
    const double *ids = golden_get(&g->cases[0], "ids", LORA_TOKENS);
    for (int n = 0; n < LORA_TOKENS; n++) to->ids[n] = (int32_t)ids[n];
    memcpy(to->logits, golden_get(&g->cases[0], "logits", (int64_t)LORA_TOKENS * LORA_VOCAB),
           sizeof to->logits);
    golden_close(g);
}

double lora_distance(const float *got, const double *want)
{
    double far = 0.0, largest = 0.0;
    for (int n = 0; n < LORA_TOKENS * LORA_VOCAB; n++) {
        far = fmax(far, fabs((double)got[n] - want[n]));
        largest = fmax(largest, fabs(want[n]));
    }
    return far / largest;
}
