/* Run folders as read: settings, curves thinned out to a fixed size, measures, samples of text, and
 * what was wrong with them. */
#ifndef FOCI_REPORT_RUNS_READ_H
#define FOCI_REPORT_RUNS_READ_H

#include "report/runs_stats.h"
#include "train/run_file.h"

enum {
    FOCI_RUNS_NAME = 96,     /* bytes of a name with its NUL */
    FOCI_RUNS_NOTE = 512,    /* of a note */
    FOCI_RUNS_NOTES = 512,   /* notes that are kept; more are counted */
    FOCI_RUNS_TRAIN = 256,   /* blocks of training steps a run */
    FOCI_RUNS_MEASURES = 64, /* measures a run */
    FOCI_RUNS_SAMPLES = 8,   /* samples of text a run */
    FOCI_RUNS_SAMPLE = 1024  /* bytes of one with its NUL */
};

/* Everything a report says that is not as it should be. */
typedef struct foci_notes {
    int32_t count, left_out;
    char (*text)[FOCI_RUNS_NOTE]; /* FOCI_RUNS_NOTES of them */
} foci_notes;

void foci_note(foci_notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Which of a growing row of things are kept in a fixed room: every stride-th, and the last. */
typedef struct foci_thin {
    int64_t seen, stride;
    int32_t count;
    bool has_tail; /* the last one kept is there only because it is the last */
} foci_thin;

typedef struct foci_measure {
    char name[FOCI_RUNS_NAME];
    double length; /* NaN: none given */
    double value;
} foci_measure;

typedef struct foci_sample {
    int64_t step;
    char text[FOCI_RUNS_SAMPLE]; /* UTF-8, cut between characters */
} foci_sample;

/* What a log has told so far. Steps are gathered in blocks of `block`, whose means are the curve;
 * when the room is full, neighbours are joined and the block doubles. */
typedef struct foci_run_log {
    int64_t last_step, steps; /* steps: lines with a loss */
    double last_tokens, seconds;
    int64_t line, bad_lines, lost_steps; /* lost: no number, or left out by on_spike = skip */
    int64_t block, in_block;
    int32_t block_count; /* whole ones; behind them one that is being filled */
    double sum_tokens[FOCI_RUNS_TRAIN + 1], sum_loss[FOCI_RUNS_TRAIN + 1];
    foci_thin thin_valid, thin_samples;
    foci_curve valid;
    int32_t sample_count;
    foci_sample samples[FOCI_RUNS_SAMPLES];
    char first_bad[FOCI_RUNS_NOTE]; /* why the first bad line is one */
} foci_run_log;

/* A run folder. */
typedef struct foci_run_folder {
    char *path;   /* as given */
    char *values; /* of all keys, each NUL-terminated */
    int32_t value_at[FOCI_RUN_KEYS];
    char name[FOCI_RUNS_NAME];
    int64_t seed;
    bool is_finished;
    foci_run_log log;
    foci_curve train;
    double final;                              /* last validation loss; NaN: none */
    double parameters, tokens, speed, seconds; /* NaN: not known */
    int64_t threads;                           /* 0: not known */
    char version[FOCI_RUNS_NAME], kernel[FOCI_RUNS_NAME], machine[FOCI_RUNS_NAME];
    int32_t measure_count;
    foci_measure measures[FOCI_RUNS_MEASURES];
} foci_run_folder;

/* The value of a key as it is written. */
const char *foci_run_folder_value(const foci_run_folder *run, int key);

/* Reads a folder. What is wrong becomes a note that names it; *out stays NULL then, if there are no
 * settings to be read. FOCAL_ENOMEM, or FOCAL_EUNSUPPORTED in a build without JSON. */
focal_status foci_run_folder_read(focal_ctx *ctx, const char *path, foci_notes *notes,
                                  foci_run_folder **out);
void foci_run_folder_free(focal_ctx *ctx, foci_run_folder *run); /* NULL is fine */

/* The parts of it, for texts in memory. A line without its end; a log's lines come one by one. What
 * is wrong with a line is counted, and the first time said in first_bad. */
void foci_run_log_start(foci_run_log *log);
focal_status foci_run_log_line(focal_ctx *ctx, foci_run_log *log, const char *text, size_t bytes);
void foci_run_log_train(const foci_run_log *log, foci_curve *train);
focal_status foci_run_after_line(focal_ctx *ctx, foci_run_folder *run, const char *text,
                                 size_t bytes);
focal_status foci_run_summary(focal_ctx *ctx, foci_run_folder *run, foci_notes *notes,
                              const char *text, size_t bytes);

#endif /* FOCI_REPORT_RUNS_READ_H */
