/* Training of BPE by counts that are kept up to date: each pair knows how often it stands in the
 * text and in which words it may be, a heap knows the most frequent one, and joining a pair touches
 * only those words. Order and ties are those of Hugging Face's trainer. It differs in one rare
 * case: when two different pairs join to one token, pairs with that token can come back after they
 * were joined, and that trainer then lists them as a second merge or counts their old places again;
 * here a pair is listed each time it is joined anew, by what is there. */
#include "text/bpe_train.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/bpe.h"
#include "text/utf8.h"

enum { PROGRESS_EVERY = 256, NOTHING = 0 /* as an index of places: the first one is never used */ };

/* A word while its pairs are joined. */
typedef struct word_state {
    uint32_t begin, length; /* of its symbols */
    int64_t count;
} word_state;

/* A word that a pair may be in: a list, linked by indices. */
typedef struct place {
    uint32_t word, next;
} place;

typedef struct pair_state {
    uint64_t pair;
    int64_t count;    /* in the whole text */
    int64_t queued;   /* the highest count under which it waits in the heap; 0: it does not */
    uint32_t places;  /* the list's first, or NOTHING */
    uint32_t touched; /* number of the merge that made more of it last */
} pair_state;

/* A pair that waits: with the count it had then. */
typedef struct waiting {
    int64_t count;
    uint64_t pair;
    uint32_t index;
} waiting;

typedef struct trainer {
    foci_bpe_training *t;
    focal_ctx *ctx;
    int32_t *symbols; /* of all words */
    word_state *words;
    place *places;
    size_t place_count, place_room;
    uint32_t free_places; /* list of those that can be used again */
    pair_state *pairs;
    size_t pair_count, pair_room;
    uint32_t *slots; /* index of a pair + 1, by hash */
    uint64_t slot_mask;
    waiting *heap;
    size_t heap_count, heap_room;
    uint32_t *touched; /* pairs that the present merge made more of */
    size_t touched_count, touched_room;
} trainer;

/* The list of `count` things of `size` bytes with room for one more, perhaps elsewhere; NULL
 * without memory, and the list is as it was. */
static void *with_room(focal_ctx *ctx, void *list, size_t count, size_t *room, size_t size)
{
    if (list && count < *room) return list;
    const size_t wanted = *room ? 2 * *room : 1024;
    void *block = foci_alloc(ctx, wanted, size);
    if (!block) return NULL;
    if (list) memcpy(block, list, count * size);
    foci_free(ctx, list);
    *room = wanted;
    return block;
}

/* More frequent first, of equal ones the lower pair. */
static bool is_before(const waiting *a, const waiting *b)
{
    return a->count != b->count ? a->count > b->count : a->pair < b->pair;
}

