/* Softmax attention: over all earlier keys, over a window and sinks, or over the keys that a key
 * set names; forward, backward, and few queries against a long cache. docs/MATH.md, 1 and 3. */
#ifndef FOCAL_ATTN_H
#define FOCAL_ATTN_H

#include "focal/base.h"
#include "focal/keys.h"

FOCAL_BEGIN_DECLS

enum { FOCAL_MAX_HEAD_WIDTH = 256 };

/* One text of a call. Query i (0 <= i < T) stands at position S - T + i of its S keys. */
typedef struct focal_attn_seq {
    int32_t T, S;
    int64_t q_row;  /* row of q, out, lse of its first query; sequences ascend and do not overlap */
    int32_t q_head; /* heads of q's and out's rows before its own: sequences of the same rows and
                       other heads, ascending, are key heads with keys of their own. Forward only,
                       and no lse, where it is not 0 */
    int64_t k_row;  /* row of k, v of its first key; not used with pages, but by a gate */
    const void *const *k_pages; /* pages of page_rows rows each; both NULL: one block at k_row */
    const void *const *v_pages;
    int64_t page_count;     /* pages in each table */
    const focal_keys *keys; /* NULL: no groups */
} focal_attn_seq;

/* How training makes the choice of groups differentiable (docs/MATH.md, 3.5). All kinds act on
 * distant pairs only: causal, outside the window, not a sink. */
typedef enum focal_gate_kind {
    FOCAL_GATE_PAPER = 1,    /* s sigmoid(lambda gq.gk); no key sets */
    FOCAL_GATE_LOG = 2,      /* s + log max(gq.gk, 1e-6); no key sets */
    FOCAL_GATE_STRAIGHT = 3, /* forward by the key sets; backward sees every causal pair */
    FOCAL_GATE_SCALE = 4     /* s gq.gk; no key sets. Keys may lie in pages, forward */
} focal_gate_kind;

typedef struct focal_attn_gate {
    focal_gate_kind kind;
    int32_t K;       /* groups, 1..64 */
    int32_t routers; /* 1 or G */
    float lambda;    /* paper's sharpness; 0: 10 */
    const float *gq; /* (q rows, routers, K) soft memberships of the queries */
    const float *gk; /* (k rows, routers, K) and of the keys; those in pages have the rows k_row,
                        k_row + 1, ... in order of position */
} focal_attn_gate;

/* H query heads share G key heads (H % G == 0); D floats a key, Dv a value, up to 256 each.
 * q comes already divided by tau = t sqrt(D): no kernel scales. Tensors belong to the caller and
 * must not overlap what is written. A stride counts elements from one token's row to the next
 * and is 0 for packed rows; heads of a row are adjacent. */
typedef struct focal_attn_args {
    int32_t T, S, H, G, D;
    int32_t Dv;        /* 0: D */
    focal_dtype dtype; /* of q, k, v, out and their gradients: float32 or bfloat16 */
    bool has_q8_keys;  /* k and v are rows of q8_0 blocks (focal/quant.h) instead, at any address:
                          D, Dv and the strides of k and v are multiples of 32, and strides count
                          elements all the same. Forward only, and no gate */
    const void *q;     /* (T,H,D) */
    const void *k;     /* (S,G,D); may be NULL, as v, where every sequence has pages */
    const void *v;     /* (S,G,Dv) */
    int64_t q_stride, k_stride, v_stride, out_stride;

    bool is_bidirectional;  /* every query may see every key; default: keys at or before it */
    bool has_window;        /* of those, only positions with 0 <= i - j <= window (|i - j|,
                               when bidirectional) */
    int32_t window;         /* keys before the own one */
    int32_t sinks;          /* with has_window: the first keys, seen by every query they precede */
    float softcap;          /* s = softcap tanh(q.k / softcap); 0: none */
    const focal_keys *keys; /* groups of distant keys; needs has_window and causal order.
                               Of a call with one sequence; several bring their own */
    const focal_attn_gate *gate; /* training forms; needs has_window and causal order */

    int32_t seq_count;          /* 0: one sequence of T queries and S keys at row 0 */
    const focal_attn_seq *seqs; /* seq_count of them; T, S and keys above are then not used */
    int32_t page_rows;          /* rows a page, where a sequence has pages */

    void *out;  /* (T,H,Dv) */
    float *lse; /* (T,H) log of the softmax sum; may be NULL */
} focal_attn_args;

/* out = softmax(s) v over the keys each query sees. A query that sees no key gets out = 0 and
 * lse = -INFINITY; a key that a query does not see has no influence on it, whatever it holds.
 * A NaN in q, or in a key that a query sees, makes its row of out and lse NaN; one in a value with
 * weight, its column of out (of a q8_0 block whose scale is NaN, all its columns). Scores are
 * float32: without a soft-cap, a row where |q.k| exceeds 1e9 or an infinity of q or k meets it is
 * unspecified (often NaN), and no other row is touched. EINVAL on a bad shape, set or missing
 * tensor; ENOMEM without scratch; EUNSUPPORTED when the pinned kernel cannot take the call. What
 * out and lse then contain is unspecified. The same bits at any thread count. */
FOCAL_API focal_status focal_attn_forward(focal_ctx *ctx, const focal_attn_args *args);

/* Gradients, overwritten, in the layout and with the strides of what they belong to (dout: out's).
 * Rows of dk and dv that no query sees become 0; rows outside every sequence are not touched. */
typedef struct focal_attn_grads {
    const void *dout; /* (T,H,Dv) */
    void *dq, *dk, *dv;
    float *dgq, *dgk; /* with a gate: as gq and gk; else NULL */
} focal_attn_grads;

/* args as forward had them, with the out and lse that it wrote. Nothing of size T x S is stored:
 * the weights are computed again. The key rows of the sequences must ascend and not overlap; keys
 * in pages, keys in q8_0 and position_row are EUNSUPPORTED. */
FOCAL_API focal_status focal_attn_backward(focal_ctx *ctx, const focal_attn_args *args,
                                           const focal_attn_grads *grads);

/* What a call costs: pairs of (query, key) that are seen, counted once for each query head. */
FOCAL_API focal_status focal_attn_pairs(focal_ctx *ctx, const focal_attn_args *args,
                                        int64_t *pairs);

/* The name of the kernel that would take the call, forward and backward; NULL when the call is
 * wrong or the pinned kernel cannot take it. */
FOCAL_API const char *focal_attn_kernel_name(focal_ctx *ctx, const focal_attn_args *args);

/* The index-th kernel's name, fastest first, and whether this machine can use it; NULL past the
 * last. is_usable may be NULL. */
FOCAL_API const char *focal_attn_kernel_at(focal_ctx *ctx, int32_t index, bool *is_usable);

FOCAL_END_DECLS
#endif /* FOCAL_ATTN_H */
