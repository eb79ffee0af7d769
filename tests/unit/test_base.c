/* What everything stands on: status and messages, checked sizes, counted memory, the thread
 * pool, random numbers, bfloat16, and what the context reads from its surroundings. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/sizes.h"

enum { MAX_POOL = 8 };

/* An allocator that counts, and refuses once its budget of requests or of bytes is used up. */
typedef struct meter {
    atomic_long blocks, bytes; /* given out and not yet back */
    atomic_long requests;      /* ever */
    long request_limit;        /* 0: none */
    long byte_limit;           /* 0: none */
    atomic_long wrong_sizes;   /* blocks that came back with another size than they had */
} meter;

/* Stands before every block, so that the block stays at a multiple of 64. */
typedef union meter_tag {
    size_t bytes;
    char room[64];
} meter_tag;

static void *meter_alloc(void *user, size_t bytes)
{
    meter *m = user;
    const long request = atomic_fetch_add(&m->requests, 1) + 1;
    if (m->request_limit > 0 && request > m->request_limit) return NULL;
    if (m->byte_limit > 0 && atomic_load(&m->bytes) + (long)bytes > m->byte_limit) return NULL;
    meter_tag *tag = aligned_alloc(64, sizeof *tag + (bytes + 63) / 64 * 64);
    if (!tag) return NULL;
    tag->bytes = bytes;
    atomic_fetch_add(&m->blocks, 1);
    atomic_fetch_add(&m->bytes, (long)bytes);
    return tag + 1;
}

static void meter_release(void *user, void *block, size_t bytes)
{
    meter *m = user;
    meter_tag *tag = (meter_tag *)block - 1;
    if (tag->bytes != bytes) atomic_fetch_add(&m->wrong_sizes, 1);
    atomic_fetch_sub(&m->blocks, 1);
    atomic_fetch_sub(&m->bytes, (long)tag->bytes);
    free(tag);
}

static focal_ctx *open_metered(meter *m, int32_t threads)
{
    const focal_ctx_options options = {
        .threads = threads,
        .allocator = {.user = m, .alloc = meter_alloc, .release = meter_release}};
    focal_ctx *ctx = NULL;
    assert_int_equal(focal_ctx_open(&options, &ctx, NULL), FOCAL_OK);
    assert_non_null(ctx);
    return ctx;
}

static void assert_aligned(const void *block)
{
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % 64, 0);
}

/* Tests below set these themselves; what the caller's shell had must not reach them. */
static int clear_environment(void **state)
{
    (void)state;
    return unsetenv("OMP_NUM_THREADS") | unsetenv("FOCAL_KERNEL");
}

static void every_status_has_a_text(void **state)
{
    (void)state;
    assert_string_equal(focal_status_text(FOCAL_OK), "done");
    assert_string_equal(focal_status_text(FOCAL_EINVAL), "an argument is wrong");
    assert_string_equal(focal_status_text(FOCAL_EFORMAT), "a file is not what it claims to be");
    const int32_t beyond[] = {-1, 6, 1000};
    for (size_t n = 0; n < FOCAL_COUNT(beyond); n++)
        assert_string_equal(focal_status_text((focal_status)beyond[n]), "unknown status");
}

static void dtypes_have_names_and_sizes(void **state)
{
    (void)state;
    assert_string_equal(focal_dtype_name(FOCAL_F32), "f32");
    assert_string_equal(focal_dtype_name(FOCAL_BF16), "bf16");
    assert_string_equal(focal_dtype_name((focal_dtype)99), "?");
    assert_int_equal(focal_dtype_bytes(FOCAL_F32), 4);
    assert_int_equal(focal_dtype_bytes(FOCAL_BF16), 2);
    assert_int_equal(focal_dtype_bytes((focal_dtype)99), 0);
}

