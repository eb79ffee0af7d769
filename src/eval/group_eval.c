/* Measuring an adapter: the same texts with every setting, then the clock, settings by turns. */
#include "eval/group_eval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "model/adapter.h"
#include "model/cache.h"

enum { DEFAULT_BATCH = 1024 };

/* A measurement at work. */
typedef struct group_run {
    focal_ctx *ctx;
    focal_model *model;
    const focal_adapter *adapter;
    const focal_group_args *args;
    focal_group_eval *eval;
    int64_t done, readings;
    int64_t total; /* ids of all texts */
    /* Scratch. */
    int32_t *targets;      /* (batch) */
    double *nll;           /* (batch) */
    uint64_t *masks;       /* (the longest text, routers) of one layer */
    int32_t *ids;          /* (total) of all texts, one behind the other */
    uint64_t *token_masks; /* (layer_count, total) of each chosen layer's first router */
    float *logits;         /* (V) of a prompt that is timed */
    int64_t distant, kept; /* pairs of the setting at work */
} group_run;

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int32_t length_of(const group_run *r, int32_t text)
{
    return (int32_t)foci_min64(r->args->texts[text].count, r->eval->context);
}

/* ---- What is measured ---- */

static void add_setting(focal_group_eval *e, focal_group_kind kind, int32_t top)
{
    focal_group_setting *s = &e->settings[e->setting_count];
    *s = (focal_group_setting){.kind = kind,
                               .top = top,
                               .losses = e->losses[e->setting_count],
                               .kept = e->has_distant ? 1.0 : (double)NAN,
                               .speed = (double)NAN};
    e->setting_count++;
}

static focal_status add_tops(const group_run *r, const focal_adapter_info *info)
{
    focal_group_eval *e = r->eval;
    const focal_group_args *a = r->args;
    bool is_asked[FOCAL_MAX_GROUPS + 1] = {false};
    for (int32_t n = 0; n < a->top_count; n++) {
        if (a->tops[n] < 0 || a->tops[n] > info->groups)
            return foci_fail(r->ctx, FOCAL_EINVAL,
                             "%s: a query cannot look into %d groups, the adapter has %d",
                             info->path, a->tops[n], info->groups);
        is_asked[a->tops[n]] = true;
    }
    if (a->top_count == 0) {
        is_asked[0] = true;
        /* An adapter that looks into no group was fitted for its window: its groups say nothing. */
        for (int32_t k = 1; info->top > 0 && k < info->groups; k *= 2) is_asked[k] = true;
        is_asked[info->top] = true;
        if (info->top > 0) is_asked[info->groups] = true;
    }
    for (int32_t k = 0; k <= info->groups; k++) {
        if (!is_asked[k]) continue;
        if (k > 0 && (e->own < 0 || k == info->top || e->settings[e->own].top != info->top))
            e->own = e->setting_count;
        add_setting(e, FOCAL_GROUP_TOP, k);
    }
    return FOCAL_OK;
}

static focal_status choose_settings(group_run *r)
{
    focal_group_eval *e = r->eval;
    const focal_adapter_info info = focal_adapter_describe(r->adapter);
    /* Others see all keys: LoRA, nothing but temperatures, a scale of distant logits. */
    const bool has_sets =
        strcmp(info.kind, "groups") == 0 && info.layers > 0 && strcmp(info.form, "scale") != 0;
    add_setting(e, FOCAL_GROUP_DENSE, 0);
    if (!has_sets) {
        add_setting(e, FOCAL_GROUP_ADAPTER, 0);
        return FOCAL_OK;
    }
    e->K = info.groups;
    e->L = info.L;
    e->routers = r->adapter->groups->shape.routers;
    memcpy(e->is_routed, r->adapter->groups->shape.layers, sizeof e->is_routed);
    if (strcmp(info.form, "none") == 0)
        add_setting(e, FOCAL_GROUP_TOP, 0);
    else
        FOCAL_TRY(add_tops(r, &info));
    if (info.has_temperatures) add_setting(e, FOCAL_GROUP_TEMPERATURES, 0);
    return FOCAL_OK;
}

