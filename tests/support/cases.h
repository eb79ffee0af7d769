/* Attention calls with known answers: a spec says what is unusual about a call, a case holds its
 * tensors, exactly as large as the call says, with NaN in every gap, and the exact results. */
#ifndef FOCAL_TESTS_CASES_H
#define FOCAL_TESTS_CASES_H

#include "focal/attn.h"
#include "support/oracle_attn.h"
#include "support/slow_keys.h"

enum { MAX_SEQS = 8 };

typedef enum attn_rows {
    ROWS_PACKED = 0,
    ROWS_ODD,     /* a few elements between rows */
    ROWS_TOGETHER /* q, k and v of a token in one row, as a fused projection leaves them */
} attn_rows;

typedef enum attn_groups {
    GROUPS_NONE = 0,
    GROUPS_RANDOM,
    GROUPS_ONE,    /* every key in the last group */
    GROUPS_HALF,   /* no key in an odd group */
    GROUPS_MISSED, /* no query looks into group 0, where most keys are */
    GROUPS_LONELY  /* one key in group 0, all others in the last */
} attn_groups;

/* Zero is the plain case: float32, packed, causal, everything visible. */
typedef struct attn_spec {
    int32_t T, S, H, G, D;
    int32_t Dv; /* 0: D */
    focal_dtype dtype;
    bool has_q8_keys; /* k and v in q8_0: D and Dv are multiples of 32; no gate, no gradients */
    attn_rows rows;
    bool is_misaligned; /* every tensor starts one element (of q8_0: a byte) after a good address */
    int32_t page_rows;  /* 0: one block */
    bool is_bidirectional;
    bool has_window;
    int32_t window, sinks;
    float softcap;
    float heat; /* standard deviation of the logits; 0: 1 */
    attn_groups groups;
    focal_keys_mode mode;
    int32_t K, top;
    bool has_one_router; /* default: one a key head */
    bool is_permuted;    /* the rows of k and v lie in another order for each router */
    focal_gate_kind gate;
    int32_t seq_count;            /* 0: one sequence of T and S, without a list */
    int32_t lengths[MAX_SEQS][2]; /* T and S of each */
} attn_spec;

/* Results in packed order, all sequences one behind the other. */
enum { ATTN_RESULTS = 7 };
typedef struct attn_results {
    float *out, *lse, *dq, *dk, *dv, *dgq, *dgk;
} attn_results;

typedef struct attn_case {
    attn_spec spec;
    focal_attn_args args;
    focal_attn_grads grads;
    focal_attn_gate gate;
    focal_attn_seq seqs[MAX_SEQS];
    int32_t seq_count; /* at least 1 */
    int32_t routers;
    slow_keys *sets[MAX_SEQS];
    oracle_attn problems[MAX_SEQS];
    int64_t query_at[MAX_SEQS + 1], key_at[MAX_SEQS + 1]; /* first packed rows */

    attn_results plain;
    /* What plain loops lose on this and, when it is small, on more draws of the same spec: the
     * worst of a handful of numbers says little. */
    double worst[ATTN_RESULTS], mean[ATTN_RESULTS];
    uint64_t seed;
    oracle_attn_out exact;
    oracle_attn_grads exact_grads;
    double *dout; /* packed */

    int64_t q_rows, k_rows; /* rows of the tensors, gaps included */
    void **blocks;          /* everything to be freed */
    int64_t block_count;
} attn_case;

attn_case *attn_case_new(const attn_spec *spec, uint64_t seed);
void attn_case_free(attn_case *c);

/* The spec in one line, for messages; valid until the next call. */
const char *attn_case_text(const attn_case *c);

/* Makes dout and the exact and plain gradients, once. */
void attn_case_want_gradients(attn_case *c);

/* Fill what a call writes with NaN. For backward, out and lse get what an exact forward leaves. */
void attn_case_clear_forward(attn_case *c);
void attn_case_clear_backward(attn_case *c);

/* Fail the test unless every result is within twice the error of plain loops and nothing else was
 * written. */
void attn_case_check_forward(attn_case *c, const char *kernel);
void attn_case_check_backward(attn_case *c, const char *kernel);

/* Where query i of sequence n, or its key at position j for key head g, lies. */
int64_t attn_case_q_offset(const attn_case *c, int32_t n, int32_t i);
void *attn_case_key(const attn_case *c, int32_t n, int32_t j, int32_t g);
void *attn_case_value(const attn_case *c, int32_t n, int32_t j, int32_t g);

/* Sets the scale, a float16's bits, of the block of q8_0 that holds element d of such a row. */
void attn_case_set_scale(void *row, int32_t d, uint16_t scale);

/* Packed copies of what the last call wrote; the caller frees them. */
float *attn_case_out(const attn_case *c);

/* A spec from a seed, over everything above; has_gradients keeps to what backward takes. */
attn_spec attn_spec_random(uint64_t seed, bool has_gradients);
/* The spec with keys in q8_0, and widths that these have. */
attn_spec attn_spec_q8(attn_spec spec);

/* Specs chosen by hand: tile edges, empty sets and the like. */
extern const attn_spec attn_specs[];
extern const size_t attn_spec_count;
/* Longer ones, for which tiles are skipped and work is split. */
extern const attn_spec attn_long_specs[];
extern const size_t attn_long_spec_count;
/* With gates. */
extern const attn_spec attn_gate_specs[];
extern const size_t attn_gate_spec_count;

#endif /* FOCAL_TESTS_CASES_H */
