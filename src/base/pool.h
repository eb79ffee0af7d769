/* The one thread pool: a loop over items whose results do not depend on who runs them. */
#ifndef FOCI_BASE_POOL_H
#define FOCI_BASE_POOL_H

#include "focal/base.h"

/* One item of work; thread is in 0..threads-1 and names scratch that no other item uses now. */
typedef void (*foci_work)(void *arg, int64_t index, int32_t thread);

/* Runs fn for index 0..count-1 and returns when all are done. Items are started in ascending
 * order, so an item may wait for one with a lower index, never for a higher one. Not to be
 * called from inside an item. */
void foci_parallel(focal_ctx *ctx, int64_t count, foci_work fn, void *arg);
/* The same in no order, so that no item may wait for another: each thread begins with a share of
 * its own, the same one in every call, and then takes what others have not begun. For rows that one
 * call writes and another reads: they are still in the thread's own caches, which counts where
 * cores have no cache in common. */
void foci_parallel_rows(focal_ctx *ctx, int64_t count, foci_work fn, void *arg);

typedef struct foci_pool foci_pool;

/* A pool of `threads` including the caller; NULL without memory or threads. */
foci_pool *foci_pool_new(int32_t threads);
void foci_pool_free(foci_pool *pool); /* NULL is fine */
void foci_pool_run(foci_pool *pool, int64_t count, foci_work fn, void *arg);
void foci_pool_run_rows(foci_pool *pool, int64_t count, foci_work fn, void *arg);

/* The cores this process may use: affinity, then the cgroup's quota, at least 1. */
int32_t foci_usable_cores(void);

/* A polite wait inside a spin loop; round counts the calls so far. */
void foci_spin_wait(int32_t round);

#endif /* FOCI_BASE_POOL_H */