static focal_status push(trainer *r, uint32_t index)
{
    pair_state *pair = &r->pairs[index];
    const waiting entry = {pair->count, pair->pair, index};
    waiting *heap = with_room(r->ctx, r->heap, r->heap_count, &r->heap_room, sizeof *heap);
    if (!heap) return FOCAL_ENOMEM;
    r->heap = heap;
    size_t at = r->heap_count++;
    while (at > 0 && is_before(&entry, &r->heap[(at - 1) / 2])) {
        r->heap[at] = r->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    r->heap[at] = entry;
    pair->queued = pair->count;
    return FOCAL_OK;
}

static waiting pop(trainer *r)
{
    const waiting top = r->heap[0], last = r->heap[--r->heap_count];
    size_t at = 0;
    for (size_t child = 1; child < r->heap_count; child = 2 * at + 1) {
        if (child + 1 < r->heap_count && is_before(&r->heap[child + 1], &r->heap[child])) child++;
        if (!is_before(&r->heap[child], &last)) break;
        r->heap[at] = r->heap[child];
        at = child;
    }
    r->heap[at] = last;
    return top;
}

static uint64_t hash_pair(uint64_t pair)
{
    pair *= 0x9E3779B97F4A7C15U;
    return pair ^ pair >> 32;
}

static focal_status grow_slots(trainer *r)
{
    const uint64_t room = r->slots ? 2 * (r->slot_mask + 1) : 1 << 12;
    uint32_t *slots = foci_alloc(r->ctx, room, sizeof *slots);
    if (!slots) return FOCAL_ENOMEM;
    memset(slots, 0, room * sizeof *slots);
    foci_free(r->ctx, r->slots);
    r->slots = slots;
    r->slot_mask = room - 1;
    for (size_t n = 0; n < r->pair_count; n++) {
        uint64_t at = hash_pair(r->pairs[n].pair) & r->slot_mask;
        while (slots[at] != 0) at = (at + 1) & r->slot_mask;
        slots[at] = (uint32_t)n + 1;
    }
    return FOCAL_OK;
}

/* The pair's index; a new one has no count and no places. */
static focal_status find_pair(trainer *r, int32_t left, int32_t right, uint32_t *index)
{
    const uint64_t pair = foci_pair_of(left, right);
    if (!r->slots || 2 * r->pair_count > r->slot_mask) FOCAL_TRY(grow_slots(r));
    uint64_t at = hash_pair(pair) & r->slot_mask;
    for (; r->pairs && r->slots[at] != 0; at = (at + 1) & r->slot_mask) {
        *index = r->slots[at] - 1;
        if (r->pairs[*index].pair == pair) return FOCAL_OK;
    }
    pair_state *pairs = with_room(r->ctx, r->pairs, r->pair_count, &r->pair_room, sizeof *pairs);
    if (!pairs) return FOCAL_ENOMEM;
    r->pairs = pairs;
    *index = (uint32_t)r->pair_count++;
    r->pairs[*index] = (pair_state){.pair = pair};
    r->slots[at] = *index + 1;
    return FOCAL_OK;
}

static focal_status new_place(trainer *r, uint32_t *index)
{
    if (r->free_places != NOTHING) {
        *index = r->free_places;
        r->free_places = r->places[*index].next;
        return FOCAL_OK;
    }
    if (r->place_count == 0) r->place_count = 1;
    if (r->place_count == UINT32_MAX)
        return foci_fail(r->ctx, FOCAL_ENOMEM, "tokenizer: more than %u places of pairs",
                         UINT32_MAX);
    place *places = with_room(r->ctx, r->places, r->place_count, &r->place_room, sizeof *places);
    if (!places) return FOCAL_ENOMEM;
    r->places = places;
    *index = (uint32_t)r->place_count++;
    return FOCAL_OK;
}

/* The word has this pair once more; `merge` is the number of the merge that made it so. */
static focal_status add_pair(trainer *r, int32_t left, int32_t right, uint32_t word, uint32_t merge)
{
    uint32_t index, spot = NOTHING;
    FOCAL_TRY(find_pair(r, left, right, &index));
    pair_state *pair = &r->pairs[index];
    pair->count += r->words[word].count;
    if (pair->touched != merge) {
        uint32_t *list =
            with_room(r->ctx, r->touched, r->touched_count, &r->touched_room, sizeof *list);
        if (!list) return FOCAL_ENOMEM;
        r->touched = list;
        r->touched[r->touched_count++] = index;
        pair->touched = merge;
    }
    /* Words are worked on one after the other, so a word that is known stands in front. */
    if (pair->places != NOTHING && r->places[pair->places].word == word) return FOCAL_OK;
    FOCAL_TRY(new_place(r, &spot));
    r->places[spot] = (place){word, pair->places};
    pair->places = spot;
    return FOCAL_OK;
}

static focal_status remove_pair(trainer *r, int32_t left, int32_t right, uint32_t word)
{
    uint32_t index;
    FOCAL_TRY(find_pair(r, left, right, &index));
    r->pairs[index].count -= r->words[word].count;
    return FOCAL_OK;
}

/* Pairs that became more frequent wait under their new count. */
static focal_status push_touched(trainer *r)
{
    for (size_t n = 0; n < r->touched_count; n++) {
        const pair_state *pair = &r->pairs[r->touched[n]];
        if (pair->count > pair->queued) FOCAL_TRY(push(r, r->touched[n]));
    }
    r->touched_count = 0;
    return FOCAL_OK;
}

/* Joins the pair wherever it stands in the word, from left to right. */
static focal_status join_in_word(trainer *r, uint64_t pair, int32_t joined, uint32_t word,
                                 uint32_t merge)
{
    const int32_t left = (int32_t)(pair >> 32), right = (int32_t)(uint32_t)pair;
    word_state *w = &r->words[word];
    int32_t *symbols = r->symbols + w->begin;
    uint32_t out = 0;
    for (uint32_t n = 0; n < w->length; n++) {
        if (symbols[n] != left || n + 1 == w->length || symbols[n + 1] != right) {
            symbols[out++] = symbols[n];
            continue;
        }
        if (out > 0) {
            FOCAL_TRY(remove_pair(r, symbols[out - 1], left, word));
            FOCAL_TRY(add_pair(r, symbols[out - 1], joined, word, merge));
        }
        if (n + 2 < w->length) {
            FOCAL_TRY(remove_pair(r, right, symbols[n + 2], word));
            FOCAL_TRY(add_pair(r, joined, symbols[n + 2], word, merge));
        }
        symbols[out++] = joined;
        n++;
    }
    w->length = out;
    return FOCAL_OK;
}

static focal_status join_everywhere(trainer *r, uint32_t index, int32_t joined, uint32_t merge)
{
    const uint64_t pair = r->pairs[index].pair;
    uint32_t at = r->pairs[index].places;
    r->pairs[index].places = NOTHING;
    while (at != NOTHING) {
        const place spot = r->places[at];
        r->places[at].next = r->free_places;
        r->free_places = at;
        FOCAL_TRY(join_in_word(r, pair, joined, spot.word, merge));
        at = spot.next;
    }
    r->pairs[index].count = r->pairs[index].queued = 0;
    return push_touched(r);
}

/* The id of what the pair joins to; -1 when that would be a special token. */
static focal_status joined_id(trainer *r, uint64_t pair, int32_t *id)
{
    foci_words *tokens = &r->t->tokens;
    const foci_word *left = &tokens->words[pair >> 32], *right = &tokens->words[(uint32_t)pair];
    const size_t bytes = (size_t)left->bytes + right->bytes;
    int64_t index;
    char *text = foci_scratch(r->ctx, bytes, 1); /* tokens->text moves when it grows */
    if (!text) return FOCAL_ENOMEM;
    memcpy(text, tokens->text.data + left->begin, left->bytes);
    memcpy(text + left->bytes, tokens->text.data + right->begin, right->bytes);
    const focal_status status = foci_words_add(tokens, text, bytes, 1, &index);
    foci_scratch_free(r->ctx, text);
    *id = index < r->t->special_count ? -1 : (int32_t)index;
    return status;
}

static focal_status join_all(trainer *r)
{
    foci_bpe_training *t = r->t;
    const int64_t first = t->tokens.count;
    size_t room = 0;
    while (t->tokens.count < t->vocab && r->heap_count > 0) {
        const waiting top = pop(r);
        pair_state *pair = &r->pairs[top.index];
        int32_t joined = -1;
        if (pair->count != top.count) { /* joins of its neighbours took some away */
            if (pair->count > 0 && pair->queued == top.count) FOCAL_TRY(push(r, top.index));
            continue;
        }
        if (pair->count < t->min_count) break;
        FOCAL_TRY(joined_id(r, pair->pair, &joined));
        if (joined < 0) continue;
        foci_pair *merges =
            with_room(r->ctx, t->merges, (size_t)t->merge_count, &room, sizeof *merges);
        if (!merges) return FOCAL_ENOMEM;
        t->merges = merges;
        t->merges[t->merge_count++] =
            (foci_pair){(int32_t)(top.pair >> 32), (int32_t)(uint32_t)top.pair};
        FOCAL_TRY(join_everywhere(r, top.index, joined, (uint32_t)t->merge_count + 1));
        if (t->on_merge && t->merge_count % PROGRESS_EVERY == 0 &&
            !t->on_merge(t->user, t->tokens.count - first, t->vocab - first))
            return foci_fail(r->ctx, FOCAL_EINVAL, "tokenizer: stopped");
    }
    return FOCAL_OK;
}

/* Words as the tokens of their bytes, and all pairs in them. */
static focal_status begin(trainer *r)
{
    const foci_words *words = r->t->words;
    r->symbols = foci_alloc(r->ctx, words->text.bytes, sizeof *r->symbols);
    r->words = foci_alloc(r->ctx, (size_t)words->count, sizeof *r->words);
    if (!r->symbols || !r->words) return FOCAL_ENOMEM;
    for (int64_t n = 0; n < words->count; n++) {
        const foci_word *word = &words->words[n];
        const char *text = foci_word_text(words, n);
        int32_t *symbols = r->symbols + word->begin;
        r->words[n] = (word_state){word->begin, word->bytes, word->count};
        for (uint32_t k = 0; k < word->bytes; k++) {
            symbols[k] = r->t->byte_id[(unsigned char)text[k]];
            if (k > 0) FOCAL_TRY(add_pair(r, symbols[k - 1], symbols[k], (uint32_t)n, 1));
        }
    }
    return push_touched(r);
}

focal_status foci_bpe_train(foci_bpe_training *training)
{
    trainer r = {.t = training, .ctx = training->ctx};
    training->merges = NULL;
    training->merge_count = 0;
    focal_status status = begin(&r);
    if (status == FOCAL_OK) status = join_all(&r);
    void *const blocks[] = {r.symbols, r.words, r.places, r.pairs, r.slots, r.heap, r.touched};
    for (size_t n = 0; n < FOCAL_COUNT(blocks); n++) foci_free(r.ctx, blocks[n]);
    return status;
}