static void messages_stay_in_the_context(void **state)
{
    (void)state;
    meter m = {0};
    focal_ctx *ctx = open_metered(&m, 1), *other = open_metered(&m, 1);
    assert_string_equal(focal_ctx_error(ctx), "");
    assert_int_equal(foci_fail(ctx, FOCAL_EINVAL, "attn: %d query heads over %d", 3, 2),
                     FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "attn: 3 query heads over 2");
    assert_string_equal(focal_ctx_error(other), "");
    assert_int_equal(foci_fail(NULL, FOCAL_EIO, "nobody hears this"), FOCAL_EIO);
    assert_string_equal(focal_ctx_error(NULL), "no context");

    char longer[2000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    (void)foci_fail(ctx, FOCAL_EINVAL, "%s", longer);
    const size_t length = strlen(focal_ctx_error(ctx));
    assert_in_range(length, 100, sizeof longer - 2);
    assert_memory_equal(focal_ctx_error(ctx), longer, length);
    focal_ctx_close(ctx);
    focal_ctx_close(other);
    focal_ctx_close(NULL);
}

static focal_status tried(focal_status status, int *reached)
{
    FOCAL_TRY(status);
    *reached = 1;
    return FOCAL_OK;
}

static void try_returns_what_failed(void **state)
{
    (void)state;
    int reached = 0;
    assert_int_equal(tried(FOCAL_ENOMEM, &reached), FOCAL_ENOMEM);
    assert_int_equal(reached, 0);
    assert_int_equal(tried(FOCAL_OK, &reached), FOCAL_OK);
    assert_int_equal(reached, 1);
}

static void sizes_do_not_wrap(void **state)
{
    (void)state;
    size_t out = 77;
    assert_true(foci_size_mul(1U << 20, 1U << 20, &out));
    assert_true(out == (size_t)1 << 40);
    assert_true(foci_size_mul(SIZE_MAX, 0, &out));
    assert_int_equal(out, 0);
    out = 77;
    assert_false(foci_size_mul(SIZE_MAX / 2 + 1, 2, &out));
    assert_false(foci_size_add(SIZE_MAX, 1, &out));
    assert_int_equal(out, 77);
    assert_true(foci_size_add(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);

    assert_int_equal(foci_min64(-1, 2), -1);
    assert_int_equal(foci_max64(-1, 2), 2);
    assert_int_equal(foci_pieces(0, 16), 0);
    assert_int_equal(foci_pieces(1, 16), 1);
    assert_int_equal(foci_pieces(16, 16), 1);
    assert_int_equal(foci_pieces(17, 16), 2);
    assert_true(foci_pieces(INT64_MAX, 2) == INT64_MAX / 2 + 1);
    assert_int_equal(foci_round_up(17, 16), 32);
}

static void memory_is_aligned_and_counted(void **state)
{
    (void)state;
    meter m = {0};
    focal_ctx *ctx = open_metered(&m, 2);
    const focal_memory empty = focal_ctx_memory(ctx);
    assert_int_equal(empty.alloc_count, 0);

    char *a = foci_alloc(ctx, 1000, 3), *none = foci_alloc(ctx, 0, 8);
    assert_aligned(a);
    assert_aligned(none);
    memset(a, 1, 3000);
    const focal_memory both = focal_ctx_memory(ctx);
    assert_int_equal(both.alloc_count, 2);
    assert_in_range(both.now_bytes - empty.now_bytes, 3000, 3000 + 4 * 64);
    assert_true(both.peak_bytes >= both.now_bytes);

    foci_free(ctx, a);
    foci_free(ctx, none);
    foci_free(ctx, NULL);
    assert_int_equal(focal_ctx_memory(ctx).now_bytes, empty.now_bytes);
    assert_int_equal(focal_ctx_memory(ctx).peak_bytes, both.peak_bytes);
    focal_ctx_memory_reset(ctx);
    assert_int_equal(focal_ctx_memory(ctx).peak_bytes, empty.now_bytes);
    assert_int_equal(focal_ctx_memory(ctx).alloc_count, 0);

    focal_ctx_close(ctx);
    assert_int_equal(atomic_load(&m.blocks), 0);
    assert_int_equal(atomic_load(&m.bytes), 0);
    assert_int_equal(atomic_load(&m.wrong_sizes), 0);
}

static void products_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    meter m = {0};
    focal_ctx *ctx = open_metered(&m, 1);
    const long before = atomic_load(&m.requests);
    const size_t counts[] = {SIZE_MAX, SIZE_MAX / 4 + 1, SIZE_MAX / 4};
    for (size_t n = 0; n < FOCAL_COUNT(counts); n++) {
        assert_null(foci_alloc(ctx, counts[n], 4));
        assert_null(foci_scratch(ctx, counts[n], 4));
    }
    assert_int_equal(atomic_load(&m.requests), before);
    assert_null(foci_alloc(ctx, SIZE_MAX, 4));
    assert_string_equal(focal_ctx_error(ctx), "no memory for 18446744073709551615 x 4 bytes");
    focal_ctx_close(ctx);
}

static void refused_memory_is_reported(void **state)
{
    (void)state;
    meter m = {.request_limit = 1}; /* the context itself */
    focal_ctx *ctx = open_metered(&m, 1);
    assert_null(foci_alloc(ctx, 10, 4));
    assert_string_equal(focal_ctx_error(ctx), "no memory for 10 x 4 bytes");
    assert_null(foci_scratch(ctx, 11, 4));
    assert_string_equal(focal_ctx_error(ctx), "no memory for 11 x 4 bytes");
    m.request_limit = 0;
    void *block = foci_alloc(ctx, 10, 4); /* still usable */
    assert_aligned(block);
    foci_free(ctx, block);
    focal_ctx_close(ctx);
    assert_int_equal(atomic_load(&m.blocks), 0);

    meter nothing = {.byte_limit = 1};
    const focal_ctx_options options = {
        .threads = 1,
        .allocator = {.user = &nothing, .alloc = meter_alloc, .release = meter_release}};
    const char *error = NULL;
    assert_int_equal(focal_ctx_open(&options, &ctx, &error), FOCAL_ENOMEM);
    assert_null(ctx);
    assert_string_equal(error, "ctx: no memory");
}

static void scratch_is_kept_for_the_next_call(void **state)
{
    (void)state;
    meter m = {0};
    focal_ctx *ctx = open_metered(&m, 1);
    const size_t empty = focal_ctx_memory(ctx).now_bytes;
    for (int round = 0; round < 10; round++) {
        void *large = foci_scratch(ctx, 1000, 4), *small = foci_scratch(ctx, 100, 4);
        assert_aligned(large);
        assert_aligned(small);
        memset(large, 1, 4000);
        memset(small, 2, 400);
        foci_scratch_free(ctx, small);
        foci_scratch_free(ctx, large);
    }
    foci_scratch_free(ctx, NULL);
    assert_int_equal(focal_ctx_memory(ctx).alloc_count, 2);
    void *tiny = foci_scratch(ctx, 1, 4); /* would waste more than half of the small one */
    assert_int_equal(focal_ctx_memory(ctx).alloc_count, 3);
    foci_scratch_free(ctx, tiny);
    assert_true(focal_ctx_memory(ctx).now_bytes > empty);
    focal_ctx_trim(ctx);
    assert_int_equal(focal_ctx_memory(ctx).now_bytes, empty);
    assert_int_equal(atomic_load(&m.blocks), 1);

    void *blocks[64]; /* more than the context keeps */
    for (size_t n = 0; n < FOCAL_COUNT(blocks); n++) blocks[n] = foci_scratch(ctx, n + 1, 64);
    for (size_t n = 0; n < FOCAL_COUNT(blocks); n++) foci_scratch_free(ctx, blocks[n]);
    focal_ctx_close(ctx);
    assert_int_equal(atomic_load(&m.blocks), 0);
    assert_int_equal(atomic_load(&m.wrong_sizes), 0);
}

static void kept_scratch_makes_room(void **state)
{
    (void)state;
    meter m = {0};
    focal_ctx *ctx = open_metered(&m, 1);
    m.byte_limit = atomic_load(&m.bytes) + 10000;
    void *first = foci_scratch(ctx, 4000, 1); /* below half of the next */
    foci_scratch_free(ctx, first);
    void *second = foci_scratch(ctx, 9000, 1); /* fits only when the first one goes back */
    assert_aligned(second);
    assert_null(foci_scratch(ctx, 9000, 1));
    foci_scratch_free(ctx, second);
    focal_ctx_close(ctx);
    assert_int_equal(atomic_load(&m.blocks), 0);
}

static void outgrown_scratch_goes_back(void **state)
{
    (void)state;
    meter m = {0};
    focal_ctx *ctx = open_metered(&m, 1);
    const size_t empty = focal_ctx_memory(ctx).now_bytes;
    for (size_t bytes = 100000; bytes < 200000; bytes += 10000) /* each larger than what is kept */
        foci_scratch_free(ctx, foci_scratch(ctx, bytes, 1));
    assert_true(focal_ctx_memory(ctx).now_bytes - empty < 200000);
    focal_ctx_close(ctx);
    assert_int_equal(atomic_load(&m.blocks), 0);
}

typedef struct mask_case {
    atomic_int began;
    atomic_bool took_interrupt, took_fault; /* of a worker: not blocked */
} mask_case;

/* The caller's item waits until a worker has one too. */
static void look_at_mask(void *arg, int64_t index, int32_t thread)
{
    (void)index;
    mask_case *c = arg;
    sigset_t mask;
    if (thread != 0 && pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0) {
        atomic_store(&c->took_interrupt, sigismember(&mask, SIGINT) == 0);
        atomic_store(&c->took_fault, sigismember(&mask, SIGSEGV) == 0);
    }
    atomic_fetch_add(&c->began, 1);
    while (atomic_load(&c->began) < 2) (void)sched_yield();
}

/* Signals are for the thread that waits for them, and its mask stays as it was. */
static void workers_leave_signals_alone(void **state)
{
    (void)state;
    sigset_t mask;
    mask_case c = {.took_interrupt = true};
    foci_pool *pool = foci_pool_new(2);
    assert_non_null(pool);
    foci_pool_run(pool, 2, look_at_mask, &c);
    assert_false(atomic_load(&c.took_interrupt));
    assert_true(atomic_load(&c.took_fault));
    foci_pool_free(pool);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    assert_false(sigismember(&mask, SIGINT));
}

typedef struct pool_case {
    int64_t count;
    atomic_int *runs;               /* (count) how often an item ran */
    atomic_int_fast64_t done;       /* items 0..done-1 have finished */
    int64_t last[MAX_POOL];         /* the item each thread ran last, -1 at first */
    atomic_bool is_out_of_order;    /* a thread met a lower index after a higher one */
    atomic_bool has_strange_thread; /* a thread number outside 0..threads-1 */
    int32_t threads;
} pool_case;

static void count_item(void *arg, int64_t index, int32_t thread)
{
    pool_case *c = arg;
    atomic_fetch_add_explicit(&c->runs[index], 1, memory_order_relaxed);
    if (thread < 0 || thread >= c->threads) {
        atomic_store(&c->has_strange_thread, true);
        return;
    }
    if (index <= c->last[thread]) atomic_store(&c->is_out_of_order, true);
    c->last[thread] = index;
}

static void every_item_runs_once_a_batch(void **state)
{
    (void)state;
    const int64_t counts[] = {0, 1, 2, 7, 64, 1000};
    for (int32_t threads = 1; threads <= MAX_POOL; threads++) {
        foci_pool *pool = foci_pool_new(threads);
        assert_non_null(pool);
        for (size_t n = 0; n < FOCAL_COUNT(counts); n++) {
            pool_case c = {.count = counts[n], .threads = threads};
            for (int t = 0; t < MAX_POOL; t++) c.last[t] = -1;
            c.runs = calloc((size_t)counts[n] + 1, sizeof *c.runs);
            assert_non_null(c.runs);
            foci_pool_run(pool, counts[n], count_item, &c);
            assert_false(atomic_load(&c.is_out_of_order));
            foci_pool_run_rows(pool, counts[n], count_item, &c);
            for (int64_t i = 0; i < counts[n]; i++) assert_int_equal(atomic_load(&c.runs[i]), 2);
            assert_int_equal(atomic_load(&c.runs[counts[n]]), 0);
            assert_false(atomic_load(&c.has_strange_thread));
            free(c.runs);
        }
        foci_pool_free(pool);
    }
    foci_pool_free(NULL);
}

/* Ends only if every lower item has been started by the time this one runs. */
static void wait_for_lower_items(void *arg, int64_t index, int32_t thread)
{
    pool_case *c = arg;
    (void)thread;
    for (int32_t round = 0; atomic_load_explicit(&c->done, memory_order_acquire) < index; round++)
        foci_spin_wait(round);
    atomic_store_explicit(&c->done, index + 1, memory_order_release);
}

static void items_start_in_ascending_order(void **state)
{
    (void)state;
    for (int32_t threads = 1; threads <= MAX_POOL; threads++) {
        foci_pool *pool = foci_pool_new(threads);
        assert_non_null(pool);
        pool_case c = {.count = 50};
        foci_pool_run(pool, c.count, wait_for_lower_items, &c);
        assert_int_equal(atomic_load(&c.done), c.count);
        foci_pool_free(pool);
    }
}

/* Ends when an item has begun on every thread. */
static void meet_others(void *arg, int64_t index, int32_t thread)
{
    pool_case *c = arg;
    c->last[index] = thread;
    atomic_fetch_add(&c->done, 1);
    for (int32_t round = 0; atomic_load(&c->done) < c->count; round++) foci_spin_wait(round);
}

/* Of rows each thread begins with the same ones in every batch. */
static void rows_begin_with_their_thread(void **state)
{
    (void)state;
    for (int32_t threads = 2; threads <= MAX_POOL; threads++) {
        foci_pool *pool = foci_pool_new(threads);
        assert_non_null(pool);
        for (int batch = 0; batch < 20; batch++) {
            pool_case c = {.count = threads};
            foci_pool_run_rows(pool, c.count, meet_others, &c);
            for (int32_t n = 0; n < threads; n++) assert_int_equal(c.last[n], n);
        }
        foci_pool_free(pool);
    }
}

static void add_index(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    atomic_fetch_add_explicit((atomic_int_fast64_t *)arg, index + 1, memory_order_relaxed);
}

static void many_small_batches(void **state)
{
    (void)state;
    enum { BATCHES = 2000 };
    for (int32_t threads = 1; threads <= MAX_POOL; threads += threads == 1 ? 1 : 3) {
        foci_pool *pool = foci_pool_new(threads);
        assert_non_null(pool);
        atomic_int_fast64_t sum = 0;
        int64_t expected = 0;
        for (int64_t batch = 0; batch < BATCHES; batch++) {
            const int64_t count = batch % 5;
            foci_pool_run(pool, count, add_index, &sum);
            expected += count * (count + 1) / 2;
            assert_int_equal(atomic_load(&sum), expected);
        }
        foci_pool_free(pool);
    }
}

static void use_memory(void *arg, int64_t index, int32_t thread)
{
    focal_ctx *ctx = arg;
    (void)thread;
    char *kept = foci_scratch(ctx, 100 + (size_t)index, 8), *own = foci_alloc(ctx, 10, 8);
    if (kept) kept[0] = 1;
    if (own) own[0] = 1;
    foci_scratch_free(ctx, kept);
    foci_free(ctx, own);
}

static void items_may_allocate(void **state)
{
    (void)state;
    meter m = {0};
    focal_ctx *ctx = open_metered(&m, 4);
    assert_int_equal(focal_ctx_threads(ctx), 4);
    foci_parallel(ctx, 500, use_memory, ctx);
    focal_ctx_close(ctx);
    assert_int_equal(atomic_load(&m.blocks), 0);
    assert_int_equal(atomic_load(&m.wrong_sizes), 0);
}

/* The known answers that come with Random123: counter words, key words, result. */
static void philox_gives_the_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed, stream, counter;
        uint32_t x[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         0x0370734413198a2e,
         0x85a308d3243f6a88,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t n = 0; n < FOCAL_COUNT(known); n++) {
        const foci_random4 r = foci_random_block(known[n].seed, known[n].stream, known[n].counter);
        for (int i = 0; i < 4; i++) assert_int_equal(r.x[i], known[n].x[i]);
    }
    for (uint64_t n = 0; n < 8; n++)
        assert_int_equal(foci_random_u32(5, 6, n), foci_random_block(5, 6, n / 4).x[n % 4]);
}

