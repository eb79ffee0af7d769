/* Decoding from memory: a few queries against a long cache, whose copies take turns so that no
 * cache of the machine can hold what the next call reads. */
#ifndef CLI_DECODE_CASE_H
#define CLI_DECODE_CASE_H

#include "attn_case.h"

enum { DECODE_STEPS = 64 }; /* choices of groups that take turns */

/* Where the keys lie. Rows: (S,G,D), all key heads of a token side by side. Heads: (G,S,D), a
 * cache of its own for each key head, as one sequence each: then a head whose router looks
 * elsewhere skips whole stretches of memory. */
typedef enum decode_layout { DECODE_ROWS = 0, DECODE_HEADS = 1 } decode_layout;

/* The copies; the same bytes serve either layout, since all keys are alike. */
typedef struct decode_caches {
    char *block;
    int64_t copy_count;
    int64_t k_bytes, v_bytes; /* of one copy; k first */
    int64_t read_at;          /* where the read probe goes on */
    focal_ctx *ctx;
} decode_caches;

/* One contestant. */
typedef struct decode_job {
    focal_ctx *ctx;
    attn_setup setup;
    const decode_caches *caches;
    decode_layout layout;
    void *q, *out;
    float *lse;
    focal_attn_args args;
    focal_attn_seq seqs[ATTN_MAX_HEADS]; /* with DECODE_HEADS: one a key head */
    focal_keys keys[ATTN_MAX_HEADS];     /* with groups: one a sequence */
    int32_t *key_row;      /* (routers, S) 0, 1, 2...: chains lie in rows that follow each other */
    int32_t *key_begin;    /* (routers, K) */
    int32_t *key_end;      /* (routers, K) */
    int32_t *position_row; /* (routers, S) */
    int32_t *step_groups;  /* (DECODE_STEPS, routers, top), ascending */
    int32_t *query, *query_end, *query_begin; /* (routers, top) twice, (routers, K+1) */
    int64_t step;
} decode_job;

/* Copies of at least 512 MB in all, and more when a call reads only `share` of one. */
int decode_caches_make(focal_ctx *ctx, const attn_setup *setup, double share,
                       decode_caches *caches);
void decode_caches_free(decode_caches *caches);

int decode_job_make(focal_ctx *ctx, const attn_setup *setup, const decode_caches *caches,
                    decode_layout layout, decode_job *job);
void decode_job_free(decode_job *job);

/* For measure_item: one call, its key set's query lists included; arg is the job. */
bool decode_step(void *arg);
/* A plain read of the same memory; arg is the caches. */
bool decode_read_probe(void *arg, double *gb_per_s);

int decode_pairs(decode_job *job, int64_t *pairs);
/* As attn_error_forward(), of the last step. */
int decode_error(const decode_job *job, double *error);

#endif /* CLI_DECODE_CASE_H */
