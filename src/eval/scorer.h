/* Reads a sequence of ids with a model, and says of some of them how well it predicted each: by its
 * probability, and whether it was the first choice. */
#ifndef FOCI_EVAL_SCORER_H
#define FOCI_EVAL_SCORER_H

#include "focal/model.h"

/* All zero, but for model, is closed. */
typedef struct foci_scorer {
    focal_model *model;
    focal_cache *cache;
    int32_t batch; /* tokens a pass of what needs no choice */
    float *logits; /* (rows, V) */
    int32_t *targets;
    double *nll;
} foci_scorer;

/* cache NULL: the default; batch 0: 1024. Close it whatever open says. */
focal_status foci_scorer_open(foci_scorer *scorer, const focal_cache_options *cache, int32_t batch);
void foci_scorer_close(foci_scorer *scorer);

/* What was found for ids[from .. to - 1]. from is 1 or more. */
typedef struct foci_score {
    int32_t from, to;
    double *nll;    /* (to - from) minus the log-probability of each */
    bool *is_right; /* (to - from) each is the likeliest; or NULL */
} foci_score;

/* Reads ids from an empty cache. `early` (may be NULL) ends before `late` begins and has no
 * is_right; late ends with the ids. FOCAL_EINVAL when a probability is not a finite number, as of a
 * model with weights that overflow. */
focal_status foci_scorer_read(foci_scorer *scorer, const int32_t *ids, int32_t count,
                              const foci_score *early, const foci_score *late);

#endif /* FOCI_EVAL_SCORER_H */
