/* Reading normalizer, pre_tokenizer, decoder and post_processor of tokenizer.json. What would
 * change ids and is not known is refused by its name. */
#include "text/tokenizer_parts.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"

enum { MOST_NESTING = 8 };

static bool is_type(const char *type, const char *name)
{
    return strcmp(type, name) == 0;
}

focal_status foci_part_unknown(focal_ctx *ctx, const char *what, const char *section,
                               const char *type)
{
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: %s of type '%.64s' is not known here", what,
                     section, type);
}

static focal_status wrong(focal_ctx *ctx, const char *what, const char *section, const char *type,
                          const char *field)
{
    return foci_fail(ctx, FOCAL_EFORMAT, "%s: %s %.64s: %s is missing or not as it should be", what,
                     section, type, field);
}

focal_status foci_parts_of(focal_ctx *ctx, const char *what, const char *section,
                           const char *members, const foci_json *root, foci_parts *out)
{
    /* Lists that are being read, and the next entry of each; nesting is the file's choice, so it
     * has a limit. */
    const foci_json *lists[MOST_NESTING], *part = foci_json_get(root, section);
    int64_t next[MOST_NESTING];
    int depth = 0;
    *out = (foci_parts){0};
    if (foci_json_kind(part) == FOCI_JSON_NULL) return FOCAL_OK;
    for (;;) {
        const char *type = foci_json_string(foci_json_get(part, "type"));
        if (!type) return wrong(ctx, what, section, "?", "type");
        if (is_type(type, "Sequence")) {
            const foci_json *list = foci_json_get(part, members);
            if (!foci_json_is(list, FOCI_JSON_ARRAY))
                return wrong(ctx, what, section, type, members);
            if (depth == MOST_NESTING)
                return foci_fail(ctx, FOCAL_EFORMAT, "%s: %s: Sequences nested deeper than %d",
                                 what, section, MOST_NESTING);
            lists[depth] = list;
            next[depth++] = 0;
        } else {
            if (out->count == FOCI_PARTS)
                return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: %s: more than %d parts", what,
                                 section, FOCI_PARTS);
            out->type[out->count] = type;
            out->part[out->count++] = part;
        }
        while (depth > 0 && next[depth - 1] == foci_json_count(lists[depth - 1])) depth--;
        if (depth == 0) return FOCAL_OK;
        part = foci_json_at(lists[depth - 1], next[depth - 1]++);
    }
}

/* A copy of a string; NULL stays NULL. */
static focal_status copy_string(focal_ctx *ctx, const foci_json *value, char **out, size_t *bytes)
{
    *bytes = foci_json_length(value);
    *out = foci_alloc(ctx, *bytes + 1, 1);
    if (!*out) return FOCAL_ENOMEM;
    memcpy(*out, foci_json_string(value), *bytes);
    return FOCAL_OK;
}

/* Copies a string that must be short into an array of `room` bytes. */
static bool copy_short(const foci_json *value, char *out, size_t room, size_t *bytes)
{
    const char *text = foci_json_string(value);
    *bytes = foci_json_length(value);
    if (!text || *bytes > room) return false;
    memcpy(out, text, *bytes);
    return true;
}

/* {"String": "..."} or {"Regex": "..."}; *is_regex says which. NULL when it is neither. */
static const foci_json *read_pattern(const foci_json *part, bool *is_regex)
{
    const foci_json *pattern = foci_json_get(part, "pattern");
    const foci_json *regex = foci_json_get(pattern, "Regex");
    const foci_json *string = foci_json_get(pattern, "String");
    *is_regex = regex != NULL;
    const foci_json *found = regex ? regex : string;
    return foci_json_is(found, FOCI_JSON_STRING) ? found : NULL;
}

static focal_status read_replace(focal_ctx *ctx, const char *what, const foci_json *part,
                                 foci_normalizer_step *step)
{
    bool is_regex;
    const foci_json *pattern = read_pattern(part, &is_regex),
                    *with = foci_json_get(part, "content");
    if (!pattern || (!is_regex && foci_json_length(pattern) == 0))
        return wrong(ctx, what, "normalizer", "Replace", "pattern");
    if (!foci_json_is(with, FOCI_JSON_STRING))
        return wrong(ctx, what, "normalizer", "Replace", "content");
    step->kind = FOCI_NORMALIZE_REPLACE;
    if (is_regex)
        FOCAL_TRY(foci_pattern_new(ctx, foci_json_string(pattern), foci_json_length(pattern),
                                   &step->pattern));
    FOCAL_TRY(copy_string(ctx, pattern, &step->what, &step->what_bytes));
    return copy_string(ctx, with, &step->with, &step->with_bytes);
}

