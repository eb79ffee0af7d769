/* Any bytes as a sweep file: refused with a sentence of one line, or runs whose names are single
 * names of files and whose settings resolve or are refused. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/sweep_file.h"

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
    enum { LOOKED_AT = 20 };
    static focal_ctx *ctx; /* opened once */
    static foci_sweep sweep;
    static foci_run run;
    const focal_ctx_options options = {.threads = 1};
    if (!ctx && focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) abort();
    if (is_refused(ctx,
                   foci_sweep_parse(ctx, "sweep", (foci_text){(const char *)data, size}, &sweep)))
        return 0;
    const int64_t count = foci_sweep_count(&sweep, 4096);
    require(count != 0, "a sweep of no runs");
    for (int64_t n = 0; n < count && n < LOOKED_AT; n++) {
        char name[128];
        foci_run_init(&run);
        foci_sweep_apply(&sweep, n, &run);
        (void)is_refused(ctx, foci_run_resolve(ctx, &run));
        if (!foci_sweep_name(&sweep, n, name, sizeof name)) continue;
        require(name[0] != '\0' && name[0] != '.' && name[0] != '-', "a name that is none");
        for (const char *at = name; *at; at++)
            require(*at > ' ' && *at < 0x7F && *at != '/', "a name that no file should have");
    }
    return 0;
}
