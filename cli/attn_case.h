/* One attention problem made from a seed, and the ways to run it: for the benchmarks and the
 * demo. */
#ifndef CLI_ATTN_CASE_H
#define CLI_ATTN_CASE_H

#include "cli.h"
#include "focal/attn.h"

enum { ATTN_MAX_HEADS = 256 };

typedef struct attn_setup {
    int32_t T, S, H, G, D, Dv; /* T queries behind S - T earlier keys */
    focal_dtype dtype;
    bool has_q8_keys; /* k and v in q8_0; not with gradients */
    bool has_window;
    int32_t window, sinks;
    float softcap;
    int32_t K, top; /* K 0: no groups */
    focal_keys_mode mode;
    focal_gate_kind gate; /* 0: none. With paper and log: no key sets */
    int32_t routers;      /* 1, or G */
    double largest_group; /* share of the keys that group 0 gets; 0: as many as the others */
    uint64_t seed;
} attn_setup;

/* q is normal with deviation 1/sqrt(D), all else standard normal; so scores are near 1. */
typedef struct attn_tensors {
    void *q;     /* (T,H,D) */
    void *k, *v; /* (S,G,D), (S,G,Dv) */
    void *dout;  /* (T,H,Dv); this and what follows: only with gradients */
    void *dq, *dk, *dv;
} attn_tensors;

/* The groups of all S positions, as focal_keyset_append() takes them. */
typedef struct attn_groups {
    int32_t *query_groups; /* (S, routers, top) */
    int32_t *key_groups;   /* (S, routers) */
    focal_keyset *set;     /* already holds the S - T earlier tokens */
} attn_groups;

/* One contestant: a call and what it needs. */
typedef struct attn_job {
    focal_ctx *ctx;
    attn_setup setup;
    const attn_tensors *tensors;
    attn_groups groups; /* empty without groups */
    focal_keys keys;
    focal_attn_gate gate; /* of random memberships, with a gate */
    focal_attn_args args; /* with its own out and lse */
    focal_attn_grads grads;
    void *out;
    float *lse;
    float *gq, *gk; /* (T, routers, K), (S, routers, K), with a gate; and their gradients */
    float *dgq, *dgk;
} attn_job;

/* The type of k and v, and the bytes of so many of their elements. */
focal_dtype attn_kv_dtype(const attn_setup *setup);
int64_t attn_kv_bytes(const attn_setup *setup, int64_t count);

/* Whether distant keys are seen through key sets. */
bool attn_has_sets(const attn_setup *setup);

/* Each returns an exit code; free takes whatever was made, and zeros. */
int attn_tensors_make(const attn_setup *setup, bool has_grads, attn_tensors *tensors);
void attn_tensors_free(attn_tensors *tensors);

/* query_groups and key_groups in *given, when not NULL, are taken over instead of random ones. */
int attn_job_make(focal_ctx *ctx, const attn_setup *setup, const attn_tensors *tensors,
                  const attn_groups *given, attn_job *job);
void attn_job_free(attn_job *job);

/* Fills with the seed's random groups: each key one, each query `top` distinct ones. */
void attn_random_groups(const attn_setup *setup, attn_groups *groups);

/* Steps for measure_item: arg is the job. Forward makes the key set anew each time; backward uses
 * what the last forward left. */
bool attn_step_forward(void *arg);
bool attn_step_backward(void *arg);

/* Pairs over all heads, and operations by the usual count, whatever is recomputed. */
int attn_pairs(attn_job *job, int64_t *pairs);
double attn_flops(const attn_setup *setup, int64_t pairs, bool is_backward);

/* Bytes of everything above, so that a run can be refused before it is begun. */
double attn_case_bytes(const attn_setup *setup, bool has_grads);

/* The largest error of sampled rows against the reference kernel on float32 copies of the same
 * inputs, as a share of the row's largest value. The key sets are rebuilt from their definition.
 * Backward: rows of dq, dk and dv, and with a gate of dgq and dgk; a row's largest value counts at
 * least as a hundredth of the largest sampled one, since some rows of dq are zero but for rounding.
 */
int attn_error_forward(const attn_job *job, double *error);
int attn_error_backward(const attn_job *job, double *error);

/* Elements of a tensor as float32, and back; count elements from the first-th. */
void attn_read(focal_dtype dtype, const void *from, int64_t first, int64_t count, float *to);
void attn_fill_normal(focal_dtype dtype, void *to, int64_t count, float deviation, uint64_t seed);

/* A number of the seed's stream; bound > 0: 0..bound-1. */
uint64_t attn_random(uint64_t *state);
int32_t attn_random_below(uint64_t *state, int32_t bound);
/* count distinct groups of K, in the order they were drawn. */
void attn_random_distinct(uint64_t *state, int32_t K, int32_t count, int32_t *groups);

#endif /* CLI_ATTN_CASE_H */
