/* The texts of recall, with what one who asks must know of them. */
#ifndef FOCI_EVAL_RECALL_TEXT_H
#define FOCI_EVAL_RECALL_TEXT_H

#include "focal/eval.h"

/* Of a line "bado gi\n": its bytes, and where its value lies. */
enum { FOCI_RECALL_LINE = 8, FOCI_RECALL_VALUE = 5, FOCI_RECALL_VALUE_BYTES = 2 };

/* Lines before and behind the empty one. */
typedef struct foci_recall_shape {
    int32_t pairs, queries;
} foci_recall_shape;

/* What writing a text needs, and what it tells: the value of each pair, the pair of each query. */
typedef struct foci_recall_room {
    int32_t keys[FOCAL_RECALL_PAIRS_MOST], values[FOCAL_RECALL_PAIRS_MOST];
    bool is_asked[FOCAL_RECALL_PAIRS_MOST];
    int32_t asked[FOCAL_RECALL_PAIRS_MOST]; /* (queries) */
} foci_recall_room;

/* The most pairs that a text can have. */
int32_t foci_recall_pairs_most(const focal_recall_plan *plan);
/* Checks pairs, queries and keys. FOCAL_EINVAL. */
focal_status foci_recall_shape_of(focal_ctx *ctx, const focal_recall_plan *plan, int32_t pairs,
                                  foci_recall_shape *shape);
/* Appends text n. */
focal_status foci_recall_write(focal_ctx *ctx, const focal_recall_plan *plan, int64_t n,
                               foci_recall_shape shape, foci_recall_room *room, focal_buffer *text);

#endif /* FOCI_EVAL_RECALL_TEXT_H */
