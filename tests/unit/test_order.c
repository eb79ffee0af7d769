/* The order of training data: permutations without storage, windows that cover every token once an
 * epoch, equal samples for every division of a batch, and sequences that end where documents do. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "train/order.h"

/* A stream in memory: token n is n, documents begin where is_start says. */
typedef struct stream {
    focal_ctx *ctx;
    int64_t count;
    bool *is_start;   /* (count) */
    int64_t fails_at; /* reads of this token fail */
} stream;

static focal_status read_stream(void *user, int64_t begin, int64_t count, int32_t *ids)
{
    const stream *s = user;
    assert_true(begin >= 0 && count >= 0 && begin + count <= s->count);
    if (s->fails_at >= begin && s->fails_at < begin + count)
        return foci_fail(s->ctx, FOCAL_EIO, "stream: no");
    for (int64_t n = 0; n < count; n++) ids[n] = (int32_t)(begin + n);
    return FOCAL_OK;
}

static focal_status find_starts(void *user, int64_t begin, int64_t end, int64_t room,
                                int64_t *starts, int64_t *count)
{
    const stream *s = user;
    assert_true(begin >= 0 && end <= s->count);
    *count = 0;
    for (int64_t n = begin; n < end; n++) {
        if (!s->is_start[n]) continue;
        if (*count < room) starts[*count] = n;
        ++*count;
    }
    return FOCAL_OK;
}

/* A document begins at token 0 and at each other with a chance of 1 in `every` (0: at no other). */
static foci_tokens new_stream(focal_ctx *ctx, int64_t count, uint32_t every)
{
    stream *s = new_array(1, sizeof *s);
    *s = (stream){ctx, count, new_array((size_t)count, sizeof(bool)), -1};
    for (int64_t n = 0; n < count; n++)
        s->is_start[n] = n == 0 || (every > 0 && foci_random_below(3, 4, (uint64_t)n, every) == 0);
    return (foci_tokens){s, count, read_stream, find_starts};
}

static void free_stream(foci_tokens tokens)
{
    stream *s = tokens.user;
    free(s->is_start);
    free(s);
}

static foci_windows new_rows(int64_t count)
{
    return (foci_windows){new_array((size_t)count, sizeof(int32_t)),
                          new_array((size_t)count, sizeof(int32_t)),
                          new_array((size_t)count, sizeof(foci_sequence)), 0};
}

static void free_rows(foci_windows rows)
{
    free(rows.ids);
    free(rows.targets);
    free(rows.sequences);
}

static void permutations_are_permutations(void **state)
{
    (void)state;
    static const int64_t counts[] = {1, 2, 3, 5, 16, 63, 64, 65, 100, 256, 257, 4096, 10007};
    for (size_t c = 0; c < FOCAL_COUNT(counts); c++) {
        for (uint64_t epoch = 0; epoch < 4; epoch++) {
            bool *seen = new_array((size_t)counts[c], sizeof *seen);
            for (int64_t n = 0; n < counts[c]; n++) {
                const int64_t value = foci_permute(11, epoch, counts[c], n);
                assert_in_range(value, 0, counts[c] - 1);
                assert_false(seen[value]);
                seen[value] = true;
            }
            free(seen);
        }
    }
    const int64_t huge = INT64_C(1) << 40; /* no search, no table */
    assert_in_range(foci_permute(1, 2, huge, huge - 1), 0, huge - 1);
}

/* Each value comes to each place equally often over the epochs, and after each other value. */
static void orders_look_random(void **state)
{
    (void)state;
    enum { COUNT = 12, EPOCHS = 4000 };
    static int place[COUNT][COUNT], after[COUNT][COUNT];
    memset(place, 0, sizeof place);
    memset(after, 0, sizeof after);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        int64_t before = -1;
        for (int64_t n = 0; n < COUNT; n++) {
            const int64_t value = foci_permute(5, epoch, COUNT, n);
            place[n][value]++;
            if (before >= 0) after[before][value]++;
            before = value;
        }
    }
    /* 333.3 expected each, standard deviation 17.5: six of them. */
    for (int a = 0; a < COUNT; a++)
        for (int b = 0; b < COUNT; b++) {
            assert_in_range(place[a][b], 228, 438);
            if (a != b) assert_in_range(after[a][b], 228, 438);
        }
}

/* Resuming with a later version must give the same data: these values may not change. */
static void the_order_is_fixed(void **state)
{
    (void)state;
    static const int64_t expected[2][8] = {{554, 408, 609, 290, 666, 714, 24, 915},
                                           {106, 991, 616, 698, 218, 180, 505, 851}};
    for (uint64_t epoch = 0; epoch < 2; epoch++)
        for (int64_t n = 0; n < 8; n++)
            assert_int_equal(foci_permute(1234, epoch, 1000, n), expected[epoch][n]);
}

