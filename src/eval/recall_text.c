/* The texts of recall: pairs drawn from a seed, so that a text is a function of seed, number and
 * count of pairs. */
#include "eval/recall_text.h"

#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/random.h"
#include "focal/eval.h"
#include "text/utf8.h"

/* Syllables are a consonant and a vowel: every tokenizer has the letters, and one that is trained
 * on such texts soon has values and keys as tokens. (Digits it would not join: most tokenizers
 * split numbers into them.) */
static const char consonants[] = "bcdfghjklmnpqrstvwxz";
static const char vowels[] = "aeiou";
enum { SYLLABLES = 20 * 5, VALUES = SYLLABLES };
enum { KEY_STRIDE = 3571 }; /* shares no divisor with the keys: few of them, too, begin with all */
enum { DEFAULT_QUERIES = 8 };
_Static_assert(FOCAL_RECALL_KEYS == SYLLABLES * SYLLABLES, "keys are two syllables");

enum { STREAM_KEYS = 0x7265636C, STREAM_VALUES, STREAM_QUERIES, STREAM_KINDS = 16 };

typedef struct source {
    uint64_t seed, stream; /* the stream that the kinds are added to */
} source;

/* Each text has streams of its own: 2 n for measuring, 2 n + 1 for training. */
static source source_of(const focal_recall_plan *plan, int64_t n)
{
    const uint64_t text = 2 * (uint64_t)n + (plan->is_training ? 1 : 0);
    return (source){plan->seed, text * STREAM_KINDS};
}

static uint32_t draw(const source *s, uint64_t kind, uint64_t n, uint32_t bound)
{
    return foci_random_below(s->seed, s->stream + kind, n, bound);
}

static int32_t keys_of(const focal_recall_plan *plan)
{
    return plan->keys == 0 ? FOCAL_RECALL_KEYS : plan->keys;
}

/* The first `count` of a random order of the first `most` keys. */
static focal_status draw_keys(focal_ctx *ctx, const source *s, int32_t most, int32_t count,
                              int32_t *keys)
{
    int32_t *all = foci_alloc(ctx, (size_t)most, sizeof *all);
    if (!all) return FOCAL_ENOMEM;
    for (int32_t n = 0; n < most; n++)
        all[n] = (int32_t)((int64_t)n * KEY_STRIDE % FOCAL_RECALL_KEYS);
    for (int32_t n = 0; n < count; n++) {
        const int32_t other = n + (int32_t)draw(s, STREAM_KEYS, (uint64_t)n, (uint32_t)(most - n));
        keys[n] = all[other];
        all[other] = all[n];
    }
    foci_free(ctx, all);
    return FOCAL_OK;
}

static void put_syllable(int32_t number, char to[2])
{
    to[0] = consonants[number / 5];
    to[1] = vowels[number % 5];
}

static focal_status put_line(focal_ctx *ctx, int32_t key, int32_t value, focal_buffer *text)
{
    char line[FOCI_RECALL_LINE + 1] = "____ __\n";
    put_syllable(key / SYLLABLES, line);
    put_syllable(key % SYLLABLES, line + 2);
    put_syllable(value, line + FOCI_RECALL_VALUE);
    return foci_buffer_put(ctx, text, line, FOCI_RECALL_LINE);
}

/* The pair that query q asks for: of a quarter, the first from a random one on that was not asked.
 */
static int32_t pick_pair(const source *s, int64_t n, int32_t q, int32_t pairs, bool *is_asked)
{
    const int64_t quarter = (n + q) % FOCAL_RECALL_DEPTHS;
    const int64_t begin = pairs * quarter / FOCAL_RECALL_DEPTHS;
    const int64_t end = pairs * (quarter + 1) / FOCAL_RECALL_DEPTHS;
    const int64_t count = end > begin ? end - begin : 1; /* fewer than four pairs */
    int64_t pair = begin + draw(s, STREAM_QUERIES, (uint64_t)q, (uint32_t)count);
    for (int64_t tried = 1; tried < count && is_asked[pair]; tried++)
        pair = begin + (pair + 1 - begin) % count;
    while (is_asked[pair]) pair = (pair + 1) % pairs; /* the quarter has none left */
    is_asked[pair] = true;
    return (int32_t)pair;
}