static focal_status read_normalizer_part(focal_ctx *ctx, const char *what, const char *type,
                                         const foci_json *part, foci_normalizer_step *step)
{
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
    for (size_t n = 0; n < FOCAL_COUNT(forms); n++) {
        if (!is_type(type, forms[n])) continue;
        step->kind = FOCI_NORMALIZE_FORM;
        step->form = (foci_normal_form)n;
        return foci_unicode_need(ctx, what);
    }
    if (is_type(type, "Lowercase")) {
        step->kind = FOCI_NORMALIZE_LOWER;
        return foci_unicode_need(ctx, what);
    }
    if (is_type(type, "Replace")) return read_replace(ctx, what, part, step);
    if (is_type(type, "Prepend")) {
        const foci_json *with = foci_json_get(part, "prepend");
        if (!foci_json_is(with, FOCI_JSON_STRING))
            return wrong(ctx, what, "normalizer", type, "prepend");
        step->kind = FOCI_NORMALIZE_PREPEND;
        return copy_string(ctx, with, &step->with, &step->with_bytes);
    }
    if (is_type(type, "Strip")) {
        step->kind = FOCI_NORMALIZE_STRIP;
        step->strip_left = foci_json_bool(foci_json_get(part, "strip_left"), true);
        step->strip_right = foci_json_bool(foci_json_get(part, "strip_right"), true);
        return FOCAL_OK;
    }
    return foci_part_unknown(ctx, what, "normalizer", type);
}

focal_status foci_read_normalizer(focal_ctx *ctx, const char *what, const foci_json *root,
                                  foci_normalizer *out)
{
    foci_parts parts;
    FOCAL_TRY(foci_parts_of(ctx, what, "normalizer", "normalizers", root, &parts));
    for (int32_t n = 0; n < parts.count; n++) {
        foci_normalizer_step *step = &out->steps[out->count++];
        *step = (foci_normalizer_step){0};
        FOCAL_TRY(read_normalizer_part(ctx, what, parts.type[n], parts.part[n], step));
    }
    return FOCAL_OK;
}

/* The next step; NULL, with the message set, when there are too many: FOCAL_EUNSUPPORTED. */
static foci_split_step *new_step(focal_ctx *ctx, foci_splitter *splitter, foci_split_kind kind)
{
    if (splitter->count == FOCI_SPLITTER_STEPS) {
        (void)foci_fail(ctx, FOCAL_EUNSUPPORTED, "pre_tokenizer: more than %d steps",
                        FOCI_SPLITTER_STEPS);
        return NULL;
    }
    foci_split_step *step = &splitter->steps[splitter->count++];
    *step = (foci_split_step){.kind = kind};
    return step;
}

focal_status foci_split_by_pattern(focal_ctx *ctx, foci_splitter *splitter, const char *source,
                                   size_t bytes)
{
    foci_split_step *step = NULL;
    const foci_scan scan = foci_unicode_is_here() ? foci_scan_of(source, bytes) : FOCI_SCAN_NONE;
    const foci_split_kind kind = scan == FOCI_SCAN_NONE ? FOCI_SPLIT_PATTERN : FOCI_SPLIT_SCAN;
    step = new_step(ctx, splitter, kind);
    if (!step) return FOCAL_EUNSUPPORTED;
    step->scan = scan;
    return scan == FOCI_SCAN_NONE ? foci_pattern_new(ctx, source, bytes, &step->pattern) : FOCAL_OK;
}

/* The behaviour of a part; `fallback` where the file does not say. */
static focal_status read_behavior(focal_ctx *ctx, const char *what, const char *type,
                                  const foci_json *part, foci_split_behavior fallback,
                                  foci_split_behavior *out)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *name = foci_json_string(foci_json_get(part, "behavior"));
    *out = fallback;
    if (!name) return FOCAL_OK;
    for (size_t n = 0; n < FOCAL_COUNT(names); n++) {
        if (strcmp(name, names[n]) != 0) continue;
        *out = (foci_split_behavior)n;
        return FOCAL_OK;
    }
    return wrong(ctx, what, "pre_tokenizer", type, "behavior");
}

