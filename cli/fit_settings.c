/* Options as keys of run files, and mistakes in keys as mistakes in options. */
#include "fit_settings.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "train.h"

enum { NAMES_BYTES = 256, SHOWN = 64 };

static cli_option row(fit_settings *settings, fit_setting as, const char *value, const char *help,
                      double min, double max)
{
    fit_setting *s = &settings->items[settings->count++];
    *s = as;
    void *const targets[] = {[CLI_INT] = &s->integer,
                             [CLI_NUMBER] = &s->number,
                             [CLI_TEXT] = &s->text,
                             [CLI_CHOICE] = &s->choice};
    return (cli_option){s->option, 0,   s->kind, targets[s->kind], value ? value : s->choices,
                        help,      min, max,     s->choices,       &s->is_given};
}

cli_option fit_int_row(fit_settings *settings, const char *key, const char *name, const char *value,
                       const char *help, double min, double max)
{
    return row(settings, (fit_setting){.key = key, .option = name, .kind = CLI_INT}, value, help,
               min, max);
}

cli_option fit_number_row(fit_settings *settings, const char *key, const char *name,
                          const char *help, double max)
{
    return row(settings, (fit_setting){.key = key, .option = name, .kind = CLI_NUMBER}, "X", help,
               0, max);
}

cli_option fit_choice_row(fit_settings *settings, const char *key, const char *name,
                          const char *choices, const char *help)
{
    return row(settings,
               (fit_setting){.key = key, .option = name, .kind = CLI_CHOICE, .choices = choices},
               NULL, help, 0, 0);
}

cli_option fit_text_row(fit_settings *settings, const char *key, const char *name,
                        const char *value, const char *help)
{
    return row(settings, (fit_setting){.key = key, .option = name, .kind = CLI_TEXT}, value, help,
               0, 0);
}

/* "key=value" of an option that was given; false: it does not fit. */
static bool print_setting(const fit_setting *s, char out[TRAIN_ASSIGNMENT_BYTES])
{
    const char *word = s->choices;
    int bytes = 0;
    switch (s->kind) {
    case CLI_INT:
        bytes = snprintf(out, TRAIN_ASSIGNMENT_BYTES, "%s=%lld", s->key, (long long)s->integer);
        break;
    case CLI_NUMBER:
        bytes = snprintf(out, TRAIN_ASSIGNMENT_BYTES, "%s=%.17g", s->key, s->number);
        break;
    case CLI_CHOICE:
        for (int32_t skip = s->choice; skip > 0; skip--) word = strchr(word, '|') + 1;
        bytes =
            snprintf(out, TRAIN_ASSIGNMENT_BYTES, "%s=%.*s", s->key, (int)strcspn(word, "|"), word);
        break;
    default:
        bytes = snprintf(out, TRAIN_ASSIGNMENT_BYTES, "%s=%s", s->key, s->text);
        break;
    }
    return bytes < TRAIN_ASSIGNMENT_BYTES;
}

int fit_settings_apply(const fit_settings *settings, focal_ctx *ctx, focal_run *run)
{
    for (int32_t n = 0; n < settings->count; n++) {
        const fit_setting *s = &settings->items[n];
        char assignment[TRAIN_ASSIGNMENT_BYTES];
        if (!s->is_given) continue;
        if (!print_setting(s, assignment)) /* only texts can be long */
            return cli_wrong("fit: --%s is '%.*s...', %zu bytes; no setting takes more than %d",
                             s->option, SHOWN, s->text, strlen(s->text), FOCAL_RUN_VALUE);
        if (focal_run_set(run, assignment) != FOCAL_OK)
            return fit_settings_fail(settings, focal_ctx_error(ctx));
    }
    return CLI_DONE;
}

/* Whether a sentence has the key as a word: groups.top is none in groups.top_fit. */
static bool names_key(const char *sentence, const char *key)
{
    const size_t length = strlen(key);
    for (const char *at = strstr(sentence, key); at; at = strstr(at + 1, key)) {
        const bool begins = at == sentence || (!isalnum((unsigned char)at[-1]) && at[-1] != '.');
        if (begins && !isalnum((unsigned char)at[length]) && at[length] != '_') return true;
    }
    return false;
}

int fit_settings_fail(const fit_settings *settings, const char *sentence)
{
    const char *colon = strstr(sentence, ": ");
    char names[NAMES_BYTES];
    size_t used = 0;
    for (int32_t n = 0; n < settings->count && used < sizeof names; n++) {
        const fit_setting *s = &settings->items[n];
        if (s->is_given && names_key(sentence, s->key))
            used += (size_t)snprintf(names + used, sizeof names - used, "%s--%s", used ? ", " : "",
                                     s->option);
    }
    if (used == 0) return cli_fail("%s", sentence);
    /* In place of "run", or of a --set that nobody gave. */
    return cli_wrong("fit: %s: %s", names, colon ? colon + 2 : sentence);
}
