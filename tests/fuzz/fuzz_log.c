/* Any bytes as a run's log, cut behind a step that the first byte gives: refused with a sentence,
 * or cut at the end of a line; cutting once more changes nothing, and a line put there stays. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/log_jsonl.h"

static void require(int is_true, const char *what)
{
    if (is_true) return;
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static focal_ctx *ctx; /* opened once */
    const focal_ctx_options options = {.threads = 1};
    if (!ctx && focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) abort();
    if (size == 0) return 0;
    const int64_t step = (int64_t)data[0] % 16 - 1;
    const foci_text text = {(const char *)data + 1, size - 1};
    int64_t end = 0, again = 0;
    if (foci_log_find_end(ctx, "log", text, step, &end) != FOCAL_OK) {
        require(focal_ctx_error(ctx)[0] != '\0', "a failure without a sentence");
        return 0;
    }
    require(end >= 0 && (size_t)end <= text.bytes, "an end outside the text");
    require(end == 0 || text.data[end - 1] == '\n', "an end within a line");
    char *more = malloc((size_t)end + 16);
    if (!more) abort();
    memcpy(more, text.data, (size_t)end);
    const foci_text cut = {more, (size_t)end};
    require(foci_log_find_end(ctx, "log", cut, step, &again) == FOCAL_OK && again == end,
            "cut again, it is shorter");
    if (step >= 0) {
        const int length = snprintf(more + end, 16, "{\"step\":%d}\n", (int)step);
        const foci_text longer = {more, (size_t)(end + length)};
        require(foci_log_find_end(ctx, "log", longer, step, &again) == FOCAL_OK &&
                    again == end + length,
                "a line of this step was cut");
    }
    free(more);
    return 0;
}