static focal_status read_split(focal_ctx *ctx, const char *what, const foci_json *part,
                               foci_splitter *out)
{
    bool is_regex;
    foci_split_step *step = NULL;
    const foci_json *pattern = read_pattern(part, &is_regex);
    if (!pattern) return wrong(ctx, what, "pre_tokenizer", "Split", "pattern");
    if (is_regex) {
        FOCAL_TRY(
            foci_split_by_pattern(ctx, out, foci_json_string(pattern), foci_json_length(pattern)));
        step = &out->steps[out->count - 1];
    } else {
        step = new_step(ctx, out, FOCI_SPLIT_TEXT);
        if (!step) return FOCAL_EUNSUPPORTED;
        if (!copy_short(pattern, step->what, sizeof step->what, &step->what_bytes) ||
            step->what_bytes == 0)
            return wrong(ctx, what, "pre_tokenizer", "Split", "pattern (1 to 16 bytes)");
    }
    step->invert = foci_json_bool(foci_json_get(part, "invert"), false);
    return read_behavior(ctx, what, "Split", part, FOCI_SPLIT_ISOLATED, &step->behavior);
}

static focal_status read_metaspace(focal_ctx *ctx, const char *what, const foci_json *part,
                                   foci_splitter *out)
{
    static const char *const schemes[] = {"never", "first", "always"};
    foci_split_step *step = NULL;
    step = new_step(ctx, out, FOCI_SPLIT_TEXT);
    if (!step) return FOCAL_EUNSUPPORTED;
    if (!copy_short(foci_json_get(part, "replacement"), step->space, sizeof step->space,
                    &step->space_bytes) ||
        step->space_bytes == 0)
        return wrong(ctx, what, "pre_tokenizer", "Metaspace", "replacement");
    memcpy(step->what, step->space, step->space_bytes);
    step->what_bytes = step->space_bytes;
    step->behavior = FOCI_SPLIT_WITH_NEXT;
    if (!foci_json_bool(foci_json_get(part, "split"), true)) step->kind = FOCI_SPLIT_NOTHING;
    const char *scheme = foci_json_string(foci_json_get(part, "prepend_scheme"));
    const bool prefix = foci_json_bool(foci_json_get(part, "add_prefix_space"), true);
    step->prepend = prefix ? FOCI_PREPEND_ALWAYS : FOCI_PREPEND_NEVER;
    for (size_t n = 0; scheme && n < FOCAL_COUNT(schemes); n++) {
        if (strcmp(scheme, schemes[n]) != 0) continue;
        step->prepend = (foci_prepend)n;
        return FOCAL_OK;
    }
    return scheme ? wrong(ctx, what, "pre_tokenizer", "Metaspace", "prepend_scheme") : FOCAL_OK;
}

static focal_status read_byte_level(focal_ctx *ctx, const foci_json *part, foci_splitter *out)
{
    if (foci_json_bool(foci_json_get(part, "use_regex"), true))
        FOCAL_TRY(foci_split_by_pattern(ctx, out, foci_gpt2_pattern, strlen(foci_gpt2_pattern)));
    else if (!new_step(ctx, out, FOCI_SPLIT_NOTHING))
        return FOCAL_EUNSUPPORTED;
    foci_split_step *step = &out->steps[out->count - 1];
    if (foci_json_bool(foci_json_get(part, "add_prefix_space"), true)) {
        step->space[0] = ' ';
        step->space_bytes = 1;
        step->prepend = FOCI_PREPEND_ALWAYS;
    }
    return FOCAL_OK;
}

