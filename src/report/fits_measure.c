/* Reading measure.json: everything must be there, of its kind and within its limits. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "io/json.h"
#include "report/fits_read.h"

static const double largest = 1e9;
static const int64_t most_tokens = (int64_t)1 << 40;

/* The reader at work: the first fault is kept, and all that is read behind it is 0. */
typedef struct reader {
    focal_ctx *ctx;
    focal_status status;
} reader;

__attribute__((format(printf, 2, 3))) static void refuse(reader *r, const char *format, ...)
{
    char why[256];
    if (r->status != FOCAL_OK) return;
    va_list values;
    va_start(values, format);
    (void)vsnprintf(why, sizeof why, format, values);
    va_end(values);
    r->status = foci_fail(r->ctx, FOCAL_EFORMAT, "measure.json: %s", why);
}

static int64_t take_int(reader *r, const foci_json *from, const char *key, int64_t least,
                        int64_t most)
{
    const foci_json *value = foci_json_get(from, key);
    const int64_t number = foci_json_int(value, -1);
    if (foci_json_is(value, FOCI_JSON_INT) && number >= least && number <= most) return number;
    refuse(r, "'%s' must be a number of %lld to %lld", key, (long long)least, (long long)most);
    return 0;
}

static double real_of(reader *r, const foci_json *value, const char *what, double least,
                      double most)
{
    const double number = foci_json_real(value, (double)NAN);
    if (number >= least && number <= most) return number;
    refuse(r, "'%s' must be a number of %g to %g", what, least, most);
    return 0.0;
}

/* null: not known. */
static double take_perhaps(reader *r, const foci_json *from, const char *key, double most)
{
    const foci_json *value = foci_json_get(from, key);
    if (value && foci_json_is(value, FOCI_JSON_NULL)) return (double)NAN;
    return real_of(r, value, key, 0.0, most);
}

/* Cut between characters where it is too long. */
static void take_text(reader *r, const foci_json *from, const char *key, char to[FOCI_FIT_NAME])
{
    const char *text = foci_json_string(foci_json_get(from, key));
    if (!text) {
        refuse(r, "'%s' must be a text", key);
        return;
    }
    size_t bytes = strlen(text);
    if (bytes >= FOCI_FIT_NAME) {
        bytes = FOCI_FIT_NAME - 1;
        while (bytes > 0 && ((unsigned char)text[bytes] & 0xC0) == 0x80) bytes--;
    }
    memcpy(to, text, bytes);
    to[bytes] = '\0';
}

/* A fingerprint or a checksum. */
static void take_digits(reader *r, const foci_json *from, const char *key, char to[FOCI_FIT_NAME])
{
    take_text(r, from, key, to);
    if (strlen(to) != 16 || to[strspn(to, "0123456789abcdef")] != '\0')
        refuse(r, "'%s' must be 16 digits of 0 to 9 and a to f", key);
}

/* A list of `least` to `most` values, and how many. */
static const foci_json *take_list(reader *r, const foci_json *from, const char *key, int64_t least,
                                  int64_t most, int32_t *count)
{
    const foci_json *list = foci_json_get(from, key);
    const int64_t found = foci_json_count(list);
    *count = 0;
    if (!foci_json_is(list, FOCI_JSON_ARRAY) || found < least || found > most) {
        refuse(r, "'%s' must be a list of %lld to %lld", key, (long long)least, (long long)most);
        return NULL;
    }
    *count = (int32_t)found;
    return list;
}

static void read_texts(reader *r, const foci_json *root, foci_fit_measure *m)
{
    const foci_json *list = take_list(r, root, "texts", 1, FOCI_FIT_TEXTS, &m->text_count);
    for (int32_t n = 0; n < m->text_count; n++) {
        const foci_json *text = foci_json_at(list, n);
        take_text(r, text, "name", m->names[n]);
        m->tokens[n] = take_int(r, text, "tokens", 1, most_tokens);
    }
}