static void random_numbers_have_their_range_and_moments(void **state)
{
    (void)state;
    enum { COUNT = 20000, BOUND = 7 };
    double sum = 0.0, normal_sum = 0.0, normal_squares = 0.0;
    int hits[BOUND] = {0};
    for (uint64_t n = 0; n < COUNT; n++) {
        const float u = foci_random_uniform(1, 2, n);
        assert_true(u >= 0.0F && u < 1.0F);
        sum += (double)u;
        const double z = (double)foci_random_normal(1, 3, n);
        assert_true(isfinite(z));
        normal_sum += z;
        normal_squares += z * z;
        const uint32_t below = foci_random_below(1, 4, n, BOUND);
        assert_in_range(below, 0, BOUND - 1);
        hits[below]++;
        assert_int_equal(foci_random_below(1, 4, n, 1), 0);
    }
    /* Five standard deviations of each mean. */
    assert_true(fabs(sum / COUNT - 0.5) < 5.0 * 0.289 / sqrt(COUNT));
    assert_true(fabs(normal_sum / COUNT) < 5.0 / sqrt(COUNT));
    assert_true(fabs(normal_squares / COUNT - 1.0) < 5.0 * sqrt(2.0) / sqrt(COUNT));
    const double expected = (double)COUNT / BOUND;
    for (int n = 0; n < BOUND; n++) assert_true(fabs(hits[n] - expected) < 5.0 * sqrt(expected));
}

