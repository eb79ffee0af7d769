/* The blocks of a training checkpoint: "state", for each parameter its master and moments, and the
 * balance of routers, which moves without a gradient. */
#include "train/state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"

/* Numbers of the block "state", in this order; doubles by their bits. */
enum {
    AT_STEP,
    AT_OPTIMISER_STEPS,
    AT_TOKENS,
    AT_SECONDS,
    AT_STEP_SECONDS,
    AT_LOSS,
    AT_VALID_LOSS,
    AT_VALID_STEP,
    AT_SAMPLED_STEP,
    AT_SHARD_TOKENS,
    AT_SHARD_DOCUMENTS,
    AT_SHARD_FINGERPRINT,
    AT_SHARD_CONTENTS,
    AT_BASE,
    AT_SPIKE_COUNT,
    AT_SPIKE_SKIPS,
    AT_SPIKE_LOSSES,
    AT_COLLAPSE_STEPS = AT_SPIKE_LOSSES + FOCI_SPIKE_LOSSES,
    AT_COLLAPSE_IS_SAID,
    STATE_COUNT,
    STATE_COUNT_BEFORE = AT_COLLAPSE_STEPS /* of checkpoints that lack these two */
};

enum { PARTS = 3 /* master and two moments */ };

static const char *const suffixes[PARTS] = {"", "/first", "/second"};

static int64_t bits_of(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double double_of(int64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

foci_state foci_state_first(const foci_shards_info *shards, const focal_model *base)
{
    return (foci_state){.loss = (double)NAN,
                        .valid_loss = (double)NAN,
                        .shards = *shards,
                        .base = base ? strtoull(focal_model_fingerprint(base), NULL, 16) : 0};
}

static void pack(const foci_state *s, int64_t optimiser_steps, int64_t to[STATE_COUNT])
{
    to[AT_STEP] = s->step;
    to[AT_OPTIMISER_STEPS] = optimiser_steps;
    to[AT_TOKENS] = s->tokens;
    to[AT_SECONDS] = bits_of(s->seconds);
    to[AT_STEP_SECONDS] = bits_of(s->step_seconds);
    to[AT_LOSS] = bits_of(s->loss);
    to[AT_VALID_LOSS] = bits_of(s->valid_loss);
    to[AT_VALID_STEP] = s->valid_step;
    to[AT_SAMPLED_STEP] = s->sampled_step;
    to[AT_SHARD_TOKENS] = s->shards.token_count;
    to[AT_SHARD_DOCUMENTS] = s->shards.document_count;
    to[AT_SHARD_FINGERPRINT] = (int64_t)s->shards.fingerprint;
    to[AT_SHARD_CONTENTS] = (int64_t)s->shards.contents;
    to[AT_BASE] = (int64_t)s->base;
    to[AT_SPIKE_COUNT] = s->spikes.count;
    to[AT_SPIKE_SKIPS] = s->spikes.skips;
    for (int n = 0; n < FOCI_SPIKE_LOSSES; n++)
        to[AT_SPIKE_LOSSES + n] = bits_of(s->spikes.losses[n]);
    to[AT_COLLAPSE_STEPS] = s->collapse.steps;
    to[AT_COLLAPSE_IS_SAID] = s->collapse.is_said;
}

/* FOCAL_EFORMAT on numbers that no run of ours has saved; the shards are looked at elsewhere. */
static focal_status unpack(focal_ctx *ctx, const foci_checkpoint *from,
                           const int64_t data[STATE_COUNT], foci_state *s)
{
    static const int counts[] = {AT_STEP,         AT_OPTIMISER_STEPS, AT_TOKENS,     AT_VALID_STEP,
                                 AT_SAMPLED_STEP, AT_SPIKE_COUNT,     AT_SPIKE_SKIPS};
    for (size_t n = 0; n < FOCAL_COUNT(counts); n++)
        if (data[counts[n]] < 0)
            return foci_fail(ctx, FOCAL_EFORMAT, "%s: number %d of 'state' is %lld",
                             foci_checkpoint_path(from), counts[n], (long long)data[counts[n]]);
    if (data[AT_STEP] != foci_checkpoint_step(from) || data[AT_OPTIMISER_STEPS] > data[AT_STEP])
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: step %lld, of the optimiser %lld",
                         foci_checkpoint_path(from), (long long)data[AT_STEP],
                         (long long)data[AT_OPTIMISER_STEPS]);
    if (data[AT_COLLAPSE_STEPS] > data[AT_STEP] || data[AT_COLLAPSE_STEPS] < -data[AT_STEP])
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: groups collapsed in %lld of %lld steps",
                         foci_checkpoint_path(from), (long long)data[AT_COLLAPSE_STEPS],
                         (long long)data[AT_STEP]);
    s->step = data[AT_STEP];
    s->tokens = data[AT_TOKENS];
    s->seconds = double_of(data[AT_SECONDS]);
    s->step_seconds = double_of(data[AT_STEP_SECONDS]);
    s->loss = double_of(data[AT_LOSS]);
    s->valid_loss = double_of(data[AT_VALID_LOSS]);
    s->valid_step = data[AT_VALID_STEP];
    s->sampled_step = data[AT_SAMPLED_STEP];
    s->spikes.count = data[AT_SPIKE_COUNT];
    s->spikes.skips = data[AT_SPIKE_SKIPS];
    for (int n = 0; n < FOCI_SPIKE_LOSSES; n++)
        s->spikes.losses[n] = double_of(data[AT_SPIKE_LOSSES + n]);
    s->collapse.steps = data[AT_COLLAPSE_STEPS];
    s->collapse.is_said = data[AT_COLLAPSE_IS_SAID] != 0;
    if (!(s->seconds >= 0.0 && s->step_seconds >= 0.0))
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: %g seconds, %g in steps",
                         foci_checkpoint_path(from), s->seconds, s->step_seconds);
    return FOCAL_OK;
}

