/* Training: the settings of a run, and the run itself, in a folder that it can be resumed from.
 * docs/TRAINING.md has the keys, docs/FORMATS.md what the folder holds. */
#ifndef FOCAL_TRAIN_H
#define FOCAL_TRAIN_H

#include "focal/base.h"
#include "focal/model.h"

FOCAL_BEGIN_DECLS

enum {
    FOCAL_RUN_VALUE = 4096, /* bytes that hold any value of a key as it is written, and any line of
                               help on one, NUL included */
};

/* Settings of a run: all keys at their defaults at first. */
typedef struct focal_run focal_run;

FOCAL_API focal_status focal_run_new(focal_ctx *ctx, focal_run **out);
FOCAL_API void focal_run_free(focal_run *run); /* NULL is fine */

/* A run file over what is set. FOCAL_EIO, or FOCAL_EFORMAT with file, line, value and limits; the
 * settings are of no use then. */
FOCAL_API focal_status focal_run_read(focal_run *run, const char *path);
/* "key=value" over what is set. FOCAL_EINVAL. */
FOCAL_API focal_status focal_run_set(focal_run *run, const char *assignment);
/* Checks what keys say together and fills in what follows from others. FOCAL_EINVAL. */
FOCAL_API focal_status focal_run_resolve(focal_run *run);
/* Every key and its value, as a run file that appears whole or not at all. FOCAL_EIO. */
FOCAL_API focal_status focal_run_write(const focal_run *run, const char *path);
/* The value of a key as it is written; FOCAL_EINVAL where there is no such key. */
FOCAL_API focal_status focal_run_get(const focal_run *run, const char *key,
                                     char out[FOCAL_RUN_VALUE]);

/* Whether a key changes what groups.method of a run with learn = groups makes (lora.rank does with
 * lora alone); true of other runs, and before the run is resolved too. */
FOCAL_API bool focal_run_uses(const focal_run *run, const char *key);
/* Whether a resolved run with learn = groups goes together with the model that start.from names,
 * which is not changed and must have no adapter: what can be known before there are shards. Where
 * data.length is not set, it becomes what the model was made for, if that is less. FOCAL_EINVAL,
 * FOCAL_EUNSUPPORTED or FOCAL_ENOMEM with a sentence. */
FOCAL_API focal_status focal_run_check_model(focal_run *run, focal_model *model);

/* The keys, for help: their number, and the two lines on one (0 .. count - 1). */
FOCAL_API int32_t focal_run_key_count(void);
FOCAL_API void focal_run_key_help(int32_t key, char out[FOCAL_RUN_VALUE]);

/* How far a run is, after a step. */
typedef struct focal_train_step {
    int64_t step, steps;      /* done, and of the whole run; 0: not known */
    int64_t tokens;           /* seen so far, those of earlier sessions included */
    double loss;              /* mean over the step's targets, in nats; may be NaN */
    double norm;              /* of the gradient before clipping */
    double rate;              /* learning rate */
    double tokens_per_second; /* 0: not known yet */
    double peak_share;        /* 0: not known */
    double seconds_left;      /* below 0: not known */
    /* With groups: */
    bool has_kl;               /* the next is a number */
    double kl;                 /* mean divergence from the model without groups, in nats */
    bool has_groups;           /* routers, and the next are theirs */
    bool has_kept;             /* some pair of tokens is distant: the next is a number */
    double kept;               /* share of the distant pairs of tokens that attention sees */
    double largest_group;      /* share of the keys (shared: memberships) that the fullest group of
                                  any router has */
    double mean_largest_group; /* and of the fullest of each router, the mean */
} focal_train_step;

/* "step 120/1,100  loss 4.1234  1,215 tok/s  58 % of peak  12 min left", without what is not
 * known; with groups "kl 0.0213  kept 13 %  largest group 9 %" behind the loss. */
enum { FOCAL_TRAIN_LINE = 256 };
FOCAL_API void focal_train_line(const focal_train_step *step, char out[FOCAL_TRAIN_LINE]);

/* What a validation found. */
typedef struct focal_train_validation {
    int64_t step;
    double loss; /* mean over the targets, in nats */
    bool has_kl; /* the next is a number */
    double kl;   /* mean divergence from the model without groups, in nats */
} focal_train_validation;

/* What is told on the way; each may be NULL. */
typedef struct focal_train_watch {
    void *user;
    void (*on_step)(void *user, const focal_train_step *step);
    void (*on_validation)(void *user, const focal_train_validation *validation);
    void (*on_sample)(void *user, int64_t step, const char *text); /* UTF-8 */
    void (*on_note)(void *user, const char *sentence);             /* "resumed at step 200" */
    void (*on_warning)(void *user, const char *sentence); /* what is wrong and does not end the run:
                                                             "step 31 left out: ..." */
    bool (*must_stop)(void *user); /* asked after every step: true saves and ends */
} focal_train_watch;

typedef enum focal_train_end {
    FOCAL_TRAIN_FINISHED, /* all steps, or all minutes */
    FOCAL_TRAIN_STOPPED,  /* must_stop; a checkpoint was saved */
    FOCAL_TRAIN_SPIKED    /* on_spike = stop; a checkpoint of the state before was saved */
} focal_train_end;

typedef struct focal_train_result {
    focal_train_end end;
    int64_t step, tokens; /* done and seen in all sessions */
    double loss;          /* of the last step */
    double valid_loss;    /* of the last validation; NaN: there was none */
    double valid_kl;      /* likewise, of objective = kl; NaN also where this session had none */
    double seconds;       /* of all sessions */
    int64_t parameter_count;
} focal_train_result;

/* Trains, or with learn = groups fits groups, in a folder, which is made where there is none. A
 * folder that holds a run of the same settings is resumed behind its newest good checkpoint (one
 * that is finished: nothing is done); of other settings it is refused with the first key that
 * differs, but for what is kept, shown or done about spikes (docs/TRAINING.md). peak_flops (a
 * second, of all threads; 0: not known) is only for what is told. Results are bit-equal whatever
 * the number of threads and however often the run was stopped or killed.
 *
 * FOCAL_EINVAL on settings that do not go together with data or model, or when another process
 * trains in the folder; FOCAL_EIO, FOCAL_EFORMAT, FOCAL_ENOMEM. Checkpoints that were saved stay.
 */
FOCAL_API focal_status focal_train(focal_ctx *ctx, const focal_run *run, const char *folder,
                                   double peak_flops, const focal_train_watch *watch,
                                   focal_train_result *result);

FOCAL_END_DECLS
#endif /* FOCAL_TRAIN_H */
