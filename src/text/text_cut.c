/* Cutting a text from its end towards its beginning: the first sure place is taken. */
#include "text/text_cut.h"

#include <string.h>

#include "base/error.h"
#include "text/tokenizer.h"

/* A step in front that takes single numbers out changes no place at which the pattern behind it
 * cuts: it only adds ends of words, on both sides of a number. */
foci_cut_rule foci_cut_rule_of(const foci_splitter *splitter)
{
    foci_cut_rule rule = {.scan = FOCI_SCAN_NONE};
    for (int32_t n = 0; n < splitter->count; n++) {
        const foci_split_step *step = &splitter->steps[n];
        const bool is_plain = step->behavior == FOCI_SPLIT_ISOLATED && step->space_bytes == 0;
        if (step->kind == FOCI_SPLIT_NOTHING && step->space_bytes == 0) continue;
        if (step->kind == FOCI_SPLIT_NUMBERS && is_plain && rule.scan == FOCI_SCAN_NONE) continue;
        if (step->kind != FOCI_SPLIT_SCAN || !is_plain || rule.scan != FOCI_SCAN_NONE)
            return (foci_cut_rule){.scan = FOCI_SCAN_NONE};
        rule.scan = step->scan;
    }
    return rule;
}

/* Notes the added tokens that text may become; false when the text around one matters. */
static bool note_added(const focal_tokenizer *tokenizer, bool with_special, foci_cut_rule *rule)
{
    const foci_added *added = &tokenizer->added;
    for (int32_t n = 0; n < added->count; n++) {
        const foci_added_token *token = &added->tokens[n];
        if (token->is_special && !with_special) continue;
        if (token->single_word || token->lstrip || token->rstrip) return false;
        if (token->is_normalized && tokenizer->normalizer.count > 0) return false;
        rule->added = added;
        if (token->bytes > rule->longest) rule->longest = token->bytes;
    }
    return true;
}

foci_cut_rule foci_cut_rule_of_tokenizer(const focal_tokenizer *tokenizer, bool with_special)
{
    const foci_cut_rule none = {.scan = FOCI_SCAN_NONE};
    foci_cut_rule rule = foci_cut_rule_of(&tokenizer->splitter);
    if (tokenizer->model != FOCI_MODEL_BPE || !note_added(tokenizer, with_special, &rule))
        return none;
    for (int32_t n = 0; n < tokenizer->normalizer.count; n++) {
        if (tokenizer->normalizer.steps[n].kind != FOCI_NORMALIZE_FORM) return none;
        rule.is_ascii = true;
    }
    return rule;
}

/* Whether a token of the tree may begin before `at` and end behind it. */
static bool is_inside(const foci_trie *trie, size_t longest, const char *text, size_t at)
{
    for (size_t begin = at - (at < longest ? at : longest); begin < at; begin++) {
        int32_t node = trie->root[(unsigned char)text[begin]];
        for (size_t n = begin + 1; n < at && node >= 0; n++)
            node = foci_trie_step(trie, node, (unsigned char)text[n]);
        if (node >= 0) return true;
    }
    return false;
}

size_t foci_text_cut(const foci_cut_rule *rule, const char *text, size_t bytes)
{
    if (rule->scan == FOCI_SCAN_NONE) return 0;
    for (size_t at = bytes; at-- > 1;) {
        if (rule->is_ascii && ((text[at] | text[at - 1]) & 0x80)) continue;
        if (!foci_scan_cuts(rule->scan, text, bytes, at)) continue;
        const foci_added *added = rule->added;
        if (added && added->has_raw && is_inside(&added->raw, rule->longest, text, at)) continue;
        if (added && added->has_normalized &&
            is_inside(&added->normalized, rule->longest, text, at))
            continue;
        return at;
    }
    return 0;
}

static size_t most_held(const foci_pieces *pieces)
{
    return pieces->rule.scan == FOCI_SCAN_NONE ? FOCI_WHOLE_MOST : FOCI_UNCUT_MOST;
}

static focal_status check_held(const foci_pieces *pieces)
{
    if (pieces->held.bytes <= most_held(pieces)) return FOCAL_OK;
    if (pieces->rule.scan != FOCI_SCAN_NONE)
        return foci_fail(pieces->ctx, FOCAL_EUNSUPPORTED,
                         "%zu MiB of text without an end of a word, at most %d are held",
                         pieces->held.bytes >> 20, FOCI_UNCUT_MOST >> 20);
    return foci_fail(pieces->ctx, FOCAL_EUNSUPPORTED,
                     "a document of more than %d MiB, which this tokenizer needs whole",
                     FOCI_WHOLE_MOST >> 20);
}

focal_status foci_pieces_put(foci_pieces *pieces, const char *text, size_t bytes)
{
    focal_buffer *held = &pieces->held;
    while (bytes > 0) {
        const size_t take = bytes < pieces->piece_bytes ? bytes : pieces->piece_bytes;
        FOCAL_TRY(foci_buffer_put(pieces->ctx, held, text, take));
        text += take;
        bytes -= take;
        FOCAL_TRY(check_held(pieces));
        if (held->bytes < pieces->piece_bytes || held->bytes < pieces->next_try) continue;
        const size_t cut = foci_text_cut(&pieces->rule, held->data, held->bytes);
        if (cut == 0) { /* looked for again in twice as much: all looks together stay linear */
            const size_t most = most_held(pieces);
            pieces->next_try = held->bytes < most / 2 ? 2 * held->bytes : most;
            continue;
        }
        pieces->next_try = 0;
        FOCAL_TRY(pieces->take(pieces->user, held->data, cut));
        memmove(held->data, held->data + cut, held->bytes - cut);
        held->bytes -= cut;
    }
    return FOCAL_OK;
}

focal_status foci_pieces_end(foci_pieces *pieces)
{
    const size_t bytes = pieces->held.bytes;
    pieces->held.bytes = pieces->next_try = 0;
    return bytes > 0 ? pieces->take(pieces->user, pieces->held.data, bytes) : FOCAL_OK;
}

void foci_pieces_free(foci_pieces *pieces)
{
    focal_buffer_free(pieces->ctx, &pieces->held);
}
