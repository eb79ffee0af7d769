/* What the ways of starting a training share: the request, and the run with its display. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "cli.h"
#include "focal/train.h"
#include "options.h"

/* What the command line of `focal train` says. */
typedef struct train_request {
    cli_texts texts; /* text files, or one run file, or the folder of a run */
    cli_texts sets;  /* key=value */
    const char *out; /* -o; NULL: not given */
    double minutes;  /* 0: not given */
    int64_t threads; /* 0: not given */
    int32_t vocab;   /* 0: not given */
    bool is_quiet, is_json;
} train_request;

/* Trains in request->out with the progress on stderr, and says at the end where the model is. The
 * run must be resolved. Returns the exit code, 130 or 143 after a signal. */
int train_run(focal_ctx *ctx, focal_run *run, const train_request *request);

/* No run file, only texts: makes tokenizer, shards and settings, and trains. */
int train_from_texts(const train_request *request);

#endif /* CLI_TRAIN_H */