static float float_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    static const struct {
        uint32_t bits;
        uint16_t expected;
        const char *why;
    } cases[] = {
        {0x3F800000, 0x3F80, "1 is exact"},
        {0xBF800000, 0xBF80, "and so is -1"},
        {0x00000000, 0x0000, "zero"},
        {0x80000000, 0x8000, "negative zero"},
        {0x3F807FFF, 0x3F80, "below the middle"},
        {0x3F808000, 0x3F80, "a tie goes to the even neighbour below"},
        {0x3F818000, 0x3F82, "a tie goes to the even neighbour above"},
        {0x3F808001, 0x3F81, "above the middle"},
        {0x3FFFFFFF, 0x4000, "into the next exponent"},
        {0x7F7FFFFF, 0x7F80, "the largest float becomes infinite"},
        {0xFF7FFFFF, 0xFF80, "and the smallest"},
        {0x7F800000, 0x7F80, "infinity"},
        {0xFF800000, 0xFF80, "negative infinity"},
        {0x00000001, 0x0000, "the smallest subnormal"},
        {0x00018000, 0x0002, "a subnormal tie"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        const float x = float_from_bits(cases[n].bits);
        if (focal_bf16_from_float(x) != cases[n].expected)
            fail_msg("%s: 0x%04x instead of 0x%04x", cases[n].why, focal_bf16_from_float(x),
                     cases[n].expected);
        assert_int_equal(foci_bf16_from_float(x), cases[n].expected);
    }
    for (uint32_t x = 0; x <= UINT16_MAX; x++) { /* every value survives the way there and back */
        const float value = focal_bf16_to_float((uint16_t)x);
        if (isnan(value)) assert_true(isnan(focal_bf16_to_float(focal_bf16_from_float(value))));
        if (!isnan(value)) assert_int_equal(focal_bf16_from_float(value), x);
    }
    const uint32_t nans[] = {0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF};
    for (size_t n = 0; n < FOCAL_COUNT(nans); n++) {
        const uint16_t half = focal_bf16_from_float(float_from_bits(nans[n]));
        assert_true(isnan(focal_bf16_to_float(half)));
        assert_int_equal(half >> 15, nans[n] >> 31);
    }
}