static focal_status write_lines(focal_ctx *ctx, const source *s, int64_t n, foci_recall_shape shape,
                                foci_recall_room *room, focal_buffer *text)
{
    for (int32_t i = 0; i < shape.pairs; i++) {
        room->values[i] = (int32_t)draw(s, STREAM_VALUES, (uint64_t)i, VALUES);
        FOCAL_TRY(put_line(ctx, room->keys[i], room->values[i], text));
    }
    FOCAL_TRY(foci_buffer_put(ctx, text, "\n", 1));
    for (int32_t q = 0; q < shape.queries; q++) {
        if (q % shape.pairs == 0) memset(room->is_asked, 0, sizeof room->is_asked);
        const int32_t pair = pick_pair(s, n, q, shape.pairs, room->is_asked);
        FOCAL_TRY(put_line(ctx, room->keys[pair], room->values[pair], text));
        room->asked[q] = pair;
    }
    return FOCAL_OK;
}

int32_t foci_recall_pairs_most(const focal_recall_plan *plan)
{
    const int32_t keys = keys_of(plan);
    return keys < FOCAL_RECALL_PAIRS_MOST ? keys : FOCAL_RECALL_PAIRS_MOST;
}

focal_status foci_recall_shape_of(focal_ctx *ctx, const focal_recall_plan *plan, int32_t pairs,
                                  foci_recall_shape *shape)
{
    const int32_t queries = plan->queries == 0 ? DEFAULT_QUERIES : plan->queries;
    const int32_t keys = keys_of(plan), most = foci_recall_pairs_most(plan);
    if (keys < FOCAL_RECALL_PAIRS_LEAST || keys > FOCAL_RECALL_KEYS)
        return foci_fail(ctx, FOCAL_EINVAL, "recall: %d different keys, %d to %d are possible",
                         keys, FOCAL_RECALL_PAIRS_LEAST, FOCAL_RECALL_KEYS);
    if (pairs < FOCAL_RECALL_PAIRS_LEAST || pairs > most || queries < 1 ||
        queries > FOCAL_RECALL_PAIRS_MOST)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "recall: a text of %d pairs (%d to %d) with %d queries (1 to %d)", pairs,
                         FOCAL_RECALL_PAIRS_LEAST, most, queries, FOCAL_RECALL_PAIRS_MOST);
    *shape = (foci_recall_shape){pairs, plan->is_training || queries < pairs ? queries : pairs};
    return FOCAL_OK;
}

focal_status foci_recall_write(focal_ctx *ctx, const focal_recall_plan *plan, int64_t n,
                               foci_recall_shape shape, foci_recall_room *room, focal_buffer *text)
{
    const size_t before = text->bytes;
    const source s = source_of(plan, n);
    focal_status status = draw_keys(ctx, &s, keys_of(plan), shape.pairs, room->keys);
    if (status == FOCAL_OK) status = write_lines(ctx, &s, n, shape, room, text);
    if (status != FOCAL_OK) text->bytes = before;
    return status;
}

focal_status focal_recall_text(focal_ctx *ctx, const focal_recall_plan *plan, int64_t n,
                               int32_t pairs, focal_buffer *text)
{
    foci_recall_shape shape = {0};
    FOCAL_TRY(foci_recall_shape_of(ctx, plan, pairs, &shape));
    if (n < 0) return foci_fail(ctx, FOCAL_EINVAL, "recall: text %lld, at least 0", (long long)n);
    foci_recall_room *room = foci_alloc(ctx, 1, sizeof *room);
    if (!room) return FOCAL_ENOMEM;
    const focal_status status = foci_recall_write(ctx, plan, n, shape, room, text);
    foci_free(ctx, room);
    return status;
}
