/* Finding added tokens in a text. */
#include "text/added.h"

#include "base/ctx.h"
#include "base/error.h"
#include "text/unicode.h"

void foci_added_free(foci_added *added)
{
    if (added->ctx) {
        foci_free(added->ctx, added->tokens);
        focal_buffer_free(added->ctx, &added->text);
    }
    foci_trie_free(&added->raw);
    foci_trie_free(&added->normalized);
    *added = (foci_added){0};
}

focal_status foci_added_prepare(focal_ctx *ctx, foci_added *added)
{
    size_t raw = 0, normalized = 0;
    added->ctx = ctx;
    for (int32_t n = 0; n < added->count; n++)
        *(added->tokens[n].is_normalized ? &normalized : &raw) += added->tokens[n].bytes;
    if (raw > 0) FOCAL_TRY(foci_trie_init(ctx, raw, &added->raw));
    added->has_raw = raw > 0;
    if (normalized > 0) FOCAL_TRY(foci_trie_init(ctx, normalized, &added->normalized));
    added->has_normalized = normalized > 0;
    for (int32_t n = 0; n < added->count; n++) {
        const foci_added_token *token = &added->tokens[n];
        foci_trie *trie = token->is_normalized ? &added->normalized : &added->raw;
        if (token->bytes > 0)
            (void)foci_trie_add(trie, added->text.data + token->begin, token->bytes, n);
    }
    return FOCAL_OK;
}

/* Where the character that ends at `end` begins. */
static size_t step_back(const char *text, size_t end)
{
    size_t at = end - 1;
    while (at > 0 && end - at < FOCI_UTF8_MOST && (text[at] & 0xC0) == 0x80) at--;
    return at;
}

static bool stands_in_word(const foci_added_query *query, size_t begin, size_t end)
{
    size_t length;
    if (begin > 0) {
        const size_t at = step_back(query->text, begin);
        const int32_t before = foci_utf8_decode(query->text + at, begin - at, &length);
        if (before >= 0 && foci_is_word(before)) return true;
    }
    if (end == query->bytes) return false;
    const int32_t behind = foci_utf8_decode(query->text + end, query->bytes - end, &length);
    return behind >= 0 && foci_is_word(behind);
}

/* The longest token that begins at `at`, and its length. */
static const foci_added_token *longest_at(const foci_added_query *query, size_t at, size_t *length)
{
    const foci_added_token *found = NULL;
    int32_t node = 0;
    for (size_t n = at; n < query->bytes; n++) {
        node = foci_trie_step(query->trie, node, (unsigned char)query->text[n]);
        if (node < 0) break;
        const int32_t index = query->trie->value[node];
        if (index < 0) continue;
        const foci_added_token *token = &query->added->tokens[index];
        if (token->is_special && !query->with_special) continue;
        if (token->single_word && stands_in_word(query, at, n + 1)) continue;
        found = token;
        *length = n + 1 - at;
    }
    return found;
}

const foci_added_token *foci_added_find(const foci_added_query *query, size_t taken, size_t *begin,
                                        size_t *end)
{
    for (size_t at = taken; at < query->bytes; at++) {
        if (query->trie->root[(unsigned char)query->text[at]] < 0) continue;
        size_t length = 0;
        const foci_added_token *token = longest_at(query, at, &length);
        if (!token) continue;
        *begin = at;
        *end = at + length;
        while (token->lstrip && *begin > taken) {
            const size_t before = step_back(query->text, *begin);
            if (!foci_is_space(foci_utf8_decode(query->text + before, *begin - before, &length)))
                break;
            *begin = before < taken ? taken : before;
        }
        while (token->rstrip && *end < query->bytes &&
               foci_is_space(foci_utf8_decode(query->text + *end, query->bytes - *end, &length)))
            *end += length;
        return token;
    }
    return NULL;
}