/* Layers whose tokens are shown: evenly over those that have a router, the first and last too. */
static void choose_layers(focal_group_eval *e)
{
    int32_t routed[FOCI_MAX_LAYERS] = {0}, count = 0;
    for (int32_t n = 0; n < e->L; n++)
        if (e->is_routed[n]) routed[count++] = n;
    e->layer_count = (int32_t)foci_min64(count, FOCI_GROUP_LAYERS);
    for (int32_t n = 0; n < e->layer_count; n++)
        e->layers[n] = routed[e->layer_count > 1 ? n * (count - 1) / (e->layer_count - 1) : 0];
}

static focal_status check_texts(group_run *r)
{
    const focal_group_args *a = r->args;
    focal_group_eval *e = r->eval;
    if (a->text_count < 1 || a->text_count > FOCAL_GROUP_TEXTS_MOST || !a->texts)
        return foci_fail(r->ctx, FOCAL_EINVAL, "groups: %d texts, 1 to %d", a->text_count,
                         FOCAL_GROUP_TEXTS_MOST);
    if (e->context < 2 || e->batch < 1 || e->rounds < 0 || e->rounds > FOCAL_GROUP_ROUNDS_MOST)
        return foci_fail(r->ctx, FOCAL_EINVAL,
                         "groups: context %d (at least 2), batch %d (at least 1), %d rounds (0 to "
                         "%d)",
                         e->context, e->batch, e->rounds, FOCAL_GROUP_ROUNDS_MOST);
    const int32_t V = focal_model_describe(r->model).V;
    for (int32_t n = 0; n < a->text_count; n++) {
        const focal_group_text *text = &a->texts[n];
        if (text->count < 2 || !text->ids || !text->name)
            return foci_fail(r->ctx, FOCAL_EINVAL, "groups: %s: %lld tokens, at least 2 are needed",
                             text->name ? text->name : "a text", (long long)text->count);
        const int32_t length = length_of(r, n);
        for (int32_t i = 0; i < length; i++)
            if (text->ids[i] < 0 || text->ids[i] >= V)
                return foci_fail(r->ctx, FOCAL_EINVAL,
                                 "groups: id %d of %s is outside the vocabulary of %d",
                                 text->ids[i], text->name, V);
        if (a->dense && !isfinite(a->dense[n]))
            return foci_fail(r->ctx, FOCAL_EINVAL, "groups: the dense loss given for %s is %g",
                             text->name, a->dense[n]);
        (void)snprintf(e->names[n], FOCI_GROUP_NAME, "%s", text->name);
        e->tokens[n] = length - 1;
        r->total += length;
    }
    e->text_count = a->text_count;
    return FOCAL_OK;
}

/* Whether a text has pairs beyond window and sinks. What knows neither looks at every pair. */
static bool has_distant(const group_run *r)
{
    const focal_adapter_info info = focal_adapter_describe(r->adapter);
    if (strcmp(info.kind, "groups") != 0 || info.layers == 0) return true;
    for (int32_t n = 0; n < r->eval->text_count; n++)
        if (length_of(r, n) - 1 > (int64_t)info.window + info.sinks) return true;
    return false;
}

static focal_status plan(group_run *r)
{
    focal_group_eval *e = r->eval;
    const focal_group_args *a = r->args;
    const focal_model_info info = focal_model_describe(r->model);
    e->context = a->context == 0 ? info.context : a->context;
    e->batch = a->batch == 0 ? DEFAULT_BATCH : a->batch;
    /* A temperature that averages over a text must see all of it. */
    if (r->model->config.temperature.kind == FOCI_TEMPERATURE_LEARNED_PAPER) e->batch = e->context;
    e->rounds = a->rounds;
    e->threads = focal_ctx_threads(r->ctx);
    e->precision = focal_dtype_name(info.precision);
    e->own = -1;
    const char *slash = strrchr(info.path, '/');
    const char *file = slash && slash[1] ? slash + 1 : info.path;
    (void)snprintf(e->model, sizeof e->model, "%s", file);
    memcpy(e->fingerprint, r->model->fingerprint, sizeof e->fingerprint);
    memcpy(e->adapter_checksum, r->adapter->checksum, sizeof e->adapter_checksum);
    FOCAL_TRY(check_texts(r));
    e->has_distant = has_distant(r);
    FOCAL_TRY(choose_settings(r));
    if (e->own >= 0) choose_layers(e);
    r->readings = (int64_t)e->setting_count * ((int64_t)e->text_count + e->rounds);
    if (a->dense) r->readings -= e->text_count;
    return FOCAL_OK;
}

