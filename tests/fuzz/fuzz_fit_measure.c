/* Any bytes as an adapter's measure.json and as the lines of its log: refused, or taken within the
 * limits that a page relies on. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/fits_read.h"

static void require(int is_true, const char *what)
{
    if (is_true) return;
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

static void check_measure(const foci_fit_measure *m)
{
    require(m->setting_count >= 1 && m->setting_count <= FOCI_FIT_SETTINGS, "settings");
    require(m->text_count >= 1 && m->text_count <= FOCI_FIT_TEXTS, "texts");
    require(m->settings[0].kind == FOCI_FIT_DENSE, "the first setting is not dense");
    for (int32_t n = 0; n < m->setting_count; n++) {
        const foci_fit_setting *s = &m->settings[n];
        require(isfinite(s->loss), "a loss that is not finite");
        require(isnan(s->kept) || (s->kept >= 0.0 && s->kept <= 1.0), "a share beyond 1");
        require(isnan(s->speed) || (s->speed > 0.0 && isfinite(s->speed)), "a speed of nothing");
    }
    require(m->K >= 0 && m->K <= FOCAL_MAX_GROUPS, "groups");
    require(m->K > 0 || (m->size_count == 0 && m->typical_count == 0), "sizes of no groups");
    for (int32_t n = 0; n < m->size_count; n++)
        for (int32_t c = 0; c < m->K; c++)
            require(m->sizes[n].shares[c] >= 0.0 && m->sizes[n].shares[c] <= 1.0, "a share");
    for (int32_t n = 0; n < m->typical_count; n++)
        for (int32_t c = 0; c < m->K; c++)
            for (int32_t i = 0; i < m->typical[n].groups[c].count; i++)
                require(strlen(m->typical[n].groups[c].tokens[i].text) < FOCI_FIT_NAME, "a token");
}

static void check_log(const foci_fit_log *log)
{
    require(log->count >= 0 && log->count <= FOCI_FIT_POINTS, "a curve beyond its room");
    for (int32_t n = 0; n < log->count; n++) {
        require(n == 0 || log->step[n] > log->step[n - 1], "steps that do not ascend");
        require(!log->has_kl || isfinite(log->kl[n]), "a KL that is not finite");
        require(!log->has_largest || isfinite(log->largest[n]), "a share that is not finite");
    }
    require(log->valid_count >= 0 && log->valid_count <= FOCI_FIT_POINTS + 1, "too many points");
    for (int32_t n = 0; n < log->valid_count; n++)
        require((n == 0 || log->valid_step[n] > log->valid_step[n - 1]) &&
                    isfinite(log->valid_kl[n]),
                "validations that do not ascend");
}

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static focal_ctx *ctx; /* opened once */
    static foci_fit_log log;
    const focal_ctx_options options = {.threads = 1};
    foci_fit_measure *measure = NULL;
    if (!ctx && focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) abort();
    const char *text = (const char *)data;
    if (foci_fit_measure_parse(ctx, text, size, &measure) == FOCAL_OK) check_measure(measure);
    foci_fit_measure_free(ctx, measure);
    foci_fit_log_start(&log);
    for (size_t begin = 0; begin < size;) {
        const char *newline = memchr(text + begin, '\n', size - begin);
        const size_t bytes = newline ? (size_t)(newline - text) - begin : size - begin;
        (void)foci_fit_log_line(ctx, &log, text + begin, bytes);
        begin += bytes + 1;
    }
    foci_fit_log_end(&log);
    check_log(&log);
    return 0;
}