/* Written from the words of the header, one row at a time. */
static void assert_rows(const foci_order *order, const stream *s, int64_t first, int32_t count,
                        const foci_windows *rows)
{
    int64_t sequence = 0;
    for (int32_t n = 0; n < count; n++) {
        const int64_t window = foci_order_window(order, first + n);
        assert_in_range(window, 0, order->window_count - 1);
        const int64_t token = order->begin + window * order->length;
        int64_t position = 0;
        for (int32_t i = 0; i < order->length; i++) {
            const int64_t row = (int64_t)n * order->length + i;
            const bool divides = !order->crosses_documents;
            if (i == 0 || (divides && s->is_start[token + i])) {
                assert_int_equal(rows->sequences[sequence].start, row);
                if (i > 0) assert_int_equal(rows->sequences[sequence - 1].count, position);
                position = 0;
                sequence++;
            }
            position++;
            assert_int_equal(rows->ids[row], token + i);
            const bool ends = divides && s->is_start[token + i + 1];
            assert_int_equal(rows->targets[row], ends ? -1 : token + i + 1);
        }
        assert_int_equal(rows->sequences[sequence - 1].count, position);
    }
    assert_int_equal(rows->sequence_count, sequence);
}

static void windows_are_what_they_say(void **state)
{
    focal_ctx *ctx = *state;
    static const uint32_t densities[] = {0, 1, 2, 7, 40};
    for (size_t d = 0; d < FOCAL_COUNT(densities); d++) {
        const foci_tokens tokens = new_stream(ctx, 1003, densities[d]);
        for (int form = 0; form < 4; form++) {
            foci_order order = {.tokens = &tokens,
                                .begin = form ? 17 : 0,
                                .end = form ? 900 : 1003,
                                .length = form ? 13 : 32,
                                .seed = 9,
                                .is_shuffled = form % 2 == 0,
                                .crosses_documents = form == 3};
            assert_status(ctx, foci_order_check(ctx, &order), FOCAL_OK);
            assert_int_equal(order.window_count, form ? 882 / 13 : 1002 / 32);
            const foci_windows rows = new_rows(160);
            foci_windows got = rows;
            for (int64_t first = 0; first < 3 * order.window_count; first += 5) {
                assert_status(ctx, foci_order_read(ctx, &order, first, 5, &got), FOCAL_OK);
                assert_rows(&order, tokens.user, first, 5, &got);
            }
            free_rows(rows);
        }
        free_stream(tokens);
    }
}

/* In one epoch every token but the first is a target once. */
static void an_epoch_sees_all(void **state)
{
    focal_ctx *ctx = *state;
    enum { LENGTH = 16, WINDOWS = 37, TOKENS = LENGTH * WINDOWS + 1 };
    const foci_tokens tokens = new_stream(ctx, TOKENS, 0);
    foci_order order = {
        .tokens = &tokens, .end = TOKENS, .length = LENGTH, .seed = 3, .is_shuffled = true};
    assert_status(ctx, foci_order_check(ctx, &order), FOCAL_OK);
    assert_int_equal(order.window_count, WINDOWS);
    const foci_windows rows = new_rows(TOKENS);
    foci_windows got = rows;
    int64_t epochs[2][WINDOWS];
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        int seen[TOKENS] = {0};
        assert_status(ctx, foci_order_read(ctx, &order, epoch * WINDOWS, WINDOWS, &got), FOCAL_OK);
        for (int n = 0; n < LENGTH * WINDOWS; n++) seen[got.targets[n]]++;
        for (int n = 1; n < TOKENS; n++) assert_int_equal(seen[n], 1);
        for (int64_t n = 0; n < WINDOWS; n++)
            epochs[epoch][n] = foci_order_window(&order, epoch * WINDOWS + n);
    }
    assert_memory_not_equal(epochs[0], epochs[1], sizeof epochs[0]);
    free_rows(rows);
    free_stream(tokens);
}

/* Step 7 of batches of 12, all at once and in passes of 4 and of 1. */
static void passes_do_not_matter(void **state)
{
    focal_ctx *ctx = *state;
    enum { BATCH = 12, LENGTH = 8, FIRST = 7 * BATCH, ROWS = BATCH * LENGTH };
    const foci_tokens tokens = new_stream(ctx, 333, 5);
    foci_order order = {
        .tokens = &tokens, .end = 333, .length = LENGTH, .seed = 3, .is_shuffled = true};
    assert_status(ctx, foci_order_check(ctx, &order), FOCAL_OK);
    const foci_windows whole = new_rows(ROWS), part = new_rows(ROWS);
    foci_windows all = whole;
    assert_status(ctx, foci_order_read(ctx, &order, FIRST, BATCH, &all), FOCAL_OK);
    for (int32_t piece = 4; piece > 0; piece -= 3) {
        int64_t sequence = 0;
        for (int32_t from = 0; from < BATCH; from += piece) {
            foci_windows got = part;
            assert_status(ctx, foci_order_read(ctx, &order, FIRST + from, piece, &got), FOCAL_OK);
            const size_t bytes = (size_t)piece * LENGTH * sizeof(int32_t);
            assert_memory_equal(got.ids, all.ids + (ptrdiff_t)from * LENGTH, bytes);
            assert_memory_equal(got.targets, all.targets + (ptrdiff_t)from * LENGTH, bytes);
            for (int64_t n = 0; n < got.sequence_count; n++, sequence++) {
                assert_int_equal(got.sequences[n].start + (int64_t)from * LENGTH,
                                 all.sequences[sequence].start);
                assert_int_equal(got.sequences[n].count, all.sequences[sequence].count);
            }
        }
        assert_int_equal(sequence, all.sequence_count);
    }
    free_rows(whole);
    free_rows(part);
    free_stream(tokens);
}

