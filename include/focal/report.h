/* Pages that a person looks at: one HTML file each, pictures inside as SVG, nothing fetched from
 * elsewhere, readable in light and dark and without the pictures. */
#ifndef FOCAL_REPORT_H
#define FOCAL_REPORT_H

#include "focal/base.h"
#include "focal/keys.h"

FOCAL_BEGIN_DECLS

enum { FOCAL_REPORT_MAX_TOKENS = 512 };

/* The groups of a short text, whose pairs are drawn one by one. */
typedef struct focal_report_sets {
    focal_keys_mode mode;
    int32_t T;      /* 2..FOCAL_REPORT_MAX_TOKENS */
    int32_t K, top; /* as focal_keyset_options */
    int32_t window, sinks;
    const int32_t *query_groups; /* (T, top) */
    const int32_t *key_groups;   /* (T); not used by FOCAL_SHARED */
} focal_report_sets;

/* One measured way to attend. Shares are of 1; a negative number leaves the cell empty. */
typedef struct focal_report_run {
    const char *name;
    double ms;
    double speedup;    /* against the first run */
    double pair_share; /* of the causal pairs */
    double mass_share; /* of the first run's softmax weight that these pairs hold */
    double error;      /* against the reference */
} focal_report_run;

/* Texts are plain and may be NULL but for the title; they are escaped. */
typedef struct focal_report_args {
    const char *title;
    const char *subtitle; /* what was measured, on what */
    const focal_report_run *runs;
    int32_t run_count;
    const focal_report_sets *sets; /* may be NULL: no picture */
    const double *loads;           /* (load_count) share of the keys in each group; may be NULL */
    int32_t load_count;            /* 1..64; 0 without loads */
} focal_report_args;

/* Whether a page could be written to path now, for asking before a long run: EIO with the reason
 * when not. Leaves nothing behind and does not touch a file that is there. */
FOCAL_API focal_status focal_report_check(focal_ctx *ctx, const char *path);

/* Writes the page of an attention run. The file appears whole or not at all. EINVAL on a missing
 * title or list, a group out of range or too many tokens; EIO when the file cannot be written. */
FOCAL_API focal_status focal_report_attention(focal_ctx *ctx, const char *path,
                                              const focal_report_args *args);

/* How a report of runs is written: a page with curves; tables for documents; one JSON object. All
 * three give the same numbers. */
typedef enum focal_report_format {
    FOCAL_REPORT_HTML,
    FOCAL_REPORT_MARKDOWN,
    FOCAL_REPORT_JSON
} focal_report_format;

enum { FOCAL_REPORT_MAX_RUNS = 1024 };

/* Runs that differ only in their seed form an arm; arms are compared with a baseline. */
typedef struct focal_report_runs_args {
    const char *const *folders; /* (folder_count) of runs, or folders that hold those */
    int32_t folder_count;
    const char *title; /* NULL: made of what differs between the runs */
    /* (baseline_count) names of arms or "key=value", all of which a baseline must fulfil. Each arm
     * is compared with the baseline that has the fewest other settings. None: constant temperature
     * 1 where an arm has it, else the first arm. */
    const char *const *baselines;
    int32_t baseline_count;
    focal_report_format format;
    /* Takes the text where no path is given; takes a sentence about each run that is unfinished,
     * damaged or at odds with another, which the report names too; may be NULL. */
    void *user;
    void (*write)(void *user, const char *text, size_t bytes);
    void (*on_note)(void *user, const char *sentence);
} focal_report_runs_args;

/* Reads run folders as focal train and focal sweep leave them and writes the report to path, whole
 * or not at all; path NULL: to args->write. EINVAL without any run to read, on more than
 * FOCAL_REPORT_MAX_RUNS, or a baseline that is not there; EIO when the file cannot be written; what
 * is wrong with single runs stands in the report. EUNSUPPORTED in a build without JSON; ENOMEM. */
FOCAL_API focal_status focal_report_runs(focal_ctx *ctx, const char *path,
                                         const focal_report_runs_args *args);

/* Adapters side by side. */
enum { FOCAL_REPORT_MAX_FITS = 64 };

typedef struct focal_report_fits_args {
    const char *const *folders; /* (folder_count) of adapters, as focal fit leaves them; beside an
                                   adapter may lie measure.json (focal_group_eval_write) and
                                   log.jsonl */
    int32_t folder_count;
    const char *title;                                 /* NULL: made of the base's name */
    void (*on_note)(void *user, const char *sentence); /* what the page says of missing or damaged
                                                           parts; may be NULL */
    void *user;
} focal_report_fits_args;

/* Writes the page to path, whole or not at all. EINVAL without any adapter to read, as in a build
 * without JSON, with more than FOCAL_REPORT_MAX_FITS, or with adapters of two models; EIO when it
 * cannot be written; what is wrong with single folders stands in the page. ENOMEM. */
FOCAL_API focal_status focal_report_fits(focal_ctx *ctx, const char *path,
                                         const focal_report_fits_args *args);

FOCAL_END_DECLS
#endif /* FOCAL_REPORT_H */