static foci_fit_kind kind_of(reader *r, const foci_json *setting)
{
    static const char *const kinds[FOCI_FIT_KINDS] = {"dense", "top", "temperatures", "adapter"};
    char name[FOCI_FIT_NAME] = "";
    take_text(r, setting, "kind", name);
    for (int n = 0; n < FOCI_FIT_KINDS; n++)
        if (strcmp(name, kinds[n]) == 0) return (foci_fit_kind)n;
    refuse(r, "there is no setting of the kind '%.40s'", name);
    return FOCI_FIT_DENSE;
}

static void read_settings(reader *r, const foci_json *root, foci_fit_measure *m)
{
    const foci_json *list = take_list(r, root, "settings", 1, FOCI_FIT_SETTINGS, &m->setting_count);
    for (int32_t n = 0; n < m->setting_count; n++) {
        const foci_json *from = foci_json_at(list, n);
        foci_fit_setting *s = &m->settings[n];
        int32_t count;
        s->kind = kind_of(r, from);
        if (s->kind == FOCI_FIT_TOP)
            s->top = (int32_t)take_int(r, from, "top", 0, FOCAL_MAX_GROUPS);
        s->loss = real_of(r, foci_json_get(from, "loss"), "loss", -largest, largest);
        s->kept = take_perhaps(r, from, "kept", 1.0);
        s->speed = take_perhaps(r, from, "tokens_per_second", 1e15);
        if (s->speed <= 0.0) s->speed = (double)NAN;
        const foci_json *losses =
            take_list(r, from, "losses", m->text_count, m->text_count, &count);
        for (int32_t text = 0; text < count; text++)
            s->losses[text] = real_of(r, foci_json_at(losses, text), "losses", -largest, largest);
        if ((s->kind == FOCI_FIT_DENSE) != (n == 0))
            refuse(r, "the first setting, and no other, must be the dense one");
    }
}

static void read_sizes(reader *r, const foci_json *root, foci_fit_measure *m)
{
    int32_t count;
    const foci_json *list = take_list(r, root, "sizes", 1, FOCI_FIT_ROUTERS, &count);
    if (count == 0) return;
    m->sizes = foci_alloc(r->ctx, (size_t)count, sizeof *m->sizes);
    if (!m->sizes) {
        r->status = FOCAL_ENOMEM;
        return;
    }
    m->size_count = count;
    for (int32_t n = 0; n < count; n++) {
        const foci_json *from = foci_json_at(list, n);
        foci_fit_sizes *sizes = &m->sizes[n];
        int32_t shares;
        *sizes = (foci_fit_sizes){.layer = (int32_t)take_int(r, from, "layer", 0, INT16_MAX),
                                  .router = (int32_t)take_int(r, from, "router", 0, INT16_MAX)};
        const foci_json *values = take_list(r, from, "shares", m->K, m->K, &shares);
        for (int32_t c = 0; c < shares; c++)
            sizes->shares[c] = real_of(r, foci_json_at(values, c), "shares", 0.0, 1.0);
        const foci_fit_sizes *before = n > 0 ? sizes - 1 : NULL;
        if (before && (before->layer > sizes->layer ||
                       (before->layer == sizes->layer && before->router + 1 != sizes->router)))
            refuse(r, "the layers and routers of 'sizes' must ascend");
        if ((!before || before->layer != sizes->layer) && sizes->router != 0)
            refuse(r, "the layers and routers of 'sizes' must ascend");
    }
}

static void read_group(reader *r, const foci_json *list, foci_fit_typical *typical, int32_t c)
{
    const int64_t count = foci_json_count(list);
    if (!foci_json_is(list, FOCI_JSON_ARRAY) || count > FOCI_FIT_TOKENS) {
        refuse(r, "a group of 'typical' must be a list of at most %d", (int)FOCI_FIT_TOKENS);
        return;
    }
    typical->groups[c].count = (int32_t)count;
    for (int64_t n = 0; n < count; n++) {
        const foci_json *from = foci_json_at(list, n);
        foci_fit_token *token = &typical->groups[c].tokens[n];
        take_text(r, from, "text", token->text);
        token->here = take_int(r, from, "here", 1, most_tokens);
        token->all = take_int(r, from, "all", token->here, most_tokens);
    }
}