static focal_status take_memory(group_run *r)
{
    focal_group_eval *e = r->eval;
    const size_t batch = (size_t)e->batch;
    int32_t longest = 0;
    for (int32_t n = 0; n < e->text_count; n++)
        longest = (int32_t)foci_max64(longest, length_of(r, n));
    const size_t sizes = (size_t)e->L * (size_t)e->routers * (size_t)e->K;
    r->targets = foci_alloc(r->ctx, batch, sizeof *r->targets);
    r->nll = foci_alloc(r->ctx, batch, sizeof *r->nll);
    if (!r->targets || !r->nll) return FOCAL_ENOMEM;
    if (e->own < 0) return FOCAL_OK;
    const size_t total = (size_t)r->total, layers = (size_t)e->layer_count;
    r->masks = foci_alloc(r->ctx, (size_t)longest * (size_t)e->routers, sizeof *r->masks);
    r->ids = foci_alloc(r->ctx, total, sizeof *r->ids);
    r->token_masks = foci_alloc(r->ctx, layers * total, sizeof *r->token_masks);
    e->sizes = foci_alloc(r->ctx, sizes, sizeof *e->sizes);
    e->typical = foci_alloc(r->ctx, layers * (size_t)e->K, sizeof *e->typical);
    if (!r->masks || !r->ids || !r->token_masks || !e->sizes || !e->typical) return FOCAL_ENOMEM;
    memset(e->sizes, 0, sizes * sizeof *e->sizes);
    return FOCAL_OK;
}

/* ---- Reading ---- */

static focal_status attach(const group_run *r, const focal_group_setting *setting)
{
    const bool has_no_distant = setting->kind == FOCAL_GROUP_TOP && setting->top == 0;
    const focal_attach_options options = {.top = setting->top,
                                          .has_no_distant = has_no_distant,
                                          .has_no_groups =
                                              setting->kind == FOCAL_GROUP_TEMPERATURES};
    const bool has_options =
        setting->kind == FOCAL_GROUP_TOP || setting->kind == FOCAL_GROUP_TEMPERATURES;
    return focal_model_attach(r->model, setting->kind == FOCAL_GROUP_DENSE ? NULL : r->adapter,
                              has_options ? &options : NULL);
}

/* The pairs of the tokens read last, which are the queries of the cache's sets. */
static focal_status count_pairs(group_run *r, const focal_cache *cache)
{
    if (!cache->groups) return FOCAL_OK;
    for (int32_t n = 0; n < r->eval->L; n++) {
        if (!foci_cache_has_groups(cache, n)) continue;
        const focal_keyset *set = cache->seqs[0].chains->layers[n].set;
        for (int32_t router = 0; router < r->eval->routers; router++) {
            focal_keys_stats stats;
            FOCAL_TRY(focal_keyset_stats(set, router, &stats));
            r->distant += stats.distant_pairs;
            r->kept += stats.kept_pairs;
        }
    }
    return FOCAL_OK;
}

/* Which groups the keys of a whole text are in. `at`: ids of the texts before it. */
static void count_keys(const group_run *r, const focal_cache *cache, int64_t at)
{
    focal_group_eval *e = r->eval;
    const foci_chains *chains = cache->seqs[0].chains;
    const int64_t length = focal_cache_length(cache, 0), routers = e->routers;
    for (int32_t n = 0, chosen = 0; n < e->L; n++) {
        if (!foci_cache_has_groups(cache, n)) continue;
        foci_chains_masks(chains, n, r->masks);
        int64_t *sizes = e->sizes + n * routers * e->K;
        for (int64_t i = 0; i < length * routers; i++)
            for (uint64_t mask = r->masks[i]; mask; mask &= mask - 1)
                sizes[i % routers * e->K + __builtin_ctzll(mask)]++;
        if (chosen == e->layer_count || e->layers[chosen] != n) continue;
        uint64_t *to = r->token_masks + chosen++ * r->total + at;
        for (int64_t i = 0; i < length; i++) to[i] = r->masks[i * routers];
    }
}

