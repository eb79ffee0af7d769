/* The model is one of memory_model.h whose weights are replaced, each matrix by numbers of its
 * own: there all are one block. */
#include "support/group_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/adapter_files.h"
#include "support/check.h"
#include "support/memory_model.h"

/* Takes numbers from a block. */
typedef struct numbers {
    float *next;
    uint64_t stream;
} numbers;

static const float *take(numbers *from, int64_t count, float middle, float spread)
{
    float *taken = from->next;
    for (int64_t n = 0; n < count; n++)
        taken[n] = middle + spread * foci_random_normal(17, from->stream, (uint64_t)n);
    from->next += count;
    from->stream++;
    return taken;
}

static foci_linear matrix(numbers *from, int32_t N, int32_t K, float gain)
{
    const float *w = take(from, (int64_t)N * K, 0.0F, gain / sqrtf((float)K));
    return (foci_linear){.w = w, .dtype = FOCAL_F32, .N = N, .K = K};
}

static foci_gain gain(numbers *from)
{
    return (foci_gain){.weight = take(from, GROUP_C, 1.0F, 0.1F)};
}

void group_model_open(focal_ctx *ctx, focal_dtype precision, group_model *m)
{
    enum { QUERY = GROUP_H * GROUP_D, KEY = GROUP_G * GROUP_D };
    const foci_config config = {.family = foci_family_of_hf("llama"),
                                .L = GROUP_L,
                                .C = GROUP_C,
                                .H = GROUP_H,
                                .G = GROUP_G,
                                .D = GROUP_D,
                                .F = GROUP_F,
                                .V = GROUP_V,
                                .context = 64,
                                .is_gated = true,
                                .epsilon = 1e-5F,
                                .embed_scale = 1.0F,
                                .attn_scale = 1.0F / sqrtf((float)GROUP_D),
                                .rope = {.rotated = GROUP_D, .base = 10000.0},
                                .rope_local = {.rotated = GROUP_D, .base = 10000.0}};
    const int64_t layer = (int64_t)GROUP_C * (2 * QUERY + 2 * KEY + 3 * GROUP_F + 2);
    m->numbers =
        new_array((size_t)(GROUP_L * layer + (int64_t)GROUP_C * (2 * GROUP_V + 1)), sizeof(float));
    assert_status(ctx, memory_model_from_config(ctx, &config, precision, &m->model), FOCAL_OK);
    numbers from = {m->numbers, 1};
    foci_model_weights *w = &m->model.weights;
    for (int32_t n = 0; n < GROUP_L; n++)
        w->layers[n] = (foci_layer){.attn_norm = gain(&from),
                                    .ffn_norm = gain(&from),
                                    .q = matrix(&from, QUERY, GROUP_C, 1.5F),
                                    .k = matrix(&from, KEY, GROUP_C, 1.5F),
                                    .v = matrix(&from, KEY, GROUP_C, 1.0F),
                                    .out = matrix(&from, GROUP_C, QUERY, 1.0F),
                                    .gate = matrix(&from, GROUP_F, GROUP_C, 1.0F),
                                    .up = matrix(&from, GROUP_F, GROUP_C, 1.0F),
                                    .down = matrix(&from, GROUP_C, GROUP_F, 1.0F)};
    w->embed = matrix(&from, GROUP_V, GROUP_C, 4.0F);
    w->head = matrix(&from, GROUP_V, GROUP_C, 1.0F);
    w->final_norm = gain(&from);
}

void group_model_close(group_model *m)
{
    (void)focal_model_attach(&m->model, NULL, NULL);
    memory_model_release(&m->model);
    free(m->numbers);
}

void group_adapter_open(focal_ctx *ctx, const group_kind *kind, uint64_t seed,
                        focal_adapter *adapter)
{
    static char path[] = "groups";
    foci_groups_shape shape = {.L = GROUP_L,
                               .C = GROUP_C,
                               .H = GROUP_H,
                               .G = GROUP_G,
                               .K = GROUP_K,
                               .R = 4,
                               .routers = kind->routers,
                               .mode = kind->mode,
                               .seed = kind->source == FOCI_GROUPS_RANDOM ? (int64_t)seed : 0,
                               .source = kind->source,
                               .is_raw = kind->is_raw,
                               .has_temperatures = kind->has_temperatures};
    memcpy(shape.layers, kind->layers, sizeof kind->layers);
    *adapter = (focal_adapter){.ctx = ctx, .path = path, .fingerprint = ADAPTER_DIGITS};
    assert_status(ctx, foci_groups_new(ctx, &shape, &adapter->groups), FOCAL_OK);
    foci_groups *groups = adapter->groups;
    for (int64_t n = 0; n < groups->number_count; n++)
        groups->numbers[n] = 0.3F * foci_random_normal(seed, 1, (uint64_t)n);
    groups->top = foci_groups_exist(&shape) ? 2 : 0;
    groups->window = GROUP_WINDOW;
    groups->sinks = GROUP_SINKS;
}

void group_adapter_close(focal_adapter *adapter)
{
    foci_groups_free(adapter->ctx, adapter->groups);
}