/* The blocks of a model and their names. */
typedef struct block_list {
    foci_block *blocks; /* (1 + PARTS * param_count + layers with groups) room */
    char (*names)[FOCI_BLOCK_NAME];
    int64_t count;
} block_list;

static void list_free(focal_ctx *ctx, block_list *list)
{
    foci_free(ctx, list->blocks);
    foci_free(ctx, list->names);
}

/* Where part `p` of a parameter lies; NULL: it has none. */
static float *part_of(const foci_optimiser *o, const foci_param *param, int p)
{
    if (p == 0) return param->weights;
    if (!param->gradient) return NULL;
    const bool is_muon = o->options.has_muon && param->is_matrix && param->is_in_layer;
    const size_t at = (size_t)(param->gradient - o->trainable->gradients);
    if (p == 1) return o->first + at;
    return is_muon ? NULL : o->second + at;
}

static focal_status list_blocks(const foci_optimiser *o, const int64_t state[STATE_COUNT],
                                block_list *list)
{
    const foci_trainable *t = o->trainable;
    const size_t layers = t->groups ? (size_t)t->groups->shape.L : 0;
    const size_t room = 1 + PARTS * (size_t)t->param_count + layers;
    list->blocks = foci_alloc(t->ctx, room, sizeof *list->blocks);
    list->names = foci_alloc(t->ctx, room, sizeof *list->names);
    if (!list->blocks || !list->names) return FOCAL_ENOMEM;
    list->blocks[0] = (foci_block){"state", FOCI_BLOCK_I64, 1, {STATE_COUNT}, state};
    list->count = 1;
    for (int32_t n = 0; n < t->param_count; n++) {
        const foci_param *param = &t->params[n];
        for (int p = 0; p < PARTS; p++) {
            const float *data = part_of(o, param, p);
            if (!data) continue;
            char *name = list->names[list->count];
            (void)snprintf(name, FOCI_BLOCK_NAME, "%.100s%s", param->name, suffixes[p]);
            list->blocks[list->count++] =
                (foci_block){name, FOCI_BLOCK_F32, 2, {param->rows, param->cols}, data};
        }
    }
    for (int32_t n = 0; n < (int32_t)layers; n++) {
        const float *beta = t->groups->layers[n].tensors[FOCI_GROUP_BETA];
        if (!beta) continue;
        char *name = list->names[list->count];
        (void)snprintf(name, FOCI_BLOCK_NAME, "layers.%d.router.%s", n,
                       foci_group_tensor_name(FOCI_GROUP_BETA));
        list->blocks[list->count++] = (foci_block){
            name, FOCI_BLOCK_F32, 2, {t->groups->shape.routers, t->groups->shape.K}, beta};
    }
    return FOCAL_OK;
}

focal_status foci_state_save(const foci_optimiser *optimiser, const foci_state *state,
                             const char *folder, const foci_checkpoint_policy *policy)
{
    focal_ctx *ctx = optimiser->trainable->ctx;
    int64_t numbers[STATE_COUNT];
    block_list list = {0};
    pack(state, optimiser->steps, numbers);
    focal_status status = list_blocks(optimiser, numbers, &list);
    if (status == FOCAL_OK)
        status = foci_checkpoint_save(ctx, folder, state->step, list.blocks, list.count, policy);
    list_free(ctx, &list);
    return status;
}