static int32_t threads_with(const char *omp)
{
    focal_ctx *ctx = NULL;
    assert_int_equal(setenv("OMP_NUM_THREADS", omp, 1), 0);
    assert_int_equal(focal_ctx_open(NULL, &ctx, NULL), FOCAL_OK);
    const int32_t threads = focal_ctx_threads(ctx);
    focal_ctx_close(ctx);
    return threads;
}

static void thread_count_follows_the_environment(void **state)
{
    (void)state;
    assert_int_equal(threads_with("3"), 3);
    assert_int_equal(threads_with("5,2"), 5);
    const int32_t cores = foci_usable_cores();
    assert_true(cores >= 1);
    assert_int_equal(threads_with(""), cores);
    const char *const wrong[] = {"0", "-2", "many", "3x", " ", "1025", "99999999999999999999"};
    for (size_t n = 0; n < FOCAL_COUNT(wrong); n++) {
        const char *error = NULL;
        focal_ctx *none = (focal_ctx *)&error; /* must be overwritten */
        assert_int_equal(setenv("OMP_NUM_THREADS", wrong[n], 1), 0);
        assert_int_equal(focal_ctx_open(NULL, &none, &error), FOCAL_EINVAL);
        assert_null(none);
        assert_string_equal(error, "ctx: OMP_NUM_THREADS must be a number of threads, 1 to 1024");
    }

    meter m = {0};
    focal_ctx *ctx = open_metered(&m, 2); /* what the caller says goes first, whatever is set */
    assert_int_equal(focal_ctx_threads(ctx), 2);
    focal_ctx_close(ctx);
}