static focal_status read_splitter_part(focal_ctx *ctx, const char *what, const char *type,
                                       const foci_json *part, foci_splitter *out)
{
    foci_split_step *step = NULL;
    if (is_type(type, "Split")) return read_split(ctx, what, part, out);
    if (is_type(type, "Metaspace")) return read_metaspace(ctx, what, part, out);
    if (is_type(type, "ByteLevel")) return read_byte_level(ctx, part, out);
    if (is_type(type, "WhitespaceSplit")) {
        step = new_step(ctx, out, FOCI_SPLIT_SPACES);
        if (!step) return FOCAL_EUNSUPPORTED;
        step->behavior = FOCI_SPLIT_REMOVED;
        return FOCAL_OK;
    }
    /* The others need Unicode's tables. */
    if (is_type(type, "Digits")) {
        step = new_step(ctx, out, FOCI_SPLIT_NUMBERS);
        if (!step) return FOCAL_EUNSUPPORTED;
        if (!foci_json_bool(foci_json_get(part, "individual_digits"), false))
            step->behavior = FOCI_SPLIT_CONTIGUOUS;
    } else if (is_type(type, "Whitespace")) {
        step = new_step(ctx, out, FOCI_SPLIT_WORDS);
        if (!step) return FOCAL_EUNSUPPORTED;
        step->behavior = FOCI_SPLIT_REMOVED;
        step->invert = true;
    } else if (is_type(type, "Punctuation")) {
        step = new_step(ctx, out, FOCI_SPLIT_PUNCTUATION);
        if (!step) return FOCAL_EUNSUPPORTED;
        FOCAL_TRY(read_behavior(ctx, what, type, part, FOCI_SPLIT_ISOLATED, &step->behavior));
    } else {
        return foci_part_unknown(ctx, what, "pre_tokenizer", type);
    }
    return foci_unicode_need(ctx, what);
}

focal_status foci_read_splitter(focal_ctx *ctx, const char *what, const foci_json *root,
                                foci_splitter *out, bool *is_byte_level)
{
    foci_parts parts;
    *is_byte_level = false;
    FOCAL_TRY(foci_parts_of(ctx, what, "pre_tokenizer", "pretokenizers", root, &parts));
    for (int32_t n = 0; n < parts.count; n++) {
        /* Behind ByteLevel a step would see the characters that stand for bytes. */
        if (*is_byte_level)
            return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: pre_tokenizer: %.64s behind ByteLevel",
                             what, parts.type[n]);
        FOCAL_TRY(read_splitter_part(ctx, what, parts.type[n], parts.part[n], out));
        *is_byte_level = is_type(parts.type[n], "ByteLevel");
    }
    return FOCAL_OK;
}

static focal_status set_replacement(focal_ctx *ctx, const char *what, const char *type,
                                    const foci_json *from, foci_decoder *out)
{
    if (out->what_bytes > 0)
        return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: decoder: a second replacement, %.64s", what,
                         type);
    if (!copy_short(from, out->what, sizeof out->what, &out->what_bytes) || out->what_bytes == 0)
        return wrong(ctx, what, "decoder", type, "what it replaces (1 to 16 bytes of text)");
    return FOCAL_OK;
}

static focal_status read_decoder_part(focal_ctx *ctx, const char *what, const char *type,
                                      const foci_json *part, foci_decoder *out)
{
    if (is_type(type, "ByteLevel") || is_type(type, "Fuse")) return FOCAL_OK;
    if (is_type(type, "ByteFallback")) {
        out->has_byte_tokens = true;
        return FOCAL_OK;
    }
    if (is_type(type, "Replace")) {
        bool is_regex;
        const foci_json *pattern = read_pattern(part, &is_regex);
        if (is_regex) return foci_part_unknown(ctx, what, "decoder", "Replace by a pattern");
        FOCAL_TRY(set_replacement(ctx, what, type, pattern, out));
        if (copy_short(foci_json_get(part, "content"), out->with, sizeof out->with,
                       &out->with_bytes))
            return FOCAL_OK;
        return wrong(ctx, what, "decoder", type, "content (at most 16 bytes)");
    }
    if (is_type(type, "Metaspace")) {
        const char *scheme = foci_json_string(foci_json_get(part, "prepend_scheme"));
        FOCAL_TRY(set_replacement(ctx, what, type, foci_json_get(part, "replacement"), out));
        out->with[0] = ' ';
        out->with_bytes = 1;
        out->first_drops = scheme ? strcmp(scheme, "never") != 0
                                  : foci_json_bool(foci_json_get(part, "add_prefix_space"), true);
        return FOCAL_OK;
    }
    if (is_type(type, "Strip")) {
        const char *content = foci_json_string(foci_json_get(part, "content"));
        const int64_t start = foci_json_int(foci_json_get(part, "start"), 0);
        if (!content || strlen(content) != 1 || start < 0 || start > INT32_MAX ||
            foci_json_int(foci_json_get(part, "stop"), 0) != 0)
            return foci_part_unknown(ctx, what, "decoder", "Strip of anything but leading ASCII");
        out->strip_byte = content[0];
        out->strip_left = (int32_t)start;
        return FOCAL_OK;
    }
    return foci_part_unknown(ctx, what, "decoder", type);
}

