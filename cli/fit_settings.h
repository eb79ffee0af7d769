/* The options of `focal fit` that are keys of run files: their rows, and what they set. */
#ifndef CLI_FIT_SETTINGS_H
#define CLI_FIT_SETTINGS_H

#include "cli.h"
#include "focal/train.h"
#include "options.h"

enum { FIT_MOST_SETTINGS = 32 };

/* An option and what it was given; of its kind one value counts. */
typedef struct fit_setting {
    const char *key;
    const char *option; /* without the dashes */
    cli_kind kind;
    const char *choices;
    bool is_given;
    int64_t integer;
    double number;
    int32_t choice;
    const char *text;
} fit_setting;

typedef struct fit_settings {
    fit_setting items[FIT_MOST_SETTINGS];
    int32_t count;
} fit_settings;

/* The row of an option, which the settings remember; they must outlive it. */
cli_option fit_int_row(fit_settings *settings, const char *key, const char *name, const char *value,
                       const char *help, double min, double max);
cli_option fit_number_row(fit_settings *settings, const char *key, const char *name,
                          const char *help, double max);
cli_option fit_choice_row(fit_settings *settings, const char *key, const char *name,
                          const char *choices, const char *help);
cli_option fit_text_row(fit_settings *settings, const char *key, const char *name,
                        const char *value, const char *help);

/* Sets the keys whose options were given, over what is set. Says what is wrong; returns an exit
 * code. */
int fit_settings_apply(const fit_settings *settings, focal_ctx *ctx, focal_run *run);

/* cli_fail() with a sentence of the library's, "run: ..."; where it names keys whose options were
 * given, cli_wrong() with the same sentence on those. */
int fit_settings_fail(const fit_settings *settings, const char *sentence);

#endif /* CLI_FIT_SETTINGS_H */
