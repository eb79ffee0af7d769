/* Sweep files: lines of a run file and, beside them, what varies from run to run. Parsing needs no
 * other file. */
#ifndef FOCI_TRAIN_SWEEP_FILE_H
#define FOCI_TRAIN_SWEEP_FILE_H

#include "train/run_file.h"

enum {
    FOCI_SWEEP_DIMENSIONS = 16, /* cases, each grid line, seeds */
    FOCI_SWEEP_CHOICES = 256,   /* of a dimension */
    FOCI_SWEEP_SETTINGS = 4096, /* in all */
    FOCI_SWEEP_COMMANDS = 32,
    FOCI_SWEEP_INPUTS = 8,
    FOCI_SWEEP_LABEL = 48
};

/* key = value, as the file has it. */
typedef struct foci_sweep_setting {
    int key;
    foci_text value;
} foci_sweep_setting;

/* One of the ways in which a dimension can be: a label for names, and settings. */
typedef struct foci_sweep_choice {
    char label[FOCI_SWEEP_LABEL];
    int32_t first, count; /* of the settings */
    int64_t seed;         /* in the last dimension */
} foci_sweep_choice;

typedef struct foci_sweep_dimension {
    int32_t count;
    foci_sweep_choice choices[FOCI_SWEEP_CHOICES];
} foci_sweep_dimension;

typedef struct foci_sweep_command {
    bool is_after;
    foci_text output, words;
} foci_sweep_command;

typedef struct foci_sweep_input {
    foci_text name, about;
} foci_sweep_input;

/* All texts lie in the file's. Dimension 0 has the cases, the last one the seeds, both perhaps
 * without a choice; what has none does not count. */
typedef struct foci_sweep {
    foci_text base, baseline;
    int32_t setting_count, dimension_count, command_count, input_count;
    int32_t all_count; /* of the settings that are of all runs */
    int32_t all[FOCI_SWEEP_SETTINGS];
    foci_sweep_setting settings[FOCI_SWEEP_SETTINGS];
    foci_sweep_dimension dimensions[FOCI_SWEEP_DIMENSIONS];
    foci_sweep_command commands[FOCI_SWEEP_COMMANDS];
    foci_sweep_input inputs[FOCI_SWEEP_INPUTS];
    int64_t lines[FOCI_RUN_KEYS];      /* where a key is set for all runs or varied; 0: nowhere */
    int64_t case_lines[FOCI_RUN_KEYS]; /* where a case sets it first */
} foci_sweep;

/* `path` names the file in messages. FOCAL_EFORMAT with line, value and limits. */
focal_status foci_sweep_parse(focal_ctx *ctx, const char *path, foci_text text, foci_sweep *sweep);

/* The product of the dimensions; -1 when it is beyond `most`. */
int64_t foci_sweep_count(const foci_sweep *sweep, int64_t most);
/* Puts what run n has into one that has what the base says. */
void foci_sweep_apply(const foci_sweep *sweep, int64_t n, foci_run *run);
/* "gain-t0.4-s1", of the labels; false when it is longer than `bytes`. */
bool foci_sweep_name(const foci_sweep *sweep, int64_t n, char *out, size_t bytes);
/* A name for a file, or one that stands in braces. */
bool foci_sweep_is_name(foci_text text);
/* Whether cases, a grid or seeds set a key. */
bool foci_sweep_varies(const foci_sweep *sweep, int key);

#endif /* FOCI_TRAIN_SWEEP_FILE_H */