focal_status foci_read_decoder(focal_ctx *ctx, const char *what, const foci_json *root,
                               foci_decoder *out)
{
    foci_parts parts;
    FOCAL_TRY(foci_parts_of(ctx, what, "decoder", "decoders", root, &parts));
    bool is_fused = false;
    for (int32_t n = 0; n < parts.count; n++) {
        FOCAL_TRY(read_decoder_part(ctx, what, parts.type[n], parts.part[n], out));
        /* Before Fuse a Strip is for each token, behind it a Replace for the whole text. */
        if ((is_type(parts.type[n], "Strip") && !is_fused) ||
            (is_type(parts.type[n], "Replace") && is_fused))
            return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: decoder: %s %s Fuse", what,
                             parts.type[n], is_fused ? "behind" : "before");
        is_fused = is_fused || is_type(parts.type[n], "Fuse");
    }
    return FOCAL_OK;
}

static focal_status put_around(const char *what, const foci_json *id, bool is_behind,
                               focal_tokenizer *tokenizer)
{
    const int64_t value = foci_json_int(id, -1);
    int32_t *list = is_behind ? tokenizer->behind : tokenizer->before;
    int32_t *count = is_behind ? &tokenizer->behind_count : &tokenizer->before_count;
    if (value < 0 || value >= tokenizer->vocab->size)
        return foci_fail(tokenizer->ctx, FOCAL_EFORMAT,
                         "%s: post_processor: id %lld, the vocabulary ends at %d", what,
                         (long long)value, tokenizer->vocab->size);
    if (*count == FOCI_AROUND)
        return foci_fail(tokenizer->ctx, FOCAL_EUNSUPPORTED,
                         "%s: post_processor: more than %d tokens around a text", what,
                         FOCI_AROUND);
    list[(*count)++] = (int32_t)value;
    return FOCAL_OK;
}

static focal_status read_template(const char *what, const foci_json *part,
                                  focal_tokenizer *tokenizer)
{
    const foci_json *single = foci_json_get(part, "single");
    const foci_json *tokens = foci_json_get(part, "special_tokens");
    bool is_behind = false;
    if (!foci_json_is(single, FOCI_JSON_ARRAY))
        return wrong(tokenizer->ctx, what, "post_processor", "TemplateProcessing", "single");
    for (int64_t n = 0; n < foci_json_count(single); n++) {
        const foci_json *piece = foci_json_at(single, n);
        const char *name =
            foci_json_string(foci_json_get(foci_json_get(piece, "SpecialToken"), "id"));
        if (!name) {
            if (is_behind || !foci_json_get(piece, "Sequence"))
                return wrong(tokenizer->ctx, what, "post_processor", "TemplateProcessing",
                             "single");
            is_behind = true;
            continue;
        }
        const foci_json *ids = foci_json_get(foci_json_get(tokens, name), "ids");
        if (!foci_json_is(ids, FOCI_JSON_ARRAY))
            return wrong(tokenizer->ctx, what, "post_processor", "TemplateProcessing",
                         "special_tokens");
        for (int64_t i = 0; i < foci_json_count(ids); i++)
            FOCAL_TRY(put_around(what, foci_json_at(ids, i), is_behind, tokenizer));
    }
    return FOCAL_OK;
}

focal_status foci_read_template(const char *what, const foci_json *root, focal_tokenizer *tokenizer)
{
    foci_parts parts;
    FOCAL_TRY(foci_parts_of(tokenizer->ctx, what, "post_processor", "processors", root, &parts));
    for (int32_t n = 0; n < parts.count; n++) {
        const char *type = parts.type[n];
        if (is_type(type, "ByteLevel")) continue; /* concerns offsets, which are not kept here */
        if (is_type(type, "TemplateProcessing")) {
            FOCAL_TRY(read_template(what, parts.part[n], tokenizer));
        } else if (is_type(type, "RobertaProcessing") || is_type(type, "BertProcessing")) {
            const foci_json *part = parts.part[n];
            FOCAL_TRY(
                put_around(what, foci_json_at(foci_json_get(part, "cls"), 1), false, tokenizer));
            FOCAL_TRY(
                put_around(what, foci_json_at(foci_json_get(part, "sep"), 1), true, tokenizer));
        } else {
            return foci_part_unknown(tokenizer->ctx, what, "post_processor", type);
        }
    }
    return FOCAL_OK;
}
