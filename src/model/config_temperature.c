/* A model's temperature as its files say it: the object focal_temperature of config.json, or keys
 * of GGUF. Layers and heads are listed as in run files: "0,2,5-7". */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "model/config.h"

enum { KEY_BYTES = 128 };

static const char *const kind_names[] = {
    [FOCI_TEMPERATURE_CONSTANT] = "constant",
    [FOCI_TEMPERATURE_LEARNED] = "learned",
    [FOCI_TEMPERATURE_LEARNED_PAPER] = "learned-paper",
    [FOCI_TEMPERATURE_PER_HEAD] = "per-head",
    [FOCI_TEMPERATURE_LENGTH] = "length",
};

/* The numbers that a kind may have. */
enum { VALUE, FACTOR, LENGTH, NUMBERS };
static const struct {
    const char *name;
    float least, most;
} numbers[NUMBERS] = {[VALUE] = {"value", 0.01F, 100.0F},
                      [FACTOR] = {"c", 1e-6F, 10.0F},
                      [LENGTH] = {"length", 1.0F, 1e9F}};

/* What a file says, in either format; NAN and no data: nothing. */
typedef struct said {
    const char *what; /* of messages: the file and where in it */
    foci_text kind, layers, heads;
    double number[NUMBERS];
} said;

const char *foci_temperature_kind_name(foci_temperature_kind kind)
{
    return kind_names[kind];
}

bool foci_temperature_reaches(const foci_temperature_config *temperature, int32_t layer)
{
    return temperature->is_there && (!temperature->has_layers || temperature->layers[layer]);
}

void foci_temperature_list(const bool *marks, int32_t count, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int32_t n = 0, last; n < count; n = last + 1) {
        last = n;
        if (!marks[n]) continue;
        while (last + 1 < count && marks[last + 1]) last++;
        char part[32];
        const int length = last > n ? snprintf(part, sizeof part, ",%d-%d", n, last)
                                    : snprintf(part, sizeof part, ",%d", n);
        const char *from = used > 0 ? part : part + 1;
        const size_t more = (size_t)length - (size_t)(from - part);
        if (used + more + 1 > bytes) return;
        memcpy(text + used, from, more + 1);
        used += more;
    }
}

static int32_t count_marks(const bool *marks, int32_t count)
{
    int32_t sum = 0;
    for (int32_t n = 0; n < count; n++) sum += marks[n];
    return sum;
}

void foci_temperature_describe(const foci_config *config, char *text, size_t bytes)
{
    const foci_temperature_config *t = &config->temperature;
    char number[96] = "", layers[48] = "", heads[48] = "";
    text[0] = '\0';
    if (!t->is_there) return;
    if (t->kind == FOCI_TEMPERATURE_CONSTANT)
        (void)snprintf(number, sizeof number, ", t %g", (double)t->t);
    if (t->kind == FOCI_TEMPERATURE_LENGTH)
        (void)snprintf(number, sizeof number, ", t %g, c %g, from %.0f tokens on", (double)t->t,
                       (double)t->c, (double)t->length);
    if (t->has_layers)
        (void)snprintf(layers, sizeof layers, ", in %d of %d layers",
                       count_marks(t->layers, config->L), config->L);
    if (t->has_heads)
        (void)snprintf(heads, sizeof heads, ", in %d of %d heads", count_marks(t->heads, config->H),
                       config->H);
    (void)snprintf(text, bytes, "%s%s%s%s", kind_names[t->kind], number, layers, heads);
}

/* Reads digits; false when there are none or the number is above the limit. */
static bool read_index(const char **at, const char *end, int64_t most, int64_t *out)
{
    const char *first = *at;
    int64_t value = 0;
    for (; *at < end && **at >= '0' && **at <= '9' && value <= most; (*at)++)
        value = 10 * value + (**at - '0');
    *out = value;
    return *at > first && value <= most;
}

/* "0,2,5-7": ascending, below count. */
static focal_status read_list(focal_ctx *ctx, const said *s, const char *name, foci_text text,
                              int32_t count, bool *has, bool *marks)
{
    const char *at = text.data, *end = text.data + text.bytes;
    int64_t next = 0, first, last;
    bool is_good = text.bytes > 0;
    while (is_good) {
        is_good = read_index(&at, end, count - 1, &first) && first >= next;
        last = first;
        if (is_good && at < end && *at == '-') {
            at++;
            is_good = read_index(&at, end, count - 1, &last) && last >= first;
        }
        for (int64_t n = first; is_good && n <= last; n++) marks[n] = true;
        next = last + 1;
        if (!is_good || at == end) break;
        is_good = *at++ == ',';
    }
    if (!is_good)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: '%s' must be ascending numbers below %d, as in 0,2,5-7", s->what,
                         name, count);
    *has = true;
    return FOCAL_OK;
}

static focal_status find_kind(focal_ctx *ctx, const said *s, foci_temperature_kind *kind)
{
    for (size_t n = 0; n < FOCAL_COUNT(kind_names); n++) {
        if (!foci_text_equal(s->kind, foci_text_of(kind_names[n]))) continue;
        *kind = (foci_temperature_kind)n;
        return FOCAL_OK;
    }
    char shown[48] = "";
    for (size_t n = 0; n < s->kind.bytes && n < sizeof shown - 1; n++) {
        shown[n] = s->kind.data[n] >= 0x20 && s->kind.data[n] < 0x7F ? s->kind.data[n] : '?';
        shown[n + 1] = '\0';
    }
    return foci_fail(
        ctx, FOCAL_EUNSUPPORTED,
        "%s: the kind '%s' is not constant, learned, learned-paper, per-head or length", s->what,
        shown);
}

