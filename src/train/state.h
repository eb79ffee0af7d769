/* What of a run survives a session: numbers of the run, weights and moments, in a checkpoint. */
#ifndef FOCI_TRAIN_STATE_H
#define FOCI_TRAIN_STATE_H

#include "io/shards.h"
#include "train/checkpoint.h"
#include "train/collapse.h"
#include "train/spike.h"

typedef struct foci_state {
    int64_t step;                     /* done, steps that were left out included */
    int64_t tokens;                   /* seen */
    double seconds, step_seconds;     /* of all sessions; of these, in steps */
    double loss, valid_loss;          /* the last ones; NaN: none */
    int64_t valid_step, sampled_step; /* behind which these were last done; 0: never */
    foci_spike_memory spikes;
    foci_collapse collapse;
    foci_shards_info shards; /* the data: another set would go on from elsewhere */
    uint64_t base;           /* the fingerprint of a model that stays as it is; 0: there is none */
} foci_state;

/* The state of a run that begins; base: the model that stays as it is, or NULL. */
foci_state foci_state_first(const foci_shards_info *shards, const focal_model *base);

/* Saves the state, the weights and the moments as the checkpoint of the state's step. Fails as
 * foci_checkpoint_save does. */
focal_status foci_state_save(const foci_optimiser *optimiser, const foci_state *state,
                             const char *folder, const foci_checkpoint_policy *policy);

/* Takes all from the newest good checkpoint of the folder; *is_found is false, and nothing has
 * changed, where there is none. `note` as foci_checkpoint_newest says. FOCAL_EFORMAT on a
 * checkpoint of another model, FOCAL_EINVAL on one of other shards or another base than those of
 * *state. */
focal_status foci_state_load(foci_optimiser *optimiser, foci_state *state, const char *folder,
                             bool *is_found, char note[FOCI_CHECKPOINT_NOTE]);

#endif /* FOCI_TRAIN_STATE_H */
