/* The order of training data: windows over a stream of tokens, each epoch in an order of its own
 * that is computed and never stored. A sample's content is a function of the seed and its number,
 * so a run that resumes, or divides its batches otherwise, sees the same data. */
#ifndef FOCI_TRAIN_ORDER_H
#define FOCI_TRAIN_ORDER_H

#include "focal/base.h"

/* A stream of tokens, wherever it lies. Both calls return FOCAL_OK or fail with a sentence. */
typedef struct foci_tokens {
    void *user;
    int64_t count; /* of all tokens */
    /* ids (count) of the tokens begin .. begin + count - 1, all of which there are. */
    focal_status (*read)(void *user, int64_t begin, int64_t count, int32_t *ids);
    /* Positions in begin .. end - 1 at which a document begins, ascending: *count of them, of which
     * the first `room` are written. Token 0 begins a document. */
    focal_status (*starts)(void *user, int64_t begin, int64_t end, int64_t room, int64_t *starts,
                           int64_t *count);
} foci_tokens;

/* Where validation begins: the tail of the stream with this share (0..0.5) of its tokens; it starts
 * at the first document that begins in the first half of that tail, so that no document is in both
 * parts, or, where none begins there (one long text), in the midst of one. 0 gives all to training:
 * *border is then the count. */
focal_status foci_order_split(focal_ctx *ctx, const foci_tokens *tokens, double share,
                              int64_t *border);

/* Which windows there are, and in which order. */
typedef struct foci_order {
    const foci_tokens *tokens; /* must stay */
    int64_t begin, end;        /* the part of the stream, end not included */
    int32_t length;            /* tokens a window; one more is read, for the last target */
    uint64_t seed;
    bool is_shuffled;       /* else in the order of the stream, as validation reads */
    bool crosses_documents; /* a window is one sequence whatever is in it */
    int64_t window_count;   /* set by foci_order_check */
} foci_order;

/* Window n has the tokens begin + n length .. + length, so that each token is a target once; what
 * is left at the end of the part is not used. FOCAL_EINVAL when a field is out of range or the part
 * is too short for one window. */
focal_status foci_order_check(focal_ctx *ctx, foci_order *order);

/* The window of sample n = 0, 1, ...: of epoch n / window_count, its place n % window_count. */
int64_t foci_order_window(const foci_order *order, int64_t sample);

/* Tokens that attend among themselves: count rows from row `start` on, at positions 0, 1, ... */
typedef struct foci_sequence {
    int64_t start;
    int32_t count;
} foci_sequence;

/* What a pass of the model takes: the windows one behind the other. */
typedef struct foci_windows {
    int32_t *ids;             /* (count * length) */
    int32_t *targets;         /* (count * length); -1 where the next token begins a document and
                                 documents are not crossed */
    foci_sequence *sequences; /* (count * length): room for as many; in ascending order, and every
                                 row is in one */
    int64_t sequence_count;   /* written */
} foci_windows;

/* Samples first .. first + count - 1 (step n of batches of B: from n B on). FOCAL_EINVAL when they
 * are out of range, FOCAL_ENOMEM, or what the stream says. */
focal_status foci_order_read(focal_ctx *ctx, const foci_order *order, int64_t first, int32_t count,
                             foci_windows *rows);

/* A permutation of 0..count-1 (count >= 1) for a seed and an epoch, one value at a time. */
int64_t foci_permute(uint64_t seed, uint64_t epoch, int64_t count, int64_t index);

#endif /* FOCI_TRAIN_ORDER_H */