/* Which numbers a kind has: they must be there, and no others. */
static bool is_of_kind(int number, foci_temperature_kind kind)
{
    const bool is_length = kind == FOCI_TEMPERATURE_LENGTH;
    return number == VALUE ? is_length || kind == FOCI_TEMPERATURE_CONSTANT : is_length;
}

static focal_status check_numbers(focal_ctx *ctx, const said *s, foci_temperature_kind kind)
{
    for (int n = 0; n < NUMBERS; n++) {
        const bool is_wanted = is_of_kind(n, kind);
        if (isnan(s->number[n]) && !is_wanted) continue;
        if (!is_wanted)
            return foci_fail(ctx, FOCAL_EFORMAT, "%s: a temperature of kind %s has no '%s'",
                             s->what, kind_names[kind], numbers[n].name);
        if (isnan(s->number[n]))
            return foci_fail(ctx, FOCAL_EFORMAT, "%s: '%s' is missing, or no number", s->what,
                             numbers[n].name);
        const float number = (float)s->number[n];
        if (!(number >= numbers[n].least && number <= numbers[n].most))
            return foci_fail(ctx, FOCAL_EFORMAT, "%s: '%s' is %g, it must be %g to %g", s->what,
                             numbers[n].name, s->number[n], (double)numbers[n].least,
                             (double)numbers[n].most);
    }
    return FOCAL_OK;
}

static focal_status take(focal_ctx *ctx, const said *s, foci_config *c)
{
    foci_temperature_config t = {.is_there = true};
    FOCAL_TRY(find_kind(ctx, s, &t.kind));
    FOCAL_TRY(check_numbers(ctx, s, t.kind));
    t.t = is_of_kind(VALUE, t.kind) ? (float)s->number[VALUE] : 1.0F;
    if (is_of_kind(LENGTH, t.kind)) {
        t.c = (float)s->number[FACTOR];
        t.length = (float)s->number[LENGTH];
    }
    if (s->layers.data)
        FOCAL_TRY(read_list(ctx, s, "layers", s->layers, c->L, &t.has_layers, t.layers));
    if (s->heads.data && c->H > FOCI_MAX_LISTED_HEADS)
        return foci_fail(ctx, FOCAL_EUNSUPPORTED,
                         "%s: a list of heads in a model of %d, at most %d can be", s->what, c->H,
                         FOCI_MAX_LISTED_HEADS);
    if (s->heads.data) FOCAL_TRY(read_list(ctx, s, "heads", s->heads, c->H, &t.has_heads, t.heads));
    c->temperature = t;
    return FOCAL_OK;
}

static focal_status fail_member(focal_ctx *ctx, const said *s, const char *key, const char *must)
{
    return foci_fail(ctx, FOCAL_EFORMAT, "%s: '%.40s' must be %s", s->what, key, must);
}

static focal_status read_member(focal_ctx *ctx, said *s, const foci_json_member *member)
{
    const struct {
        const char *name;
        foci_text *text;
    } texts[] = {{"kind", &s->kind}, {"layers", &s->layers}, {"heads", &s->heads}};
    for (size_t n = 0; n < FOCAL_COUNT(texts); n++) {
        if (strcmp(member->key, texts[n].name) != 0) continue;
        if (!foci_json_is(member->value, FOCI_JSON_STRING))
            return fail_member(ctx, s, member->key, "a text");
        *texts[n].text =
            (foci_text){foci_json_string(member->value), foci_json_length(member->value)};
        return FOCAL_OK;
    }
    for (int n = 0; n < NUMBERS; n++) {
        if (strcmp(member->key, numbers[n].name) != 0) continue;
        s->number[n] = foci_json_real(member->value, (double)NAN);
        return isfinite(s->number[n]) ? FOCAL_OK : fail_member(ctx, s, member->key, "a number");
    }
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: '%.60s' is not understood", s->what,
                     member->key);
}

focal_status foci_temperature_from_json(focal_ctx *ctx, const char *what, const foci_json *object,
                                        foci_config *config)
{
    char where[512];
    (void)snprintf(where, sizeof where, "%.480s: focal_temperature", what);
    said s = {.what = where, .number = {(double)NAN, (double)NAN, (double)NAN}};
    if (!foci_json_is(object, FOCI_JSON_OBJECT))
        return foci_fail(ctx, FOCAL_EFORMAT, "%s is missing, or no object", where);
    foci_json_member member = {0};
    while (foci_json_next(object, &member)) FOCAL_TRY(read_member(ctx, &s, &member));
    return take(ctx, &s, config);
}

focal_status foci_temperature_from_gguf(focal_ctx *ctx, const foci_gguf *gguf, const char *prefix,
                                        foci_config *config)
{
    char where[512], key[KEY_BYTES];
    (void)snprintf(where, sizeof where, "%.480s: %.24s", foci_gguf_path(gguf),
                   "attention.temperature");
    said s = {.what = where, .number = {(double)NAN, (double)NAN, (double)NAN}};
    const struct {
        const char *name;
        foci_text *text;
    } texts[] = {{"kind", &s.kind}, {"layers", &s.layers}, {"heads", &s.heads}};
    for (size_t n = 0; n < FOCAL_COUNT(texts); n++) {
        (void)snprintf(key, sizeof key, "%s.attention.temperature.%s", prefix, texts[n].name);
        FOCAL_TRY(foci_gguf_get_text(gguf, key, texts[n].text));
    }
    for (int n = 0; n < NUMBERS; n++) {
        (void)snprintf(key, sizeof key, "%s.attention.temperature.%s", prefix, numbers[n].name);
        FOCAL_TRY(foci_gguf_get_real(gguf, key, &s.number[n]));
    }
    return take(ctx, &s, config);
}