static void thread_count_follows_the_affinity(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    const int32_t cores = foci_usable_cores();
    focal_ctx *ctx = NULL;
    const focal_status status = focal_ctx_open(NULL, &ctx, NULL);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(cores, 1);
    assert_int_equal(status, FOCAL_OK);
    assert_int_equal(focal_ctx_threads(ctx), 1);
    focal_ctx_close(ctx);
    assert_true(foci_usable_cores() <= CPU_COUNT(&before));
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    const char *error = NULL;
    assert_int_equal(focal_ctx_open(NULL, NULL, &error), FOCAL_EINVAL);
    assert_string_equal(error, "ctx: no place for the context");
    const int32_t counts[] = {-1, INT32_MIN, 1025, INT32_MAX};
    for (size_t n = 0; n < FOCAL_COUNT(counts); n++) {
        const focal_ctx_options options = {.threads = counts[n]};
        focal_ctx *ctx = (focal_ctx *)&error; /* must be overwritten */
        assert_int_equal(focal_ctx_open(&options, &ctx, &error), FOCAL_EINVAL);
        assert_null(ctx);
        assert_string_equal(error, "ctx: threads must be 0 to 1024");
    }
}

static void a_kernel_can_be_pinned(void **state)
{
    (void)state;
    focal_ctx *ctx = NULL;
    const char *error = NULL;
    const focal_ctx_options ref = {.threads = 1, .kernel = "ref"}, none = {.threads = 1};
    assert_int_equal(focal_ctx_open(&ref, &ctx, &error), FOCAL_OK);
    assert_string_equal(error, "");
    assert_string_equal(focal_ctx_kernel(ctx), "ref");
    assert_true(foci_ctx_allows(ctx, "ref"));
    assert_false(foci_ctx_allows(ctx, "avx2"));
    focal_ctx_close(ctx);

    assert_int_equal(setenv("FOCAL_KERNEL", "avx2", 1), 0);
    assert_int_equal(focal_ctx_open(&none, &ctx, NULL), FOCAL_OK);
    assert_string_equal(focal_ctx_kernel(ctx), "avx2");
    focal_ctx_close(ctx);
    assert_int_equal(focal_ctx_open(&ref, &ctx, NULL), FOCAL_OK); /* what the caller says first */
    assert_string_equal(focal_ctx_kernel(ctx), "ref");
    focal_ctx_close(ctx);

    assert_int_equal(setenv("FOCAL_KERNEL", "", 1), 0);
    assert_int_equal(focal_ctx_open(&none, &ctx, NULL), FOCAL_OK);
    assert_null(focal_ctx_kernel(ctx));
    assert_true(foci_ctx_allows(ctx, "avx512"));
    focal_ctx_close(ctx);

    assert_int_equal(setenv("FOCAL_KERNEL", "avx3", 1), 0);
    assert_int_equal(focal_ctx_open(&none, &ctx, &error), FOCAL_EINVAL);
    assert_null(ctx);
    assert_string_equal(
        error, "ctx: FOCAL_KERNEL must be one of ref, avx2, avx512, avx512bf16, amx, onednn");
    const focal_ctx_options unknown = {.threads = 1, .kernel = "avx3"};
    assert_int_equal(focal_ctx_open(&unknown, &ctx, &error), FOCAL_EINVAL);
    assert_string_equal(
        error, "ctx: the kernel must be one of ref, avx2, avx512, avx512bf16, amx, onednn");
}

