/* Merges as scores. Merges say which pairs are joined and in which order; scores join any two
 * neighbours whose text is a token. So the scores are right when no pair that is not a merge can
 * ever stand there: see is_joined_otherwise(). */
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/tokenizer.h"
#include "text/tokenizer_export.h"

/* Ranks are at most 0; the second stands for the first until all are known. */
static const float no_merge = -1000.0F, not_yet = 1.0F;

static bool is_text(const foci_vocab *vocab, int32_t id)
{
    return vocab->kind[id] == FOCAL_TOKEN_NORMAL || vocab->kind[id] == FOCAL_TOKEN_USER;
}

/* True when scores would make the token out of two symbols that the merges leave apart.
 *
 * Say that, in some text, scores first part from merges by joining the neighbours l and r, which is
 * no merge, to the token lr. Up to there nothing was joined across the ends of l and r, and each
 * join between them was the best of all, so the best between them: the merges alone, on the text lr
 * alone, come to l and r as well, and stay there. So it is enough to look at what the merges make
 * of each token's own text: two symbols are a fault, one is the token, and with more the token is
 * out of reach of scores too. */
static bool is_joined_otherwise(const foci_vocab *vocab, const focal_ids *ids)
{
    int64_t symbols = 0;
    for (int64_t n = 0; n < ids->count; n++) {
        size_t bytes;
        const char *text = foci_vocab_text(vocab, ids->ids[n], &bytes);
        const bool is_byte = vocab->kind[ids->ids[n]] == FOCAL_TOKEN_BYTE;
        /* A character without a token is one symbol to scores, and here a token a byte. */
        symbols += !is_byte || (foci_byte_of_name(text, bytes) & 0xC0) != 0x80;
    }
    return symbols == 2;
}

static focal_status check_joins(const char *what, const focal_tokenizer *t)
{
    const foci_vocab *vocab = t->vocab;
    focal_ids ids = {0};
    focal_status status = FOCAL_OK;
    for (int32_t id = 0; id < vocab->size && status == FOCAL_OK; id++) {
        size_t bytes;
        const char *text = foci_vocab_text(vocab, id, &bytes);
        /* The user's tokens are cut out of the text before; only normalising can bring them back,
         * and all that it brings is the sign for a space. */
        const bool is_cut_out = vocab->kind[id] == FOCAL_TOKEN_USER &&
                                !memmem(text, bytes, FOCI_SPACE_SIGN, sizeof FOCI_SPACE_SIGN - 1);
        if (bytes == 0 || !is_text(vocab, id) || is_cut_out) continue;
        ids.count = 0;
        status = foci_bpe_encode(t->ctx, &t->bpe, text, bytes, &ids);
        if (status == FOCAL_OK && is_joined_otherwise(vocab, &ids))
            status = foci_fail(t->ctx, FOCAL_EUNSUPPORTED,
                               "%s: model.merges do not make '%.*s', which GGUF's scores would",
                               what, (int)(bytes < 64 ? bytes : 64), text);
    }
    focal_ids_free(t->ctx, &ids);
    return status;
}

/* Tokens in the order in which merges make them. One that several merges make must have them all in
 * a row: a score is one number. */
static focal_status rank_tokens(const char *what, const focal_tokenizer *t, const int32_t *made,
                                float *scores)
{
    const foci_vocab *vocab = t->vocab;
    int32_t last = -1, groups = 0;
    for (int64_t rank = 0; rank < t->bpe.merge_count; rank++) {
        const int32_t id = made[rank];
        if (id < 0 || id == last || !is_text(vocab, id)) continue;
        if (scores[id] <= 0.0F) {
            size_t bytes;
            const char *text = foci_vocab_text(vocab, id, &bytes);
            return foci_fail(t->ctx, FOCAL_EUNSUPPORTED,
                             "%s: merge %lld makes '%.*s' again, GGUF has one score for it", what,
                             (long long)rank, (int)(bytes < 64 ? bytes : 64), text);
        }
        scores[id] = -(float)groups;
        groups++;
        last = id;
    }
    return FOCAL_OK;
}

focal_status foci_scores_of_merges(const char *what, const focal_tokenizer *t, float *scores)
{
    const foci_bpe *bpe = &t->bpe;
    for (int32_t id = 0; id < t->vocab->size; id++) scores[id] = not_yet;
    int32_t *made = foci_alloc(t->ctx, (size_t)bpe->merge_count, sizeof *made);
    if (!made) return FOCAL_ENOMEM;
    for (int64_t rank = 0; rank < bpe->merge_count; rank++) made[rank] = -1;
    for (uint64_t n = 0; n <= bpe->merge_mask; n++)
        if (bpe->merge[n].pair != UINT64_MAX) made[bpe->merge[n].rank] = bpe->merge[n].joined;
    focal_status status = rank_tokens(what, t, made, scores);
    foci_free(t->ctx, made);
    for (int32_t id = 0; id < t->vocab->size; id++)
        if (scores[id] > 0.0F) scores[id] = no_merge;
    if (status == FOCAL_OK) status = check_joins(what, t);
    return status;
}