/* All blocks are checked before one is copied into the model. */
static focal_status take_blocks(const foci_checkpoint *from, const block_list *list,
                                foci_optimiser *o)
{
    focal_ctx *ctx = o->trainable->ctx;
    for (int64_t n = 1; n < list->count; n++) {
        const foci_block *like = &list->blocks[n];
        const foci_block *block = foci_checkpoint_find(from, like->name);
        if (block && block->type == like->type && block->dims == like->dims &&
            memcmp(block->shape, like->shape, sizeof block->shape) == 0)
            continue;
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: '%s' is missing or of another shape",
                         foci_checkpoint_path(from), like->name);
    }
    if (foci_checkpoint_count(from) != list->count)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: %lld blocks, this model has %lld",
                         foci_checkpoint_path(from), (long long)foci_checkpoint_count(from),
                         (long long)list->count);
    int64_t n = 1;
    for (int32_t i = 0; i < o->trainable->param_count; i++)
        for (int p = 0; p < PARTS; p++) {
            float *to = part_of(o, &o->trainable->params[i], p);
            if (to) FOCAL_TRY(foci_checkpoint_copy(from, &list->blocks[n++], to));
        }
    const foci_groups *groups = o->trainable->groups;
    for (int32_t i = 0; groups && i < groups->shape.L; i++) {
        float *beta = groups->layers[i].tensors[FOCI_GROUP_BETA];
        if (beta) FOCAL_TRY(foci_checkpoint_copy(from, &list->blocks[n++], beta));
    }
    return FOCAL_OK;
}

/* Steps would go on with other data than those before them. */
static focal_status check_shards(focal_ctx *ctx, const foci_checkpoint *from,
                                 const int64_t numbers[STATE_COUNT], const foci_shards_info *shards)
{
    const bool has_size = numbers[AT_SHARD_TOKENS] == shards->token_count &&
                          numbers[AT_SHARD_DOCUMENTS] == shards->document_count;
    const bool has_tokenizer = numbers[AT_SHARD_FINGERPRINT] == (int64_t)shards->fingerprint;
    if (has_size && has_tokenizer && numbers[AT_SHARD_CONTENTS] == (int64_t)shards->contents)
        return FOCAL_OK;
    return foci_fail(ctx, FOCAL_EINVAL,
                     "%s: made with other shards: %lld tokens in %lld documents, those of "
                     "data.shards have %lld in %lld%s",
                     foci_checkpoint_path(from), (long long)numbers[AT_SHARD_TOKENS],
                     (long long)numbers[AT_SHARD_DOCUMENTS], (long long)shards->token_count,
                     (long long)shards->document_count,
                     !has_tokenizer ? " and another tokenizer"
                     : has_size     ? ", but not the same ones"
                                    : "");
}

/* Numbers that an older checkpoint lacks are 0. */
static focal_status read_numbers(const foci_checkpoint *from, int64_t numbers[STATE_COUNT])
{
    foci_block like = {"state", FOCI_BLOCK_I64, 1, {STATE_COUNT}, NULL};
    const foci_block *block = foci_checkpoint_find(from, like.name);
    memset(numbers, 0, STATE_COUNT * sizeof *numbers);
    if (block && block->shape[0] == STATE_COUNT_BEFORE) like.shape[0] = STATE_COUNT_BEFORE;
    return foci_checkpoint_copy(from, &like, numbers);
}

static focal_status take(const foci_checkpoint *from, foci_optimiser *o, foci_state *state)
{
    focal_ctx *ctx = o->trainable->ctx;
    int64_t numbers[STATE_COUNT];
    foci_state taken = *state;
    FOCAL_TRY(read_numbers(from, numbers));
    FOCAL_TRY(unpack(ctx, from, numbers, &taken));
    FOCAL_TRY(check_shards(ctx, from, numbers, &state->shards));
    if (numbers[AT_BASE] != (int64_t)state->base)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "%s: fitted to a model with fingerprint %016llx, that of start.from now "
                         "has %016llx",
                         foci_checkpoint_path(from), (unsigned long long)numbers[AT_BASE],
                         (unsigned long long)state->base);
    block_list list = {0};
    focal_status status = list_blocks(o, numbers, &list);
    if (status == FOCAL_OK) status = take_blocks(from, &list, o);
    list_free(ctx, &list);
    if (status != FOCAL_OK) return status;
    o->steps = numbers[AT_OPTIMISER_STEPS];
    foci_trainable_round(o->trainable);
    *state = taken;
    return FOCAL_OK;
}

focal_status foci_state_load(foci_optimiser *optimiser, foci_state *state, const char *folder,
                             bool *is_found, char note[FOCI_CHECKPOINT_NOTE])
{
    focal_ctx *ctx = optimiser->trainable->ctx;
    foci_checkpoint *checkpoint = NULL;
    FOCAL_TRY(foci_checkpoint_newest(ctx, folder, &checkpoint, note));
    *is_found = checkpoint != NULL;
    if (!checkpoint) return FOCAL_OK;
    const focal_status status = take(checkpoint, optimiser, state);
    foci_checkpoint_close(checkpoint);
    return status;
}
