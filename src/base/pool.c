/* Thread pool: workers sleep on a condition, spin briefly before they do, and take items from
 * one counter, or each from one of its own first. The caller works too, so a pool of one has no
 * threads at all. */
#include "base/pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    SPIN_ROUNDS = 20000, /* tens of microseconds: the gap between two operations */
    YIELD_ROUNDS = 512
};

/* Items of a batch that one thread begins with; in a cache line of its own. */
typedef struct share {
    _Alignas(64) atomic_int_fast64_t next; /* first item nobody has taken */
    int64_t end;
} share;

struct foci_pool {
    int32_t threads; /* with the caller */
    pthread_t *workers;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    foci_work fn;
    void *arg;
    int32_t share_count;         /* of the batch: 1, or as many as threads */
    share *shares;               /* (threads) */
    atomic_uint_fast64_t batch;  /* grows by one a run; workers wait for it to change */
    atomic_int_fast32_t running; /* workers that have not left this batch yet */
    int32_t started;             /* workers that exist */
    atomic_bool is_closing;
};

typedef struct worker_start {
    foci_pool *pool;
    int32_t thread;
} worker_start;

void foci_spin_wait(int32_t round)
{
    /* After a while the one we wait for may have lost its core to us. Not often: whoever is in the
     * kernel when the next operation begins is late for it. */
    if (round % YIELD_ROUNDS == YIELD_ROUNDS - 1) {
        (void)sched_yield();
        return;
    }
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void take_items(foci_pool *pool, int32_t thread)
{
    for (int32_t n = 0; n < pool->share_count; n++) {
        share *from = &pool->shares[(thread + n) % pool->share_count];
        for (;;) {
            const int64_t index = atomic_fetch_add_explicit(&from->next, 1, memory_order_relaxed);
            if (index >= from->end) break;
            pool->fn(pool->arg, index, thread);
        }
    }
}

/* Returns when a batch after `seen` has begun. */
static uint_fast64_t wait_for_batch(foci_pool *pool, uint_fast64_t seen)
{
    for (int32_t round = 0; round < SPIN_ROUNDS; round++) {
        const uint_fast64_t batch = atomic_load_explicit(&pool->batch, memory_order_acquire);
        if (batch != seen) return batch;
        foci_spin_wait(round);
    }
    pthread_mutex_lock(&pool->lock);
    while (atomic_load_explicit(&pool->batch, memory_order_acquire) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    return atomic_load_explicit(&pool->batch, memory_order_acquire);
}

static void *worker_main(void *arg)
{
    const worker_start start = *(worker_start *)arg;
    free(arg);
    foci_pool *pool = start.pool;
    uint_fast64_t seen = 0;
    for (;;) {
        seen = wait_for_batch(pool, seen);
        if (atomic_load_explicit(&pool->is_closing, memory_order_acquire)) return NULL;
        take_items(pool, start.thread);
        if (atomic_fetch_sub_explicit(&pool->running, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&pool->lock);
            pthread_cond_signal(&pool->done);
            pthread_mutex_unlock(&pool->lock);
        }
    }
}

/* Tells the workers that something has changed: a batch to run, or the end. */
static void begin_batch(foci_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add_explicit(&pool->batch, 1, memory_order_release);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

/* Signals are the caller's: one that a worker took would not wake the thread that waits for it.
 * What a thread brings upon itself, and what measures it, stays. */
static void hold_signals(sigset_t *before)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF};
    sigset_t others;
    (void)sigfillset(&others);
    for (size_t n = 0; n < sizeof own / sizeof own[0]; n++) (void)sigdelset(&others, own[n]);
    (void)pthread_sigmask(SIG_BLOCK, &others, before);
}

/* Starts the workers; false: not all of them. */
static bool start_workers(foci_pool *pool)
{
    sigset_t before;
    bool is_fine = true;
    hold_signals(&before); /* workers inherit it */
    for (int32_t n = 1; is_fine && n < pool->threads; n++) {
        worker_start *start = malloc(sizeof *start);
        if (start) *start = (worker_start){pool, n};
        is_fine = start && pthread_create(&pool->workers[n], NULL, worker_main, start) == 0;
        if (is_fine)
            pool->started = n;
        else
            free(start);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_fine;
}

foci_pool *foci_pool_new(int32_t threads)
{
    foci_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->threads = threads;
    pool->workers = calloc((size_t)threads, sizeof *pool->workers);
    pool->shares = aligned_alloc(_Alignof(share), (size_t)threads * sizeof *pool->shares);
    if (!pool->workers || !pool->shares || !start_workers(pool)) {
        foci_pool_free(pool);
        return NULL;
    }
    return pool;
}

void foci_pool_free(foci_pool *pool)
{
    if (!pool) return;
    atomic_store_explicit(&pool->is_closing, true, memory_order_release);
    begin_batch(pool);
    for (int32_t n = 1; n <= pool->started; n++) pthread_join(pool->workers[n], NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool->shares);
    free(pool);
}

static int64_t first_of_share(int64_t count, int32_t n, int32_t share_count)
{
    /* Not count * n / share_count: the product could be beyond int64_t. */
    return count / share_count * n + count % share_count * n / share_count;
}

static void run_batch(foci_pool *pool, int32_t share_count, int64_t count, foci_work fn, void *arg)
{
    if (pool->threads == 1 || count <= 1) {
        for (int64_t index = 0; index < count; index++) fn(arg, index, 0);
        return;
    }
    pool->fn = fn;
    pool->arg = arg;
    pool->share_count = share_count;
    for (int32_t n = 0; n < share_count; n++) {
        atomic_store_explicit(&pool->shares[n].next, first_of_share(count, n, share_count),
                              memory_order_relaxed);
        pool->shares[n].end = first_of_share(count, n + 1, share_count);
    }
    atomic_store_explicit(&pool->running, pool->threads - 1, memory_order_relaxed);
    begin_batch(pool);
    take_items(pool, 0);
    for (int32_t round = 0; round < SPIN_ROUNDS; round++) {
        if (atomic_load_explicit(&pool->running, memory_order_acquire) == 0) return;
        foci_spin_wait(round);
    }
    pthread_mutex_lock(&pool->lock);
    while (atomic_load_explicit(&pool->running, memory_order_acquire) != 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void foci_pool_run(foci_pool *pool, int64_t count, foci_work fn, void *arg)
{
    run_batch(pool, 1, count, fn, arg);
}

void foci_pool_run_rows(foci_pool *pool, int64_t count, foci_work fn, void *arg)
{
    run_batch(pool, pool->threads, count, fn, arg);
}

/* Reads up to count numbers from the first line of a file; those that are not there stay. */
static bool read_numbers(const char *name, long long *numbers, int count)
{
    char line[128] = "";
    FILE *file = fopen(name, "re");
    if (!file) return false;
    const char *text = fgets(line, sizeof line, file);
    (void)fclose(file);
    for (int n = 0; text && n < count; n++) {
        char *end = NULL;
        const long long value = strtoll(text, &end, 10);
        if (end == text) break; /* "max": no limit */
        numbers[n] = value;
        text = end;
    }
    return true;
}

/* The cgroup's quota in cores, rounded up, or 0 for none: version 2's file, then version 1's. */
static int32_t cgroup_cores(void)
{
    long long limit[2] = {-1, -1}; /* microseconds of work in a period of microseconds */
    if (!read_numbers("/sys/fs/cgroup/cpu.max", limit, 2)) {
        if (!read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", &limit[0], 1)) return 0;
        if (!read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_period_us", &limit[1], 1)) return 0;
    }
    if (limit[0] <= 0 || limit[1] <= 0) return 0;
    const long long cores = limit[0] / limit[1] + (limit[0] % limit[1] != 0);
    return cores > 4096 ? 4096 : (int32_t)cores;
}

int32_t foci_usable_cores(void)
{
    int32_t cores = 0;
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
#endif
    if (cores < 1) cores = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
    const int32_t quota = cgroup_cores();
    if (quota > 0 && quota < cores) cores = quota;
    return cores < 1 ? 1 : cores;
}
