/* The options that choose tokens, shared by generate and chat. */
#ifndef CLI_SAMPLING_H
#define CLI_SAMPLING_H

#include "focal/generate.h"
#include "options.h"

enum { SAMPLING_OPTIONS = 10, SAMPLING_BIASES = 64 };

typedef struct sampling_choice {
    double temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    int64_t top_k, repeat_last, seed;
    bool has_temperature, has_top_k, has_top_p, has_min_p, has_repeat_penalty;
    cli_texts bias_texts; /* "ID+2.5", "ID-1", "ID-inf" */
    focal_logit_bias biases[SAMPLING_BIASES];
} sampling_choice;

/* llama.cpp's defaults. */
sampling_choice sampling_defaults(void);

/* Fills SAMPLING_OPTIONS rows of a table. */
void sampling_options(sampling_choice *choice, cli_option *options);

/* Returns an exit code, or -1 with *sampling set; the choice must outlive it. */
int sampling_make(const char *command, sampling_choice *choice, focal_sampling *sampling);

/* What the model's files suggest, where the user chose nothing. */
void sampling_suggested(const sampling_choice *choice, const focal_model *model,
                        focal_sampling *sampling);

#endif /* CLI_SAMPLING_H */
