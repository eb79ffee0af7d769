/* The names of tokenizer.ggml.pre, their patterns, and the parts of tokenizer.json that say the
 * same: a Split a pattern, Digits for single numbers, ByteLevel for GPT-2's pattern at the end. */
#include "text/pre_tokenizer.h"

#include <string.h>

#include "base/error.h"
#include "io/json_text.h"
#include "text/scan.h"
#include "text/tokenizer_parts.h"

const char foci_number_pattern[] = "\\p{N}";
static const char three_digits[] = "[0-9][0-9][0-9]";
static const char cased_words[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
    "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char cased_words_contracted[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char deepseek_words[] =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
    "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|"
    "\\s+(?!\\S)|\\s+";

/* Of rows that do the same, the first is the one that is written. */
static const foci_pre_tokenizer table[] = {
    {"default",
     {"[\\p{P}\\$\\+<=>\\^~\\|]+", foci_gpt2_pattern, "\\p{N}+", three_digits},
     false,
     false},
    {"gpt-2", {foci_gpt2_pattern}, false, false},
    {"phi-2", {foci_gpt2_pattern}, false, false},
    {"mpt", {foci_gpt2_pattern}, false, false},
    {"olmo", {foci_gpt2_pattern}, false, false},
    {"jais", {foci_gpt2_pattern}, false, false},
    {"smollm", {foci_number_pattern, foci_gpt2_pattern}, false, false},
    {"starcoder", {foci_number_pattern, foci_gpt2_pattern}, false, false},
    {"refact", {foci_number_pattern, foci_gpt2_pattern}, false, false},
    {"command-r", {foci_number_pattern, foci_gpt2_pattern}, false, false},
    {"codeshell", {foci_number_pattern, foci_gpt2_pattern}, false, false},
    {"exaone", {foci_number_pattern, foci_gpt2_pattern}, false, false},
    {"falcon", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", foci_gpt2_pattern, three_digits}, false, false},
    {"llama-bpe", {foci_llama3_pattern}, true, true},
    {"llama3", {foci_llama3_pattern}, true, true},
    {"llama-v3", {foci_llama3_pattern}, true, true},
    {"falcon3", {foci_llama3_pattern}, true, true},
    {"pixtral", {foci_llama3_pattern}, true, true},
    {"lfm2", {foci_llama3_pattern}, true, true},
    {"dbrx", {foci_llama3_pattern}, false, false},
    {"smaug-bpe", {foci_llama3_pattern}, false, false},
    {"qwen2", {foci_qwen2_pattern}, false, false},
    {"stablelm2", {foci_qwen2_pattern}, false, false},
    {"deepseek-r1-qwen", {foci_qwen2_pattern}, false, false},
    {"tekken", {cased_words}, true, true},
    {"gpt-4o", {cased_words_contracted}, false, false},
    {"llama4", {cased_words_contracted}, false, false},
    {"deepseek-coder",
     {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", foci_number_pattern},
     false,
     false},
    {"deepseek-v3", {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", deepseek_words}, false, false},
};

const foci_pre_tokenizer *foci_pre_find(foci_text name)
{
    if (!name.data) return &table[0];
    for (size_t n = 0; n < FOCAL_COUNT(table); n++)
        if (foci_text_equal(name, foci_text_of(table[n].name))) return &table[n];
    return NULL;
}

/* The patterns that a pre_tokenizer's parts stand for. */
typedef struct pattern_list {
    int32_t count;
    foci_text pattern[FOCI_PARTS];
} pattern_list;

static focal_status cannot(focal_ctx *ctx, const char *what, const char *type, const char *field)
{
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: pre_tokenizer %.64s%s%s cannot be said in GGUF",
                     what, type, *field ? ": " : "", field);
}

static focal_status read_part(focal_ctx *ctx, const char *what, const char *type,
                              const foci_json *part, pattern_list *list)
{
    foci_text pattern = {NULL, 0};
    if (strcmp(type, "Split") == 0) {
        const foci_json *regex = foci_json_get(foci_json_get(part, "pattern"), "Regex");
        const char *behavior = foci_json_string(foci_json_get(part, "behavior"));
        if (!foci_json_is(regex, FOCI_JSON_STRING))
            return cannot(ctx, what, type, "a pattern that is no Regex");
        if ((behavior && strcmp(behavior, "Isolated") != 0) ||
            foci_json_bool(foci_json_get(part, "invert"), false))
            return cannot(ctx, what, type, "a behavior other than Isolated");
        pattern = (foci_text){foci_json_string(regex), foci_json_length(regex)};
    } else if (strcmp(type, "Digits") == 0) {
        if (!foci_json_bool(foci_json_get(part, "individual_digits"), false))
            return cannot(ctx, what, type, "individual_digits false");
        pattern = foci_text_of(foci_number_pattern);
    } else if (strcmp(type, "ByteLevel") == 0) {
        if (foci_json_bool(foci_json_get(part, "add_prefix_space"), true))
            return cannot(ctx, what, type, "add_prefix_space");
        if (!foci_json_bool(foci_json_get(part, "use_regex"), true)) return FOCAL_OK;
        pattern = foci_text_of(foci_gpt2_pattern);
    } else {
        return cannot(ctx, what, type, "");
    }
    list->pattern[list->count++] = pattern;
    return FOCAL_OK;
}

static bool has_patterns(const foci_pre_tokenizer *pre, const pattern_list *list)
{
    int32_t count = 0;
    for (; count < FOCI_PRE_PATTERNS && pre->patterns[count]; count++)
        if (count >= list->count ||
            !foci_text_equal(list->pattern[count], foci_text_of(pre->patterns[count])))
            return false;
    return count == list->count;
}

focal_status foci_pre_of_json(focal_ctx *ctx, const char *what, const foci_json *root,
                              bool ignore_merges, const foci_pre_tokenizer **out)
{
    foci_parts parts;
    pattern_list list = {0};
    bool is_known = false;
    *out = NULL;
    FOCAL_TRY(foci_parts_of(ctx, what, "pre_tokenizer", "pretokenizers", root, &parts));
    for (int32_t n = 0; n < parts.count; n++)
        FOCAL_TRY(read_part(ctx, what, parts.type[n], parts.part[n], &list));
    for (size_t n = 0; n < FOCAL_COUNT(table); n++) {
        if (!has_patterns(&table[n], &list)) continue;
        is_known = true;
        if (table[n].ignore_merges != ignore_merges) continue;
        *out = &table[n];
        return FOCAL_OK;
    }
    if (is_known)
        return foci_fail(
            ctx, FOCAL_EUNSUPPORTED,
            "%s: model.ignore_merges %s cannot be said in GGUF with this pre_tokenizer", what,
            ignore_merges ? "true" : "false");
    const foci_text first = list.count > 0 ? list.pattern[0] : foci_text_of("");
    return foci_fail(ctx, FOCAL_EUNSUPPORTED,
                     "%s: pre_tokenizer: GGUF has no name for its %d patterns, the first '%.*s'",
                     what, list.count, (int)(first.bytes < 100 ? first.bytes : 100), first.data);
}

static void put_byte_level(foci_writer *writer, bool use_regex)
{
    foci_json_put(writer, "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                          "\"trim_offsets\":true,\"use_regex\":");
    foci_json_put(writer, use_regex ? "true}" : "false}");
}

void foci_pre_put_json(const foci_pre_tokenizer *pre, foci_writer *writer)
{
    int32_t count = 0;
    while (count < FOCI_PRE_PATTERNS && pre->patterns[count]) count++;
    /* By pointer: the table has GPT-2's pattern and that of numbers from one place. */
    const bool ends_with_gpt2 = pre->patterns[count - 1] == foci_gpt2_pattern;
    const int32_t splits = ends_with_gpt2 ? count - 1 : count;
    if (splits > 0) foci_json_put(writer, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int32_t n = 0; n < splits; n++) {
        if (pre->patterns[n] == foci_number_pattern) {
            foci_json_put(writer, "{\"type\":\"Digits\",\"individual_digits\":true},");
            continue;
        }
        foci_json_put(writer, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
        foci_json_put_text(writer, foci_text_of(pre->patterns[n]));
        foci_json_put(writer, "},\"behavior\":\"Isolated\",\"invert\":false},");
    }
    put_byte_level(writer, ends_with_gpt2);
    if (splits > 0) foci_json_put(writer, "]}");
}
