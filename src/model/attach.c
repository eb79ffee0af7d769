/* A model that runs with an adapter: its routers, and its temperatures in place of 1 or beside
 * the model's constant; or what LoRA adds to its linear layers. */
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/hash.h"
#include "model/adapter.h"
#include "model/layer_temperature.h"
#include "model/lora_files.h"
#include "model/low_rank_model.h"

enum { NAMED_BYTES = FOCI_BASE_NAME_BYTES + 8 };

/* Names of the adapter's model and of this one as they stand behind a noun: " ('name')", or nothing
 * where there is no name. */
typedef struct both_names {
    char theirs[NAMED_BYTES], ours[NAMED_BYTES];
} both_names;

static void put_name(char out[NAMED_BYTES], const char *name, size_t bytes)
{
    const size_t most = FOCI_BASE_NAME_BYTES - 1;
    out[0] = '\0';
    if (bytes > 0)
        (void)snprintf(out, NAMED_BYTES, " ('%.*s')", (int)(bytes < most ? bytes : most), name);
}

/* A model whose file gives no name is called by the last part of its path. */
static both_names find_names(const focal_model *model, const focal_adapter *adapter)
{
    both_names names = {.ours = ""};
    const char *ours = model->name;
    size_t bytes = strlen(ours);
    if (bytes == 0 && model->path) {
        ours = model->path;
        bytes = strlen(ours);
        while (bytes > 1 && ours[bytes - 1] == '/') bytes--;
        size_t begin = bytes;
        while (begin > 0 && ours[begin - 1] != '/') begin--;
        ours += begin;
        bytes -= begin;
    }
    put_name(names.ours, ours, bytes);
    put_name(names.theirs, adapter->base, strlen(adapter->base));
    return names;
}

static focal_status refuse_size(const focal_model *model, const focal_adapter *adapter,
                                const char *what, int32_t theirs, int32_t ours)
{
    const both_names names = find_names(model, adapter);
    return foci_fail(model->ctx, FOCAL_EINVAL,
                     "%s: fitted to a model%s of %s %d, this one%s has %d", adapter->path,
                     names.theirs, what, theirs, names.ours, ours);
}

/* The last check: what it can find has no number of its own in the adapter's files. */
static focal_status check_fingerprint(const focal_model *model, const focal_adapter *adapter)
{
    if (strcmp(adapter->fingerprint, model->fingerprint) == 0) return FOCAL_OK;
    const both_names names = find_names(model, adapter);
    return foci_fail(model->ctx, FOCAL_EINVAL,
                     "%s: fitted to another model%s of fingerprint %s, this one%s has %s: the "
                     "vocabulary, the norms or the width of heads or MLP differ",
                     adapter->path, names.theirs, adapter->fingerprint, names.ours,
                     model->fingerprint);
}

/* ---- Groups ---- */

/* Says in what the model that an adapter was fitted to differs from this. */
static focal_status check_base(const focal_model *model, const focal_adapter *adapter)
{
    const foci_config *c = &model->config;
    const foci_groups_shape *s = &adapter->groups->shape;
    const struct {
        const char *what;
        int32_t theirs, ours;
    } sizes[] = {{"layers", s->L, c->L},
                 {"width", s->C, c->C},
                 {"query heads", s->H, c->H},
                 {"key heads", s->G, c->G}};
    for (size_t n = 0; n < FOCAL_COUNT(sizes); n++)
        if (sizes[n].theirs != sizes[n].ours)
            return refuse_size(model, adapter, sizes[n].what, sizes[n].theirs, sizes[n].ours);
    for (int32_t n = 0; n < c->L; n++)
        if (s->layers[n] && c->is_local[n])
            return foci_fail(model->ctx, FOCAL_EINVAL,
                             "%s: a router for layer %d, which has a window in this model",
                             adapter->path, n);
    return check_fingerprint(model, adapter);
}

static focal_status choose_use(const focal_model *model, const focal_adapter *adapter,
                               const focal_attach_options *o, foci_groups_use *use)
{
    const foci_groups *groups = adapter->groups;
    if (o->top > 0 && !foci_groups_exist(&groups->shape))
        return foci_fail(model->ctx, FOCAL_EINVAL,
                         "%s: a query cannot look into %d groups, the adapter has none",
                         adapter->path, o->top);
    const int32_t own = groups->top > 0 ? groups->top : 1; /* not used where it is 0 */
    *use = (foci_groups_use){.top = o->top > 0 ? o->top : own,
                             .window = o->has_window ? o->window : groups->window,
                             .sinks = o->has_sinks ? o->sinks : groups->sinks};
    if (o->top < 0 || use->top > groups->shape.K)
        return foci_fail(model->ctx, FOCAL_EINVAL,
                         "%s: a query cannot look into %d groups, the adapter has %d",
                         adapter->path, o->top, groups->shape.K);
    if (use->window < 0 || use->window > FOCI_MAX_CONTEXT || use->sinks < 0 ||
        use->sinks > FOCI_MAX_CONTEXT)
        return foci_fail(model->ctx, FOCAL_EINVAL, "%s: window %d and sinks %d, 0 to %d each",
                         adapter->path, use->window, use->sinks, FOCI_MAX_CONTEXT);
    return FOCAL_OK;
}