static void the_split_is_between_documents(void **state)
{
    focal_ctx *ctx = *state;
    int64_t border = 0;
    const foci_tokens one = new_stream(ctx, 1000, 0);
    assert_status(ctx, foci_order_split(ctx, &one, 0.1, &border), FOCAL_OK);
    assert_int_equal(border, 900);
    assert_status(ctx, foci_order_split(ctx, &one, 0.0, &border), FOCAL_OK);
    assert_int_equal(border, 1000);
    stream *s = one.user;
    s->is_start[890] = s->is_start[949] = s->is_start[960] = true;
    assert_status(ctx, foci_order_split(ctx, &one, 0.1, &border), FOCAL_OK);
    assert_int_equal(border, 949);
    s->is_start[949] = false; /* the next one would leave less than half of what was asked for */
    assert_status(ctx, foci_order_split(ctx, &one, 0.1, &border), FOCAL_OK);
    assert_int_equal(border, 900);
    assert_status(ctx, foci_order_split(ctx, &one, -0.1, &border), FOCAL_EINVAL);
    assert_status(ctx, foci_order_split(ctx, &one, 0.6, &border), FOCAL_EINVAL);
    free_stream(one);
}

static focal_status find_nonsense(void *user, int64_t begin, int64_t end, int64_t room,
                                  int64_t *starts, int64_t *count)
{
    (void)user;
    (void)room;
    (void)end;
    starts[0] = begin + 2;
    starts[1] = begin;
    *count = 2;
    return FOCAL_OK;
}

static void faults_have_sentences(void **state)
{
    focal_ctx *ctx = *state;
    foci_tokens tokens = new_stream(ctx, 100, 10);
    const foci_order good = {.tokens = &tokens, .end = 100, .length = 10};
    foci_order order = good;
    order.end = 10;
    assert_status(ctx, foci_order_check(ctx, &order), FOCAL_EINVAL);
    assert_non_null(
        strstr(focal_ctx_error(ctx), "10 tokens of text, a sequence of 10 (data.length) needs 11"));
    order.end = 11;
    assert_status(ctx, foci_order_check(ctx, &order), FOCAL_OK);
    assert_int_equal(order.window_count, 1);
    order.end = 20; /* a second window would lack its last target */
    assert_status(ctx, foci_order_check(ctx, &order), FOCAL_OK);
    assert_int_equal(order.window_count, 1);
    order.end = 101;
    assert_status(ctx, foci_order_check(ctx, &order), FOCAL_EINVAL);
    order = good;
    order.length = 1;
    assert_status(ctx, foci_order_check(ctx, &order), FOCAL_EINVAL);
    order = good;
    assert_status(ctx, foci_order_check(ctx, &order), FOCAL_OK);
    const foci_windows rows = new_rows(100);
    foci_windows got = rows;
    assert_status(ctx, foci_order_read(ctx, &order, -1, 1, &got), FOCAL_EINVAL);
    assert_status(ctx, foci_order_read(ctx, &order, INT64_MAX, 1, &got), FOCAL_EINVAL);
    ((stream *)tokens.user)->fails_at = 15;
    assert_status(ctx, foci_order_read(ctx, &order, 0, 3, &got), FOCAL_EIO);
    ((stream *)tokens.user)->fails_at = -1;
    tokens.starts = find_nonsense;
    assert_status(ctx, foci_order_read(ctx, &order, 0, 3, &got), FOCAL_EFORMAT);
    tokens.starts = find_starts;
    for (int64_t n = 1; n <= 2; n++) {
        focal_ctx_trim(ctx);
        memory_fail(n, true);
        assert_status(ctx, foci_order_read(ctx, &order, 0, 3, &got), FOCAL_ENOMEM);
        memory_fail(0, false);
    }
    free_rows(rows);
    free_stream(tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutations_are_permutations),
        cmocka_unit_test(orders_look_random),
        cmocka_unit_test(the_order_is_fixed),
        cmocka_unit_test_setup_teardown(windows_are_what_they_say, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(an_epoch_sees_all, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(passes_do_not_matter, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(the_split_is_between_documents, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(faults_have_sentences, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
