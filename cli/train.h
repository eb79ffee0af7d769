/* What the ways of starting a training share: the request, and the run with its display. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "cli.h"
#include "focal/train.h"
#include "options.h"

/* What the command line of `focal train` or `focal fit` says. */
typedef struct train_request {
    const char *verb; /* "train" or "fit" */
    cli_texts texts;  /* text files, or one run file, or the folder of a run */
    cli_texts sets;   /* key=value */
    const char *out;  /* -o; NULL: not given */
    double minutes;   /* 0: not given */
    bool is_timed;    /* of texts: minutes were given, and are not the default */
    int64_t threads;  /* 0: not given */
    int32_t vocab;    /* 0: not given */
    bool is_quiet, is_json;
} train_request;

/* Trains in request->out with the progress on stderr, and says at the end where the result is. The
 * run must be resolved. Returns the exit code, that of a signal too (stop.h). */
int train_run(focal_ctx *ctx, focal_run *run, const train_request *request);

/* "DIR/run.conf" of an argument that is the folder of a run, or false; whether an argument is a run
 * file by its name. */
enum { TRAIN_PATH_BYTES = 4096 };
bool train_find_run_file(const char *folder, char path[TRAIN_PATH_BYTES]);
bool train_is_run_file(const char *path);

enum { TRAIN_ASSIGNMENT_BYTES = FOCAL_RUN_VALUE + 128 /* of the key */ };

/* key = text, whatever is in it; one that is too long is refused. The model of that name, a path or
 * a pulled one, as start.from. Minutes as schedule.minutes; 0 sets nothing. All return an exit
 * code. */
int train_set_text(focal_ctx *ctx, focal_run *run, const char *key, const char *text);
int train_set_from(focal_ctx *ctx, focal_run *run, const char *name);
/* What train_set_text() set: the value as it was, out of the quotes that it stands in; "" where it
 * is not set. */
void train_get_text(const focal_run *run, const char *key, char out[FOCAL_RUN_VALUE]);
int train_set_minutes(focal_ctx *ctx, focal_run *run, double minutes);
/* Every --set of the request; returns an exit code. */
int train_set_all(focal_ctx *ctx, focal_run *run, const train_request *request);

/* No run file, only texts: makes tokenizer, shards and settings, and trains. */
int train_from_texts(const train_request *request);

#endif /* CLI_TRAIN_H */