/* What would be asked for and do nothing. */
static focal_status check_parts(const focal_model *model, const focal_adapter *adapter,
                                const focal_attach_options *o, bool has_layers)
{
    const bool sees_all = !has_layers || o->has_no_groups;
    if (o->has_no_groups && !adapter->groups->shape.has_temperatures)
        return foci_fail(model->ctx, FOCAL_EINVAL, "%s: the adapter has no temperatures",
                         adapter->path);
    if (o->has_no_temperatures && !has_layers)
        return foci_fail(model->ctx, FOCAL_EINVAL, "%s: the adapter has temperatures alone",
                         adapter->path);
    if (sees_all && (o->top != 0 || o->has_no_distant || o->has_window || o->has_sinks))
        return foci_fail(model->ctx, FOCAL_EINVAL,
                         "%s: temperatures alone see all keys: they take no top, window or sinks",
                         adapter->path);
    return FOCAL_OK;
}

static void detach(focal_model *model)
{
    foci_free(model->ctx, model->adapter_temperatures);
    model->adapter_temperatures = NULL;
    if (model->adapter_low_ranks) foci_model_set_low_ranks(model, NULL);
    foci_low_ranks_free(model->ctx, model->adapter_low_ranks);
    model->adapter_low_ranks = NULL;
    model->groups = model->near = model->scaled = NULL;
    model->use = (foci_groups_use){0};
    model->adapter_hash = 0;
}

static focal_status new_temperatures(const focal_model *model, const focal_adapter *adapter,
                                     foci_temperature **out)
{
    FOCAL_TRY(foci_check_second_temperature(model, adapter->path));
    foci_temperature *temperatures =
        foci_alloc(model->ctx, (size_t)model->config.L, sizeof *temperatures);
    if (!temperatures) return FOCAL_ENOMEM;
    for (int32_t n = 0; n < model->config.L; n++)
        temperatures[n] =
            (foci_temperature){.kind = FOCI_TEMPERATURE_PER_HEAD,
                               .lt = adapter->groups->layers[n].tensors[FOCI_GROUP_LT]};
    *out = temperatures;
    return FOCAL_OK;
}

/* Four bytes at a time. */
static uint64_t hash_numbers(uint64_t hash, const void *numbers, int64_t count)
{
    const char *from = numbers;
    for (int64_t n = 0; n < count; n++) {
        uint32_t number;
        memcpy(&number, from + n * (int64_t)sizeof number, sizeof number);
        hash = foci_hash_one(hash, number);
    }
    return hash;
}

/* A name for everything of an adapter that keys and values depend on; never 0. */
static uint64_t hash_adapter(const focal_model *model, const foci_groups *groups)
{
    const foci_groups_shape *s = &groups->shape;
    const foci_groups_use *use = &model->use;
    const int32_t settings[] = {s->K,
                                s->R,
                                s->routers,
                                (int32_t)s->mode,
                                s->is_raw,
                                (int32_t)s->source,
                                (int32_t)(s->seed >> 32),
                                (int32_t)s->seed,
                                model->groups != NULL,
                                model->near != NULL,
                                model->scaled != NULL,
                                model->adapter_temperatures != NULL,
                                use->top,
                                use->window,
                                use->sinks};
    uint64_t hash = hash_numbers(FOCI_HASH_BEGIN, settings, (int64_t)FOCAL_COUNT(settings));
    for (int32_t n = 0; n < s->L; n++) hash = foci_hash_one(hash, s->layers[n]);
    return hash_numbers(hash, groups->numbers, groups->number_count) | 1U;
}

static focal_status attach_groups(focal_model *model, const focal_adapter *adapter,
                                  const focal_attach_options *options)
{
    const focal_attach_options o = options ? *options : (focal_attach_options){0};
    foci_groups_use use = {0};
    foci_temperature *temperatures = NULL;
    bool has_layers = false;
    FOCAL_TRY(check_base(model, adapter));
    for (int32_t n = 0; n < model->config.L; n++) has_layers |= adapter->groups->shape.layers[n];
    FOCAL_TRY(check_parts(model, adapter, &o, has_layers));
    FOCAL_TRY(choose_use(model, adapter, &o, &use));
    if (adapter->groups->shape.has_temperatures && !o.has_no_temperatures)
        FOCAL_TRY(new_temperatures(model, adapter, &temperatures));
    detach(model);
    model->adapter_temperatures = temperatures;
    if (has_layers && !o.has_no_groups) {
        const bool is_scaled = adapter->groups->shape.source == FOCI_GROUPS_SCALE;
        if (is_scaled && !o.has_no_distant)
            model->scaled = adapter->groups;
        else if (o.has_no_distant || (o.top == 0 && adapter->groups->top == 0))
            model->near = adapter->groups;
        else
            model->groups = adapter->groups;
        model->use = use;
    }
    if (model->groups || model->near || model->scaled || model->adapter_temperatures)
        model->adapter_hash = hash_adapter(model, adapter->groups);
    return FOCAL_OK;
}