/* One text from an empty cache. *loss: the sum of its losses. */
static focal_status score_text(group_run *r, focal_cache *cache, int32_t text, double *loss)
{
    const int32_t *ids = r->args->texts[text].ids;
    const int32_t length = length_of(r, text);
    *loss = 0.0;
    FOCAL_TRY(focal_cache_truncate(cache, 0, 0));
    for (int32_t done = 0, take; done < length; done += take) {
        take = (int32_t)foci_min64(r->eval->batch, length - done);
        for (int32_t n = 0; n < take; n++)
            r->targets[n] = done + n + 1 < length ? ids[done + n + 1] : -1;
        const focal_batch_item item = {0, take, ids + done, 0};
        const focal_forward_args args = {
            .item_count = 1, .items = &item, .targets = r->targets, .nll = r->nll};
        FOCAL_TRY(focal_forward(r->model, cache, &args));
        for (int32_t n = 0; n < take; n++) *loss += r->nll[n];
        FOCAL_TRY(count_pairs(r, cache));
    }
    return FOCAL_OK;
}

static void tell(group_run *r)
{
    r->done++;
    if (r->args->on_reading) r->args->on_reading(r->args->user, r->done, r->readings);
}

/* Over all texts, each as often as it has tokens. */
static double mean_loss(const focal_group_eval *e, const double *losses)
{
    int64_t tokens = 0;
    double sum = 0.0;
    for (int32_t text = 0; text < e->text_count; text++) {
        sum += losses[text] * (double)e->tokens[text];
        tokens += e->tokens[text];
    }
    return sum / (double)tokens;
}

static focal_status score_texts(group_run *r, focal_cache *cache, int32_t n)
{
    focal_group_eval *e = r->eval;
    focal_group_setting *setting = &e->settings[n];
    int64_t at = 0;
    r->distant = r->kept = 0;
    for (int32_t text = 0; text < e->text_count; text++) {
        double loss;
        FOCAL_TRY(score_text(r, cache, text, &loss));
        if (!isfinite(loss))
            return foci_fail(r->ctx, FOCAL_EINVAL, "groups: the model gives no finite loss on %s",
                             e->names[text]);
        if (n == e->own) count_keys(r, cache, at);
        at += length_of(r, text);
        e->losses[n][text] = loss / (double)e->tokens[text];
        tell(r);
    }
    setting->loss = mean_loss(e, e->losses[n]);
    if (e->has_distant && setting->kind == FOCAL_GROUP_TOP)
        setting->kept = setting->top == 0 ? 0.0 : (double)r->kept / (double)r->distant;
    return FOCAL_OK;
}

static focal_status score_settings(group_run *r)
{
    focal_group_eval *e = r->eval;
    if (r->args->dense) {
        memcpy(e->losses[0], r->args->dense, (size_t)e->text_count * sizeof *r->args->dense);
        e->settings[0].loss = mean_loss(e, e->losses[0]);
    }
    for (int32_t n = r->args->dense ? 1 : 0; n < e->setting_count; n++) {
        focal_cache *cache = NULL;
        FOCAL_TRY(attach(r, &e->settings[n]));
        FOCAL_TRY(focal_cache_new(r->model, r->args->cache, &cache));
        e->cache_type = focal_dtype_name(cache->dtype); /* what the default is, too */
        const focal_status status = score_texts(r, cache, n);
        focal_cache_free(cache);
        FOCAL_TRY(status);
    }
    return FOCAL_OK;
}

/* ---- The clock ---- */

/* The first text as a prompt: only its last token needs logits, which nobody looks at. */
static focal_status time_prompt(const group_run *r, focal_cache *cache, double *speed)
{
    const int32_t length = length_of(r, 0);
    const double begin = now();
    for (int32_t done = 0, take; done < length; done += take) {
        take = (int32_t)foci_min64(r->eval->batch, length - done);
        const focal_batch_item item = {0, take, r->args->texts[0].ids + done,
                                       done + take == length ? 1 : 0};
        const focal_forward_args args = {.item_count = 1, .items = &item, .logits = r->logits};
        FOCAL_TRY(focal_forward(r->model, cache, &args));
    }
    *speed = length / fmax(now() - begin, 1e-9);
    return FOCAL_OK;
}

