/* The steps of a pre-tokenizer as a stack: a step hands out one piece, which the steps above split
 * to the end before it is asked for the next. */
#include "text/splitter.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/normalizer.h"
#include "text/unicode.h"

void foci_splitter_free(foci_splitter *splitter)
{
    for (int32_t n = 0; n < splitter->count; n++) foci_pattern_free(splitter->steps[n].pattern);
    splitter->count = 0;
}

void foci_split_free(foci_split_run *run)
{
    for (int32_t n = 0; n <= FOCI_SPLITTER_STEPS && run->ctx; n++) {
        focal_buffer_free(run->ctx, &run->levels[n].rewritten);
        focal_buffer_free(run->ctx, &run->levels[n].masked);
    }
    run->depth = -1;
}

static int32_t character_at(const foci_split_level *level, size_t at, size_t *length)
{
    return foci_utf8_decode(level->seen + at, level->bytes - at, length);
}

/* \p{P}, and with it ASCII's signs that Unicode counts as symbols. */
static bool is_punctuation(int32_t c)
{
    const foci_char_class class = foci_char_class_of(c);
    return class == FOCI_CHAR_PUNCTUATION || (class == FOCI_CHAR_OTHER && c > ' ' && c < 0x7F);
}

static bool is_sought(foci_split_kind kind, int32_t character)
{
    switch (kind) {
    case FOCI_SPLIT_NUMBERS:
        return foci_char_class_of(character) == FOCI_CHAR_NUMBER;
    case FOCI_SPLIT_SPACES:
        return foci_is_space(character);
    default:
        return is_punctuation(character);
    }
}

/* The first character from `from` on that is sought; at the end both places are. */
static void find_character(const foci_split_level *level, foci_split_kind kind, size_t from,
                           size_t *begin, size_t *end)
{
    size_t at = from, length = 0;
    for (; at < level->bytes; at += length)
        if (is_sought(kind, character_at(level, at, &length))) break;
    *begin = at;
    *end = at < level->bytes ? at + length : at;
}

/* \w+|[^\w\s]+: behind white space, a run of one of the two kinds. */
static void find_word(const foci_split_level *level, size_t from, size_t *begin, size_t *end)
{
    size_t at = from, length = 0;
    while (at < level->bytes && foci_is_space(character_at(level, at, &length))) at += length;
    *begin = at;
    bool is_word = false;
    for (; at < level->bytes; at += length) {
        const int32_t character = character_at(level, at, &length);
        if (at == *begin) is_word = foci_is_word(character);
        if (foci_is_space(character) || foci_is_word(character) != is_word) break;
    }
    *end = at;
}

static void find_text(const foci_split_level *level, const foci_split_step *step, size_t from,
                      size_t *begin, size_t *end)
{
    const char *found =
        memmem(level->seen + from, level->bytes - from, step->what, step->what_bytes);
    *begin = found ? (size_t)(found - level->seen) : level->bytes;
    *end = found ? *begin + step->what_bytes : level->bytes;
}

static focal_status find(foci_split_run *run, const foci_split_level *level,
                         const foci_split_step *step, size_t from, size_t *begin, size_t *end)
{
    const foci_pattern_text in = {level->seen, level->bytes, &run->work};
    switch (step->kind) {
    case FOCI_SPLIT_NOTHING:
        *begin = *end = level->bytes;
        return FOCAL_OK;
    case FOCI_SPLIT_SCAN:
        *begin = from;
        *end = foci_scan_next(step->scan, level->seen, level->bytes, from);
        return FOCAL_OK;
    case FOCI_SPLIT_PATTERN:
        return foci_pattern_find(run->ctx, step->pattern, &in, from, begin, end);
    case FOCI_SPLIT_TEXT:
        find_text(level, step, from, begin, end);
        return FOCAL_OK;
    case FOCI_SPLIT_WORDS:
        find_word(level, from, begin, end);
        return FOCAL_OK;
    default:
        find_character(level, step->kind, from, begin, end);
        return FOCAL_OK;
    }
}

/* The next stretch, found or between; *has is false at the end. An empty match counts, unless it
 * stands right behind the last one, and splits what it stands in. */
static focal_status next_stretch(foci_split_run *run, foci_split_level *level,
                                 const foci_split_step *step, foci_stretch *out, bool *has)
{
    *has = level->has_match || !level->at_end;
    if (!*has) return FOCAL_OK;
    if (!level->has_match) {
        const bool is_behind_match = level->match.is_match && level->match.end == level->at;
        size_t begin = level->bytes, end = level->bytes;
        if (level->at < level->bytes) FOCAL_TRY(find(run, level, step, level->at, &begin, &end));
        if (begin == end && begin < level->bytes && begin == level->at && is_behind_match) {
            size_t length;
            (void)character_at(level, level->at, &length);
            if (level->at + length < level->bytes)
                FOCAL_TRY(find(run, level, step, level->at + length, &begin, &end));
            else
                begin = end = level->bytes;
        }
        level->at_end = begin == level->bytes && begin == end;
        level->has_match = !level->at_end;
        level->match = (foci_stretch){begin, end, level->has_match};
        if (begin > level->at) {
            *out = (foci_stretch){level->at, begin, step->invert};
            level->at = begin;
            return FOCAL_OK;
        }
        if (level->at_end) {
            *has = false;
            return FOCAL_OK;
        }
    }
    *out = level->match;
    out->is_match = !step->invert;
    level->has_match = false;
    level->at = level->match.end;
    return FOCAL_OK;
}

