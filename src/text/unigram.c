/* The best path through a word, forwards by dynamic programming and back along what was chosen. */
#include "text/unigram.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/utf8.h"

/* How far a character without a token lies below the worst token; SentencePiece's number. */
static const double unknown_penalty = 10.0;

/* What ends at a position on the best path to it. */
typedef struct step {
    int32_t id;      /* -1: an unknown character */
    uint32_t length; /* bytes; 0: no path gets here */
} step;

/* A word while its path is sought. Scores are kept for the positions that a token can still reach,
 * in a ring. */
typedef struct path {
    step *steps;   /* (bytes + 1) by end */
    double *score; /* (ring_mask + 1) */
    size_t ring_mask;
} path;

focal_status foci_unigram_init(focal_ctx *ctx, const foci_vocab *vocab, int32_t unknown,
                               bool byte_fallback, foci_unigram *unigram)
{
    *unigram = (foci_unigram){
        .vocab = vocab, .unknown = unknown, .byte_fallback = byte_fallback, .unknown_score = 0};
    FOCAL_TRY(foci_trie_init(ctx, vocab->begin[vocab->size], &unigram->trie));
    for (int32_t id = 0; id < vocab->size; id++) {
        size_t bytes;
        const char *text = foci_vocab_text(vocab, id, &bytes);
        if (vocab->score[id] < unigram->unknown_score) unigram->unknown_score = vocab->score[id];
        const bool is_text =
            vocab->kind[id] == FOCAL_TOKEN_NORMAL || vocab->kind[id] == FOCAL_TOKEN_USER;
        if (bytes > 0 && is_text) (void)foci_trie_add(&unigram->trie, text, bytes, id);
    }
    unigram->unknown_score -= unknown_penalty;
    return FOCAL_OK;
}

void foci_unigram_free(foci_unigram *unigram)
{
    foci_trie_free(&unigram->trie);
    *unigram = (foci_unigram){0};
}

static void offer(path *p, size_t from, size_t length, int32_t id, double score)
{
    const size_t to = from + length;
    if (p->steps[to].length != 0 && score <= p->score[to & p->ring_mask]) return;
    p->steps[to] = (step){id, (uint32_t)length};
    p->score[to & p->ring_mask] = score;
}

static void find_path(const foci_unigram *u, path *p, const char *word, size_t bytes)
{
    memset(p->steps, 0, (bytes + 1) * sizeof *p->steps);
    p->score[0] = 0.0;
    for (size_t at = 0, character; at < bytes; at += character) {
        const double here = p->score[at & p->ring_mask];
        character = foci_utf8_step(word + at, bytes - at);
        bool has_character = false;
        int32_t node = 0;
        for (size_t n = at; n < bytes; n++) {
            node = foci_trie_step(&u->trie, node, (unsigned char)word[n]);
            if (node < 0) break;
            const int32_t id = u->trie.value[node];
            if (id < 0) continue;
            offer(p, at, n + 1 - at, id, here + u->vocab->score[id]);
            has_character = has_character || n + 1 - at == character;
        }
        if (!has_character) offer(p, at, character, -1, here + u->unknown_score);
    }
}

/* Turns the links, which lead backwards, into lengths at the beginnings. */
static void reverse_path(path *p, size_t bytes)
{
    step following = p->steps[bytes];
    for (size_t at = bytes; at > 0;) {
        at -= following.length;
        const step before = p->steps[at];
        p->steps[at] = following;
        following = before;
    }
}

static void put_unknown(const foci_unigram *u, const char *text, size_t bytes, focal_ids *out)
{
    bool has_bytes = u->byte_fallback;
    for (size_t n = 0; n < bytes && has_bytes; n++)
        has_bytes = u->vocab->byte_id[(unsigned char)text[n]] >= 0;
    if (has_bytes) {
        for (size_t n = 0; n < bytes; n++)
            out->ids[out->count++] = u->vocab->byte_id[(unsigned char)text[n]];
    } else if (u->unknown >= 0) {
        out->ids[out->count++] = u->unknown;
    }
}

static void emit_path(const foci_unigram *u, const path *p, const char *word, size_t bytes,
                      focal_ids *out)
{
    for (size_t at = 0; at < bytes;) {
        size_t end = at + p->steps[at].length;
        if (p->steps[at].id >= 0) {
            out->ids[out->count++] = p->steps[at].id;
        } else {
            while (end < bytes && p->steps[end].id < 0) end += p->steps[end].length;
            put_unknown(u, word + at, end - at, out);
        }
        at = end;
    }
}

focal_status foci_unigram_encode(focal_ctx *ctx, const foci_unigram *u, const char *word,
                                 size_t bytes, focal_ids *out)
{
    if (bytes == 0) return FOCAL_OK;
    FOCAL_TRY(foci_ids_reserve(ctx, out, bytes));
    size_t ring = 8;
    while (ring <= (size_t)u->vocab->longest) ring *= 2;
    path p = {.ring_mask = ring - 1};
    p.steps = foci_scratch(ctx, bytes + 1, sizeof *p.steps);
    p.score = foci_scratch(ctx, ring, sizeof *p.score);
    const bool is_done = p.steps && p.score;
    if (is_done) {
        find_path(u, &p, word, bytes);
        reverse_path(&p, bytes);
        emit_path(u, &p, word, bytes, out);
    }
    foci_scratch_free(ctx, p.score);
    foci_scratch_free(ctx, p.steps);
    return is_done ? FOCAL_OK : FOCAL_ENOMEM;
}