static void read_typical(reader *r, const foci_json *root, foci_fit_measure *m)
{
    int32_t count;
    const foci_json *list = take_list(r, root, "typical", 1, FOCI_FIT_LAYERS, &count);
    if (count == 0) return;
    m->typical = foci_alloc(r->ctx, (size_t)count, sizeof *m->typical);
    if (!m->typical) {
        r->status = FOCAL_ENOMEM;
        return;
    }
    memset(m->typical, 0, (size_t)count * sizeof *m->typical);
    m->typical_count = count;
    for (int32_t n = 0; n < count; n++) {
        const foci_json *from = foci_json_at(list, n);
        int32_t groups;
        m->typical[n].layer = (int32_t)take_int(r, from, "layer", 0, INT16_MAX);
        m->typical[n].router = (int32_t)take_int(r, from, "router", 0, INT16_MAX);
        const foci_json *values = take_list(r, from, "groups", m->K, m->K, &groups);
        for (int32_t c = 0; c < groups; c++)
            read_group(r, foci_json_at(values, c), &m->typical[n], c);
    }
}

static void read_measure(reader *r, const foci_json *root, foci_fit_measure *m)
{
    char measure[FOCI_FIT_NAME] = "";
    take_text(r, root, "measure", measure);
    if (strcmp(measure, "groups") != 0) refuse(r, "its measure is not \"groups\"");
    take_text(r, root, "focal", m->version);
    take_text(r, root, "model", m->model);
    take_digits(r, root, "fingerprint", m->fingerprint);
    take_digits(r, root, "adapter_checksum", m->adapter_checksum);
    take_text(r, root, "precision", m->precision);
    take_text(r, root, "cache_type", m->cache_type);
    m->context = (int32_t)take_int(r, root, "context", 2, INT32_MAX);
    m->batch = (int32_t)take_int(r, root, "batch", 1, INT32_MAX);
    m->rounds = (int32_t)take_int(r, root, "rounds", 0, INT16_MAX);
    m->threads = (int32_t)take_int(r, root, "threads", 1, INT16_MAX);
    read_texts(r, root, m);
    read_settings(r, root, m);
    if (!foci_json_get(root, "groups")) return;
    m->K = (int32_t)take_int(r, root, "groups", 1, FOCAL_MAX_GROUPS);
    m->groups_top = (int32_t)take_int(r, root, "groups_top", 1, foci_max64(m->K, 1));
    if (r->status == FOCAL_OK) read_sizes(r, root, m);
    if (r->status == FOCAL_OK && foci_json_get(root, "typical")) read_typical(r, root, m);
}

focal_status foci_fit_measure_parse(focal_ctx *ctx, const char *text, size_t bytes,
                                    foci_fit_measure **out)
{
    reader r = {ctx, FOCAL_OK};
    foci_json *root = NULL;
    *out = NULL;
    FOCAL_TRY(foci_json_parse(ctx, "measure.json", text, bytes, &root));
    foci_fit_measure *measure = foci_alloc(ctx, 1, sizeof *measure);
    if (measure) {
        memset(measure, 0, sizeof *measure);
        read_measure(&r, root, measure);
    } else {
        r.status = FOCAL_ENOMEM;
    }
    foci_json_free(root);
    if (r.status == FOCAL_OK)
        *out = measure;
    else
        foci_fit_measure_free(ctx, measure);
    return r.status;
}

void foci_fit_measure_free(focal_ctx *ctx, foci_fit_measure *measure)
{
    if (!measure) return;
    foci_free(ctx, measure->sizes);
    foci_free(ctx, measure->typical);
    foci_free(ctx, measure);
}

bool foci_fit_texts_equal(const foci_fit_measure *a, const foci_fit_measure *b)
{
    if (a->text_count != b->text_count || a->context != b->context) return false;
    for (int32_t n = 0; n < a->text_count; n++)
        if (strcmp(a->names[n], b->names[n]) != 0 || a->tokens[n] != b->tokens[n]) return false;
    return true;
}
