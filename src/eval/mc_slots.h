/* Texts read side by side, each behind as much of the last one in its place as both begin with; and
 * the log-probabilities of their ends. */
#ifndef FOCI_EVAL_MC_SLOTS_H
#define FOCI_EVAL_MC_SLOTS_H

#include "focal/model.h"

typedef struct foci_mc_slot {
    focal_ids next;  /* the text that start takes */
    focal_ids ids;   /* the text that is read */
    int32_t at, end; /* the cache holds its ids up to at, and will hold those up to end */
    int32_t from;    /* ids from here on are scored */
    double logprob;  /* of those whose turn has come */
} foci_mc_slot;

/* All zero, but for model, is closed. */
typedef struct foci_mc_slots {
    focal_model *model;
    focal_cache *cache;
    int32_t count;       /* of slots */
    int32_t batch;       /* tokens a pass */
    int32_t rows;        /* of logits a pass */
    foci_mc_slot *slots; /* (count) */
    /* One pass. */
    focal_batch_item *items; /* (count), of which item_count are used */
    int32_t item_count, row_count;
    int32_t *targets; /* (rows) */
    double *nll;      /* (rows) */
    float *logits;    /* (rows, V) */
} foci_mc_slots;

/* cache may be NULL; its sequences are the slots. Close it whatever open says. */
focal_status foci_mc_slots_open(foci_mc_slots *s, const focal_cache_options *cache, int32_t count,
                                int32_t batch);
void foci_mc_slots_close(foci_mc_slots *s);

/* Reads slot 0's next text and gives it to all: what their texts begin with is read once. */
focal_status foci_mc_slots_share(foci_mc_slots *s);

/* Slot n will read its next text, and score its ids from `from` (1 or more) to the last. */
focal_status foci_mc_slots_start(foci_mc_slots *s, int32_t n, int32_t from);
/* Reads what was started. */
focal_status foci_mc_slots_read(foci_mc_slots *s);

#endif /* FOCI_EVAL_MC_SLOTS_H */
