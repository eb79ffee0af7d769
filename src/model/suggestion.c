/* Reading suggestions: one table of keys for both formats. */
#include "model/suggestion.h"

#include "base/error.h"
#include "text/tokenizer.h"

enum { TEMPERATURE, TOP_K, TOP_P, MIN_P, REPEAT_PENALTY, NUMBERS };

/* The numbers' names in both formats, and what is accepted. */
static const struct number {
    const char *json, *gguf;
    bool is_integer;
    double least, most;
} table[NUMBERS] = {
    [TEMPERATURE] = {"temperature", "general.sampling.temp", false, 0, 100},
    [TOP_K] = {"top_k", "general.sampling.top_k", true, 0, 1 << 22},
    [TOP_P] = {"top_p", "general.sampling.top_p", false, 0, 1},
    [MIN_P] = {"min_p", "general.sampling.min_p", false, 0, 1},
    [REPEAT_PENALTY] = {"repetition_penalty", "general.sampling.penalty_repeat", false, 0.01, 100},
};

typedef struct numbers {
    double value[NUMBERS];
    bool has[NUMBERS];
} numbers;

static focal_status keep(focal_ctx *ctx, const char *what, const char *key, int n, double value,
                         numbers *out)
{
    const bool is_wrong = !(value >= table[n].least && value <= table[n].most);
    if (is_wrong && table[n].is_integer)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: '%s' is %.0f, %.0f to %.0f are accepted", what,
                         key, value, table[n].least, table[n].most);
    if (is_wrong)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: '%s' is %g, %g to %.10g are accepted", what, key,
                         value, table[n].least, table[n].most);
    out->value[n] = value;
    out->has[n] = true;
    return FOCAL_OK;
}

static focal_suggestion suggestion_of(const numbers *from)
{
    return (focal_suggestion){
        .has_temperature = from->has[TEMPERATURE],
        .has_top_k = from->has[TOP_K],
        .has_top_p = from->has[TOP_P],
        .has_min_p = from->has[MIN_P],
        .has_repeat_penalty = from->has[REPEAT_PENALTY],
        .temperature = (float)from->value[TEMPERATURE],
        .top_k = (int32_t)from->value[TOP_K],
        .top_p = (float)from->value[TOP_P],
        .min_p = (float)from->value[MIN_P],
        .repeat_penalty = (float)from->value[REPEAT_PENALTY],
    };
}

static bool is_missing(const foci_json *value)
{
    return !value || foci_json_is(value, FOCI_JSON_NULL);
}

static focal_status read_ends(focal_ctx *ctx, const char *what, const foci_json *value, int32_t V,
                              focal_tokenizer *tokenizer)
{
    const bool is_list = foci_json_is(value, FOCI_JSON_ARRAY);
    const int64_t count = is_list ? foci_json_count(value) : 1;
    for (int64_t n = 0; n < count; n++) {
        const foci_json *one = is_list ? foci_json_at(value, n) : value;
        const int64_t id = foci_json_int(one, -1);
        if (!foci_json_is(one, FOCI_JSON_INT))
            return foci_fail(ctx, FOCAL_EFORMAT,
                             "%s: 'eos_token_id' must be an id or a list of ids", what);
        if (id < 0 || id >= V)
            return foci_fail(ctx, FOCAL_EFORMAT,
                             "%s: 'eos_token_id' is %lld, the vocabulary ends at %d", what,
                             (long long)id, V);
        if (tokenizer && !foci_tokenizer_add_end(tokenizer, (int32_t)id))
            return foci_fail(ctx, FOCAL_EFORMAT, "%s: 'eos_token_id' makes more than %d end tokens",
                             what, FOCI_ENDS);
    }
    return FOCAL_OK;
}

static focal_status read_numbers(focal_ctx *ctx, const char *what, const foci_json *root,
                                 numbers *out)
{
    for (int n = 0; n < NUMBERS; n++) {
        const foci_json *value = foci_json_get(root, table[n].json);
        if (is_missing(value)) continue;
        const bool is_integer = foci_json_is(value, FOCI_JSON_INT);
        if (!is_integer && (table[n].is_integer || !foci_json_is(value, FOCI_JSON_REAL)))
            return foci_fail(ctx, FOCAL_EFORMAT, "%s: '%s' must be %s", what, table[n].json,
                             table[n].is_integer ? "an integer" : "a number");
        FOCAL_TRY(keep(ctx, what, table[n].json, n, foci_json_real(value, 0), out));
    }
    const foci_json *samples = foci_json_get(root, "do_sample");
    if (!is_missing(samples) && !foci_json_is(samples, FOCI_JSON_BOOL))
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: 'do_sample' must be true or false", what);
    if (foci_json_bool(samples, true)) return FOCAL_OK;
    return keep(ctx, what, "do_sample", TEMPERATURE, 0, out); /* whatever stands beside it */
}

focal_status foci_suggestion_from_json(focal_ctx *ctx, const char *what, const foci_json *root,
                                       int32_t V, focal_tokenizer *tokenizer, focal_suggestion *out)
{
    numbers found = {0};
    FOCAL_TRY(read_numbers(ctx, what, root, &found));
    *out = suggestion_of(&found);
    const foci_json *ends = foci_json_get(root, "eos_token_id");
    return is_missing(ends) ? FOCAL_OK : read_ends(ctx, what, ends, V, tokenizer);
}

focal_status foci_suggestion_from_gguf(focal_ctx *ctx, const foci_gguf *gguf, focal_suggestion *out)
{
    numbers found = {0};
    for (int n = 0; n < NUMBERS; n++) {
        const char *key = table[n].gguf;
        double value = 0.0;
        int64_t integer = 0;
        if (!foci_gguf_has(gguf, key)) continue;
        if (table[n].is_integer) {
            FOCAL_TRY(foci_gguf_get_int(gguf, key, INT64_MIN, INT64_MAX, &integer));
            value = (double)integer;
        } else {
            FOCAL_TRY(foci_gguf_get_real(gguf, key, &value));
        }
        FOCAL_TRY(keep(ctx, foci_gguf_path(gguf), key, n, value, &found));
    }
    *out = suggestion_of(&found);
    return FOCAL_OK;
}