/* True when the stretch behind `first` belongs to the same piece. */
static bool goes_on(foci_split_behavior behavior, foci_stretch first, foci_stretch next)
{
    switch (behavior) {
    case FOCI_SPLIT_WITH_PREVIOUS:
        return !first.is_match && next.is_match;
    case FOCI_SPLIT_WITH_NEXT:
        return first.is_match && !next.is_match;
    case FOCI_SPLIT_CONTIGUOUS:
        return first.is_match == next.is_match;
    default:
        return false;
    }
}

/* The next piece of a step that is not empty. */
static focal_status next_piece(foci_split_run *run, foci_split_level *level,
                               const foci_split_step *step, foci_stretch *piece, bool *has)
{
    for (;;) {
        if (level->has_next)
            *piece = level->next;
        else
            FOCAL_TRY(next_stretch(run, level, step, piece, has));
        if (level->has_next) *has = true;
        level->has_next = false;
        if (!*has) return FOCAL_OK;
        if (step->behavior == FOCI_SPLIT_REMOVED && piece->is_match) continue;
        const bool looks_ahead =
            step->behavior != FOCI_SPLIT_REMOVED && step->behavior != FOCI_SPLIT_ISOLATED;
        while (looks_ahead) {
            FOCAL_TRY(next_stretch(run, level, step, &level->next, &level->has_next));
            if (!level->has_next || !goes_on(step->behavior, *piece, level->next)) break;
            piece->end = level->next.end;
            level->has_next = false;
            if (step->behavior != FOCI_SPLIT_CONTIGUOUS) break;
        }
        if (piece->end > piece->begin) return FOCAL_OK;
    }
}

/* Spaces into the step's own sign, and one in front where the step wants it. */
static focal_status rewrite(focal_ctx *ctx, foci_split_level *level, const foci_split_step *step)
{
    const bool is_wanted = step->prepend == FOCI_PREPEND_ALWAYS ||
                           (step->prepend == FOCI_PREPEND_FIRST && level->is_first);
    const size_t sign = step->space_bytes;
    const bool has_it = (level->bytes > 0 && level->text[0] == ' ') ||
                        (level->bytes >= sign && memcmp(level->text, step->space, sign) == 0);
    level->rewritten.bytes = 0;
    if (is_wanted && !has_it) FOCAL_TRY(foci_buffer_put(ctx, &level->rewritten, step->space, sign));
    FOCAL_TRY(foci_replace_text(ctx, level->text, level->bytes, " ", 1, step->space, sign,
                                &level->rewritten));
    const bool was_masked = level->seen != level->text;
    level->text = level->seen = level->rewritten.data;
    level->bytes = level->rewritten.bytes;
    if (!was_masked) return FOCAL_OK;
    level->masked.bytes = 0;
    FOCAL_TRY(foci_mask_invalid(ctx, level->text, level->bytes, &level->masked));
    level->seen = level->masked.data;
    return FOCAL_OK;
}

static focal_status enter(foci_split_run *run, int32_t depth, const char *text, const char *seen,
                          size_t bytes, bool is_first)
{
    foci_split_level *level = &run->levels[depth];
    const focal_buffer rewritten = level->rewritten, masked = level->masked;
    *level = (foci_split_level){.text = text,
                                .seen = seen,
                                .bytes = bytes,
                                .is_first = is_first,
                                .rewritten = rewritten,
                                .masked = masked};
    run->depth = depth;
    if (depth < run->splitter->count && run->splitter->steps[depth].space_bytes > 0)
        return rewrite(run->ctx, level, &run->splitter->steps[depth]);
    return FOCAL_OK;
}

focal_status foci_split_begin(foci_split_run *run, focal_ctx *ctx, const foci_splitter *splitter,
                              const char *text, size_t bytes, bool is_first)
{
    run->ctx = ctx;
    run->splitter = splitter;
    run->depth = -1;
    run->work = foci_pattern_work(bytes);
    if (bytes == 0) return FOCAL_OK;
    const char *seen = text;
    if (splitter->count > 0 && foci_utf8_valid(text, bytes) < bytes) {
        /* The last level never rewrites, so its mask is free for the whole text's. */
        focal_buffer *masked = &run->levels[FOCI_SPLITTER_STEPS].masked;
        masked->bytes = 0;
        FOCAL_TRY(foci_mask_invalid(ctx, text, bytes, masked));
        seen = masked->data;
    }
    return enter(run, 0, text, seen, bytes, is_first);
}

focal_status foci_split_next(foci_split_run *run, const char **word, size_t *bytes)
{
    *word = NULL;
    *bytes = 0;
    while (run->depth >= 0) {
        foci_split_level *level = &run->levels[run->depth];
        if (run->splitter->count == 0) { /* all of it is one word */
            *word = level->text;
            *bytes = level->bytes;
            run->depth--;
            return FOCAL_OK;
        }
        foci_stretch piece = {0};
        bool has = false;
        FOCAL_TRY(next_piece(run, level, &run->splitter->steps[run->depth], &piece, &has));
        if (!has) {
            run->depth--;
        } else if (run->depth + 1 == run->splitter->count) {
            *word = level->text + piece.begin;
            *bytes = piece.end - piece.begin;
            return FOCAL_OK;
        } else {
            FOCAL_TRY(enter(run, run->depth + 1, level->text + piece.begin,
                            level->seen + piece.begin, piece.end - piece.begin,
                            level->is_first && piece.begin == 0));
        }
    }
    return FOCAL_OK;
}
