/* Adapters as a report reads them: what they are, what was measured of them, and how their fit
 * went. Every text has its own limit, so that a file can be anything. */
#ifndef FOCI_REPORT_FITS_READ_H
#define FOCI_REPORT_FITS_READ_H

#include "focal/keys.h"
#include "focal/report.h"
#include "report/runs_read.h"

enum {
    FOCI_FIT_NAME = 96,   /* bytes of a name with its NUL */
    FOCI_FIT_LABEL = 192, /* of what the page calls an adapter */
    FOCI_FIT_SETTINGS = 72,
    FOCI_FIT_TEXTS = 64,
    FOCI_FIT_ROUTERS = 8192, /* whose sizes are known, at most */
    FOCI_FIT_LAYERS = 16,    /* whose tokens are known */
    FOCI_FIT_TOKENS = 16,    /* of a group */
    FOCI_FIT_POINTS = 256    /* of a curve */
};

typedef enum foci_fit_kind {
    FOCI_FIT_DENSE,
    FOCI_FIT_TOP,
    FOCI_FIT_TEMPERATURES,
    FOCI_FIT_ADAPTER,
    FOCI_FIT_KINDS
} foci_fit_kind;

typedef struct foci_fit_setting {
    foci_fit_kind kind;
    int32_t top;
    double loss, kept, speed; /* kept and speed: NaN where they are not known */
    double losses[FOCI_FIT_TEXTS];
} foci_fit_setting;

typedef struct foci_fit_sizes {
    int32_t layer, router;
    double shares[FOCAL_MAX_GROUPS];
} foci_fit_sizes;

typedef struct foci_fit_token {
    char text[FOCI_FIT_NAME];
    int64_t here, all;
} foci_fit_token;

typedef struct foci_fit_typical {
    int32_t layer, router;
    struct {
        int32_t count;
        foci_fit_token tokens[FOCI_FIT_TOKENS];
    } groups[FOCAL_MAX_GROUPS];
} foci_fit_typical;

/* measure.json (docs/FORMATS.md). The first setting is the dense one. */
typedef struct foci_fit_measure {
    char version[FOCI_FIT_NAME], model[FOCI_FIT_NAME], precision[FOCI_FIT_NAME];
    char cache_type[FOCI_FIT_NAME];
    char fingerprint[FOCI_FIT_NAME], adapter_checksum[FOCI_FIT_NAME]; /* of what was measured */
    int32_t context, batch, rounds, threads;
    int32_t text_count, setting_count;
    char names[FOCI_FIT_TEXTS][FOCI_FIT_NAME];
    int64_t tokens[FOCI_FIT_TEXTS];
    foci_fit_setting settings[FOCI_FIT_SETTINGS];
    int32_t K, groups_top; /* of sizes and tokens; 0: there are none */
    int32_t size_count, typical_count;
    foci_fit_sizes *sizes;
    foci_fit_typical *typical;
} foci_fit_measure;

/* FOCAL_EFORMAT with a sentence; *out is then NULL. */
focal_status foci_fit_measure_parse(focal_ctx *ctx, const char *text, size_t bytes,
                                    foci_fit_measure **out);
void foci_fit_measure_free(focal_ctx *ctx, foci_fit_measure *measure); /* NULL is fine */

/* The same parts of the same texts were read, as far as their names tell. */
bool foci_fit_texts_equal(const foci_fit_measure *a, const foci_fit_measure *b);

/* Curves over steps. Steps are gathered in blocks, whose means are the points; when the room is
 * full, neighbours are joined and the block doubles. */
typedef struct foci_fit_log {
    int64_t last_step, bad_lines;
    int64_t block, in_block;
    int32_t count; /* of whole blocks; behind them one that is being filled */
    double step[FOCI_FIT_POINTS + 1], kl[FOCI_FIT_POINTS + 1], largest[FOCI_FIT_POINTS + 1];
    bool has_kl, has_largest; /* of every step */
    /* The divergence on the text that is kept for validation, as it was found: every so many-th
     * of them, and behind those the last. */
    int32_t valid_count;
    int64_t valid_stride, valid_seen;
    double valid_step[FOCI_FIT_POINTS + 1], valid_kl[FOCI_FIT_POINTS + 1];
} foci_fit_log;

/* A log line by line; sums become means with the last call. */
void foci_fit_log_start(foci_fit_log *log);
focal_status foci_fit_log_line(focal_ctx *ctx, foci_fit_log *log, const char *text, size_t bytes);
void foci_fit_log_end(foci_fit_log *log);

/* An adapter's folder. */
typedef struct foci_fit {
    char *path;                 /* as given, without slashes at its end */
    char folder[FOCI_FIT_NAME]; /* the path's last part */
    char name[FOCI_FIT_NAME];   /* what tells it from the others of the page */
    char label[FOCI_FIT_LABEL];
    /* What it is. */
    char base[FOCI_FIT_NAME], version[FOCI_FIT_NAME], method[FOCI_FIT_NAME];
    char fingerprint[FOCI_FIT_NAME]; /* of its model; "": peft wrote it */
    char checksum[FOCI_FIT_NAME];    /* of its files */
    char mode[FOCI_FIT_NAME], scope[FOCI_FIT_NAME], objective[FOCI_FIT_NAME];
    char gate[FOCI_FIT_NAME], targets[FOCI_FIT_NAME], form[FOCI_FIT_NAME];
    bool is_lora, is_causal, has_temperatures;
    bool has_groups;   /* else no token looks into any */
    bool has_run_file; /* run.conf lies beside it */
    int32_t layers, groups, top, top_fit, window, sinks, rank;
    int64_t steps, parameters; /* steps -1: not known */
    foci_fit_measure *measure; /* of these files; NULL: not measured */
    foci_fit_log log;
} foci_fit;

/* What a page of these folders calls folder n: its last part, with as much of the path before it as
 * tells it from the others ("a/fit" beside "b/fit"), and its number where no path does. Of long
 * paths the end is kept. */
void foci_fit_name(const char *const *paths, int32_t count, int32_t n, char name[FOCI_FIT_NAME]);

/* What is wrong becomes a note; *out stays NULL then, if the adapter cannot be read, as none can in
 * a build without JSON. FOCAL_ENOMEM. */
focal_status foci_fit_read(focal_ctx *ctx, const char *path, const char *name, foci_notes *notes,
                           foci_fit **out);
void foci_fit_free(focal_ctx *ctx, foci_fit *fit); /* NULL is fine */

#endif /* FOCI_REPORT_FITS_READ_H */