static double median(double *values, int32_t count)
{
    for (int32_t n = 1; n < count; n++) {
        const double value = values[n];
        int32_t at = n;
        for (; at > 0 && values[at - 1] > value; at--) values[at] = values[at - 1];
        values[at] = value;
    }
    return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

static focal_status time_settings(group_run *r)
{
    focal_group_eval *e = r->eval;
    const size_t V = (size_t)focal_model_describe(r->model).V;
    /* Such a temperature is defined only where losses are asked for. */
    if (e->rounds == 0 || r->model->config.temperature.kind == FOCI_TEMPERATURE_LEARNED_PAPER)
        return FOCAL_OK;
    const size_t count = (size_t)e->rounds * (size_t)e->setting_count;
    double *speeds = foci_alloc(r->ctx, count, sizeof *speeds); /* (setting_count, rounds) */
    r->logits = foci_alloc(r->ctx, V, sizeof *r->logits);
    focal_status status = speeds && r->logits ? FOCAL_OK : FOCAL_ENOMEM;
    for (int32_t round = 0; status == FOCAL_OK && round < e->rounds; round++)
        for (int32_t n = 0; status == FOCAL_OK && n < e->setting_count; n++) {
            focal_cache *cache = NULL;
            status = attach(r, &e->settings[n]);
            if (status == FOCAL_OK) status = focal_cache_new(r->model, r->args->cache, &cache);
            if (status == FOCAL_OK) status = time_prompt(r, cache, &speeds[n * e->rounds + round]);
            focal_cache_free(cache);
            tell(r);
        }
    for (int32_t n = 0; status == FOCAL_OK && n < e->setting_count; n++)
        e->settings[n].speed = median(speeds + (size_t)n * (size_t)e->rounds, e->rounds);
    foci_free(r->ctx, speeds);
    return status;
}

/* ---- Together ---- */

static focal_status find_typical(const group_run *r)
{
    const focal_group_eval *e = r->eval;
    const int32_t V = focal_model_describe(r->model).V;
    if (e->own < 0) return FOCAL_OK;
    int64_t at = 0;
    for (int32_t n = 0; n < e->text_count; n++) {
        memcpy(r->ids + at, r->args->texts[n].ids, (size_t)length_of(r, n) * sizeof *r->ids);
        at += length_of(r, n);
    }
    for (int32_t n = 0; n < e->layer_count; n++)
        FOCAL_TRY(foci_typical_tokens(r->ctx, r->ids, r->token_masks + n * r->total, r->total, V,
                                      e->K, e->typical + (int64_t)n * e->K));
    return FOCAL_OK;
}

focal_status focal_group_eval_new(focal_model *model, const focal_adapter *adapter,
                                  const focal_group_args *args, focal_group_eval **out)
{
    focal_ctx *ctx = focal_model_ctx(model);
    group_run r = {.ctx = ctx, .model = model, .adapter = adapter, .args = args};
    *out = NULL;
    r.eval = foci_alloc(ctx, 1, sizeof *r.eval);
    if (!r.eval) return FOCAL_ENOMEM;
    memset(r.eval, 0, sizeof *r.eval);
    r.eval->ctx = ctx;
    r.eval->tokenizer = focal_model_tokenizer(model);
    focal_status status = plan(&r);
    if (status == FOCAL_OK) status = take_memory(&r);
    if (status == FOCAL_OK) status = score_settings(&r);
    if (status == FOCAL_OK) status = find_typical(&r);
    if (status == FOCAL_OK) status = time_settings(&r);
    const focal_status detached = focal_model_attach(model, NULL, NULL);
    if (status == FOCAL_OK) status = detached;
    foci_free(ctx, r.targets);
    foci_free(ctx, r.nll);
    foci_free(ctx, r.masks);
    foci_free(ctx, r.ids);
    foci_free(ctx, r.token_masks);
    foci_free(ctx, r.logits);
    if (status == FOCAL_OK)
        *out = r.eval;
    else
        focal_group_eval_free(r.eval);
    return status;
}

void focal_group_eval_free(focal_group_eval *eval)
{
    if (!eval) return;
    foci_free(eval->ctx, eval->sizes);
    foci_free(eval->ctx, eval->typical);
    foci_free(eval->ctx, eval);
}

const focal_group_setting *focal_group_eval_at(const focal_group_eval *eval, int32_t n)
{
    return n >= 0 && n < eval->setting_count ? &eval->settings[n] : NULL;
}
