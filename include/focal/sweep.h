/* Sweeps: a file that says how a grid of training runs differs, as docs/TRAINING.md describes it,
 * and the runs and commands that it gives. Nothing is run here. */
#ifndef FOCAL_SWEEP_H
#define FOCAL_SWEEP_H

#include "focal/base.h"
#include "focal/tokenizer.h"

FOCAL_BEGIN_DECLS

typedef struct focal_sweep focal_sweep;

enum {
    FOCAL_SWEEP_RUNS = 4096,       /* at most */
    FOCAL_SWEEP_NAME = 128,        /* bytes of a run's name with its NUL */
    FOCAL_SWEEP_DIFFERENCE = 1024, /* and of what sets it apart */
    FOCAL_SWEEP_WORDS = 8192       /* words of a command at most */
};

/* Reads a sweep file and its base. FOCAL_EIO, or FOCAL_EFORMAT with file, line, value and limits;
 * *sweep is then NULL. */
FOCAL_API focal_status focal_sweep_open(focal_ctx *ctx, const char *path, focal_sweep **sweep);
FOCAL_API void focal_sweep_free(focal_sweep *sweep); /* NULL is fine */

/* "key=value" for all runs, over what the file says; not of what the sweep varies. FOCAL_EINVAL. */
FOCAL_API focal_status focal_sweep_set(focal_sweep *sweep, const char *assignment);
/* "name=path": where an input of the sweep is. FOCAL_EINVAL when it has no such input. */
FOCAL_API focal_status focal_sweep_give(focal_sweep *sweep, const char *assignment);
/* Input n, and what it is; false behind the last. path is NULL until it is given. Borrowed. */
typedef struct focal_sweep_input {
    const char *name, *about, *path;
} focal_sweep_input;
FOCAL_API bool focal_sweep_input_at(const focal_sweep *sweep, int32_t n, focal_sweep_input *input);

/* Makes the runs of a sweep that is done in `folder`, and checks every one, that no two are the
 * same, the baseline and the commands. Inputs that were not given stay as {name}. FOCAL_EINVAL with
 * the run's name, FOCAL_EIO when the folder of an input cannot be read. */
FOCAL_API focal_status focal_sweep_plan(focal_sweep *sweep, const char *folder);

/* The calls below need a plan. */
typedef struct focal_sweep_run {
    char name[FOCAL_SWEEP_NAME];             /* of its folder */
    char difference[FOCAL_SWEEP_DIFFERENCE]; /* "temperature.value=0.4 seed=1" */
    int64_t tokens;                          /* that it will see; 0: not known */
} focal_sweep_run;
FOCAL_API int32_t focal_sweep_run_count(const focal_sweep *sweep);
FOCAL_API focal_status focal_sweep_run_at(focal_sweep *sweep, int32_t n, focal_sweep_run *run);
/* The run file of run n, every key in it; paths of what is there are whole. */
FOCAL_API focal_status focal_sweep_run_write(focal_sweep *sweep, int32_t n, const char *path);
/* Whether run n can be done in the plan's folder: FOCAL_EINVAL with what differs when another run
 * of its name has begun there. Nothing is changed. */
FOCAL_API focal_status focal_sweep_run_check(focal_sweep *sweep, int32_t n);

/* What report should compare with: a key=value or the name of a case; "": nothing. Borrowed. */
FOCAL_API const char *focal_sweep_baseline(const focal_sweep *sweep);

typedef enum focal_sweep_when {
    FOCAL_SWEEP_PREPARE, /* before the runs, to make an output that is not there */
    FOCAL_SWEEP_AFTER    /* on each run's model */
} focal_sweep_when;

/* A command: focal's arguments, `count` texts with a NUL behind each. */
typedef struct focal_sweep_command {
    focal_buffer words; /* the caller frees it */
    int32_t count;
    char output[4096]; /* what prepare makes; "" after */
} focal_sweep_command;

/* Command n (of a run, for those after it) with all names filled in; a word that is just an input
 * which is a folder becomes the names of its files, in order. *is_there: false behind the last.
 * FOCAL_EIO, FOCAL_EINVAL on too many words, FOCAL_ENOMEM; the words are then of no use. */
FOCAL_API focal_status focal_sweep_command_at(focal_sweep *sweep, focal_sweep_when when, int32_t n,
                                              int32_t run, focal_sweep_command *command,
                                              bool *is_there);

FOCAL_END_DECLS
#endif /* FOCAL_SWEEP_H */
