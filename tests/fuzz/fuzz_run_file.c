/* Any bytes as a run file: refused with a sentence of one line, or resolved, written as text and
 * read back to the same run. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/run_file.h"

static void require(int is_true, const char *what)
{
    if (is_true) return;
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

static int is_refused(const focal_ctx *ctx, focal_status status)
{
    if (status == FOCAL_OK) return 0;
    const char *text = focal_ctx_error(ctx);
    require(*text != '\0', "a failure without a sentence");
    for (; *text; text++) require((unsigned char)*text >= 0x20, "a control character");
    return 1;
}

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static focal_ctx *ctx; /* opened once */
    static foci_run run, again;
    static char text[FOCI_RUN_KEYS * (FOCI_RUN_VALUE + 64)];
    const focal_ctx_options options = {.threads = 1};
    if (!ctx && focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) abort();
    foci_run_init(&run);
    foci_run_init(&again);
    if (is_refused(ctx, foci_run_parse(ctx, "run", (foci_text){(const char *)data, size}, &run)))
        return 0;
    if (is_refused(ctx, foci_run_resolve(ctx, &run))) return 0;
    size_t used = 0;
    for (int n = 0; n < FOCI_RUN_KEYS; n++) {
        char value[FOCI_RUN_VALUE];
        foci_run_value(&run, n, value);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s = %s\n",
                                 foci_run_keys[n].name, value);
    }
    const focal_status status = foci_run_parse(ctx, "again", (foci_text){text, used}, &again);
    if (status != FOCAL_OK) (void)fprintf(stderr, "%s\n", focal_ctx_error(ctx));
    require(status == FOCAL_OK, "what was written is not read");
    require(memcmp(&run, &again, offsetof(foci_run, is_given)) == 0, "another run came back");
    require(foci_run_resolve(ctx, &again) == FOCAL_OK, "what was resolved is refused");
    require(memcmp(&run, &again, offsetof(foci_run, is_given)) == 0, "resolving it changed it");
    return 0;
}