static void features_can_be_hidden(void **state)
{
    (void)state;
    focal_ctx *ctx = NULL;
    assert_int_equal(focal_ctx_open(NULL, &ctx, NULL), FOCAL_OK);
    if (foci_has(ctx, FOCI_AVX512)) assert_true(foci_has(ctx, FOCI_AVX2));
    if (foci_has(ctx, FOCI_AVX2)) assert_non_null(strstr(focal_ctx_features(ctx), "avx2"));
    foci_ctx_mask_features(ctx, 0);
    assert_false(foci_has(ctx, FOCI_AVX2));
    assert_string_equal(focal_ctx_features(ctx), "");
    assert_true(foci_on_host(ctx));
    focal_ctx_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_leave_signals_alone),
        cmocka_unit_test(every_status_has_a_text),
        cmocka_unit_test(dtypes_have_names_and_sizes),
        cmocka_unit_test(messages_stay_in_the_context),
        cmocka_unit_test(try_returns_what_failed),
        cmocka_unit_test(sizes_do_not_wrap),
        cmocka_unit_test(memory_is_aligned_and_counted),
        cmocka_unit_test(products_that_do_not_fit_are_refused),
        cmocka_unit_test(refused_memory_is_reported),
        cmocka_unit_test(scratch_is_kept_for_the_next_call),
        cmocka_unit_test(kept_scratch_makes_room),
        cmocka_unit_test(outgrown_scratch_goes_back),
        cmocka_unit_test(every_item_runs_once_a_batch),
        cmocka_unit_test(items_start_in_ascending_order),
        cmocka_unit_test(rows_begin_with_their_thread),
        cmocka_unit_test(many_small_batches),
        cmocka_unit_test(items_may_allocate),
        cmocka_unit_test(philox_gives_the_known_answers),
        cmocka_unit_test(random_numbers_have_their_range_and_moments),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test_setup(thread_count_follows_the_environment, clear_environment),
        cmocka_unit_test_setup(thread_count_follows_the_affinity, clear_environment),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test_setup(a_kernel_can_be_pinned, clear_environment),
        cmocka_unit_test_setup(features_can_be_hidden, clear_environment),
    };
    return cmocka_run_group_tests_name("base", tests, clear_environment, NULL);
}
