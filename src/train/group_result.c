/* Groups or LoRA as files: the settings of the run go with them, but for paths and what changes
 * nothing. */
#include "train/group_result.h"

#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "model/adapter.h"
#include "train/run_groups.h"

enum { LINE_BYTES = FOCI_RUN_VALUE + 128 };

/* Where the data and the model lay, and how the run was kept and shown, is of no use elsewhere;
 * neither is what the method did not look at. */
static bool is_told(const foci_run *run, const char *key)
{
    static const char *const beginnings[] = {"data.shards", "start.",   "model.",   "temperature.",
                                             "checkpoint.", "samples.", "on_spike", "spike_"};
    for (size_t n = 0; n < FOCAL_COUNT(beginnings); n++)
        if (strncmp(key, beginnings[n], strlen(beginnings[n])) == 0) return false;
    if (run->learn == FOCI_RUN_LEARN_ALL) return strncmp(key, "lora.", strlen("lora.")) != 0;
    return strcmp(key, "groups.first") != 0 && foci_run_uses(run, key);
}

/* "key": value, with numbers and truth as JSON has them and all else as text. No value that is told
 * has quotes in it. */
static int print_setting(const foci_run *run, int n, char out[LINE_BYTES])
{
    char value[FOCI_RUN_VALUE];
    const foci_run_key *key = &foci_run_keys[n];
    const bool is_text =
        key->type == FOCI_RUN_CHOICE || key->type == FOCI_RUN_STRING || key->type == FOCI_RUN_INTS;
    foci_run_value(run, n, value);
    return snprintf(out, LINE_BYTES, ",\n    \"%s\": %s%s%s", key->name, is_text ? "\"" : "", value,
                    is_text ? "\"" : "");
}

/* The object of settings; foci_free() it. */
static char *make_settings(focal_ctx *ctx, const foci_run *run, int64_t step, int64_t tokens)
{
    char line[LINE_BYTES];
    size_t bytes = 0;
    char *text = NULL;
    for (int is_written = 0; is_written < 2; is_written++) {
        const size_t room = bytes + 1;
        bytes = (size_t)snprintf(line, sizeof line, "{\n    \"steps\": %lld,\n    \"tokens\": %lld",
                                 (long long)step, (long long)tokens);
        if (is_written) {
            text = foci_alloc(ctx, room, 1);
            if (!text) return NULL;
            memcpy(text, line, bytes);
        }
        for (int n = 0; n < FOCI_RUN_KEYS; n++) {
            if (!is_told(run, foci_run_keys[n].name)) continue;
            const size_t more = (size_t)print_setting(run, n, line);
            if (is_written) memcpy(text + bytes, line, more);
            bytes += more;
        }
        static const char end[] = "\n  }";
        if (is_written) memcpy(text + bytes, end, sizeof end);
        bytes += sizeof end - 1;
    }
    return text;
}

focal_status foci_write_adapter(const foci_start *start, const foci_run *run, int64_t step,
                                int64_t tokens, const focal_model *model, const char *folder)
{
    char *settings = make_settings(start->ctx, run, step, tokens);
    if (!settings) return FOCAL_ENOMEM;
    const focal_model_info info = focal_model_describe(model);
    const foci_adapter_note note = {.base = info.name,
                                    .fingerprint = focal_model_fingerprint(model),
                                    .settings = settings,
                                    .is_causal = foci_run_is_causal(run),
                                    .dtype =
                                        run->groups.type == FOCI_RUN_F32 ? FOCAL_F32 : FOCAL_BF16};
    const focal_status status = start->low_ranks
                                    ? foci_lora_write(model, folder, start->low_ranks, &note)
                                    : foci_adapter_write(start->ctx, folder, start->groups, &note);
    foci_free(start->ctx, settings);
    return status;
}