/* ---- LoRA ---- */

static focal_status check_options(const focal_model *model, const focal_adapter *adapter,
                                  const focal_attach_options *o)
{
    if (!o || !(o->top != 0 || o->has_window || o->has_sinks || o->has_no_distant ||
                o->has_no_groups || o->has_no_temperatures))
        return FOCAL_OK;
    return foci_fail(model->ctx, FOCAL_EINVAL,
                     "%s: LoRA has no groups: it takes no top, window, sinks or part",
                     adapter->path);
}

/* The layers that it adds to must be there, in its sizes. */
static focal_status check_layers(const focal_model *model, const focal_adapter *adapter)
{
    focal_ctx *ctx = model->ctx;
    const foci_low_ranks *low_ranks = adapter->low_ranks;
    const int32_t L = model->config.L;
    if (low_ranks->L > L || (adapter->is_whole && low_ranks->L != L))
        return refuse_size(model, adapter, "layers", low_ranks->L, L);
    for (int32_t n = 0; n < low_ranks->L; n++)
        for (int at = 0; at < FOCI_LINEAR_PLACES; at++) {
            const foci_linear_place place = (foci_linear_place)at;
            const foci_low_rank *low = &low_ranks->layers[n][place];
            const foci_linear *w = foci_layer_linear(&model->weights.layers[n], place);
            if (!low->a) continue;
            const char *part = foci_lora_part(adapter->names, place);
            if (!w->w)
                return foci_fail(ctx, FOCAL_EINVAL, "%s: it adds to %s, which this model has not",
                                 adapter->path, part);
            if (low->N != w->N || low->K != w->K)
                return foci_fail(ctx, FOCAL_EINVAL,
                                 "%s: fitted to a model whose %s is %d x %d, this one's is %d x %d",
                                 adapter->path, part, low->N, low->K, w->N, w->K);
        }
    if (!*adapter->fingerprint) return FOCAL_OK; /* peft says no more */
    return check_fingerprint(model, adapter);
}

static uint64_t hash_low_ranks(const foci_low_ranks *low_ranks)
{
    uint64_t hash = FOCI_HASH_BEGIN;
    for (int32_t n = 0; n < low_ranks->L; n++)
        for (int place = 0; place < FOCI_LINEAR_PLACES; place++) {
            const foci_low_rank *low = &low_ranks->layers[n][place];
            const int32_t sizes[] = {low->N, low->K, low->rank};
            hash = hash_numbers(hash, sizes, (int64_t)FOCAL_COUNT(sizes));
            hash = hash_numbers(hash, &low->scale, 1);
        }
    return hash_numbers(hash, low_ranks->numbers, low_ranks->number_count) | 1U;
}

static focal_status attach_low_ranks(focal_model *model, const focal_adapter *adapter,
                                     const focal_attach_options *options)
{
    foci_low_ranks *low_ranks = NULL;
    FOCAL_TRY(check_options(model, adapter, options));
    FOCAL_TRY(check_layers(model, adapter));
    if (model->low_ranks && !model->adapter_low_ranks)
        return foci_fail(model->ctx, FOCAL_EINVAL, "%s: the model has additions that learn",
                         adapter->path);
    FOCAL_TRY(foci_low_ranks_from_file(model->ctx, &model->config, adapter->low_ranks, &low_ranks));
    detach(model);
    model->adapter_low_ranks = low_ranks;
    foci_model_set_low_ranks(model, low_ranks);
    model->adapter_hash = hash_low_ranks(low_ranks);
    return FOCAL_OK;
}

/* ---- Both ---- */

static focal_status attach(focal_model *model, const focal_adapter *adapter,
                           const focal_attach_options *options)
{
    if (adapter)
        return adapter->low_ranks ? attach_low_ranks(model, adapter, options)
                                  : attach_groups(model, adapter, options);
    detach(model);
    return FOCAL_OK;
}

focal_status focal_model_attach(focal_model *model, const focal_adapter *adapter,
                                const focal_attach_options *options)
{
    FOCAL_TRY(attach(model, adapter, options));
    focal_adapter_close(model->adapter);
    model->adapter = NULL;
    return FOCAL_OK;
}

focal_status focal_model_adapt(focal_model *model, const char *path,
                               const focal_attach_options *options)
{
    focal_adapter *adapter = NULL;
    FOCAL_TRY(focal_adapter_open(model->ctx, path, &adapter));
    const focal_status status = focal_model_attach(model, adapter, options);
    if (status == FOCAL_OK)
        model->adapter = adapter;
    else
        focal_adapter_close(adapter);
    return status;
}
