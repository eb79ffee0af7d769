/* Words of llama.cpp's command lines: other names for options, options that mean little here, and
 * those that are not there, with the reason. */
#ifndef CLI_LLAMA_WORDS_H
#define CLI_LLAMA_WORDS_H

#include "model_file.h"

/* The name here of an option that a word such as "-ngl" or "--n-predict" stands for (`length` bytes
 * of it, without a value), or NULL. */
const char *llama_synonym(const char *word, size_t length);

/* Why there is no such option, or NULL. */
const char *llama_absence(const char *word, size_t length);

/* -ngl, -ctk, -ctv and -fa, which the help does not list. */
enum { LLAMA_OPTIONS = 4 };
typedef struct llama_choice {
    const char *gpu_layers, *keys, *values; /* NULL: not given */
    bool has_flash;
} llama_choice;

/* Sets the choice to what is so without them, and fills LLAMA_OPTIONS rows of a table. */
void llama_options(llama_choice *choice, cli_option *options);

/* What they say of the model; returns an exit code, or -1 to go on. */
int llama_apply(const char *command, const llama_choice *choice, model_choice *model);

#endif /* CLI_LLAMA_WORDS_H */
