/* What the charts of a page of adapters show. */
#include <math.h>
#include <stdio.h>

#include "report/chart_svg.h"
#include "report/fits_page.h"

/* One line an adapter. */
typedef struct lines {
    foci_chart_line line[FOCAL_REPORT_MAX_FITS];
    double x[FOCAL_REPORT_MAX_FITS][FOCI_FIT_SETTINGS];
    double y[FOCAL_REPORT_MAX_FITS][FOCI_FIT_SETTINGS];
    int32_t tops[FOCAL_REPORT_MAX_FITS][FOCI_FIT_SETTINGS];
    int32_t count;
} lines;

/* Points come in any order and stand by x; of two with one x the later stands behind. */
static void add_point(lines *l, int32_t at, double x, double y, int32_t top)
{
    int32_t n = l->line[at].count++;
    for (; n > 0 && l->x[at][n - 1] > x; n--) {
        l->x[at][n] = l->x[at][n - 1];
        l->y[at][n] = l->y[at][n - 1];
        l->tops[at][n] = l->tops[at][n - 1];
    }
    l->x[at][n] = x;
    l->y[at][n] = y;
    l->tops[at][n] = top;
}

/* A setting's height in a chart, NaN: it is not in it. Temperatures alone are no point of a curve
 * of groups: they stand in the table. */
static double height_of(const foci_fit_measure *m, int32_t n, bool is_speed)
{
    const foci_fit_setting *s = &m->settings[n], *dense = &m->settings[0];
    const double y = is_speed ? s->speed / dense->speed : s->loss - dense->loss;
    const bool is_shown = s->kind != FOCI_FIT_TEMPERATURES && !isnan(s->kept) && isfinite(y);
    return is_shown ? y : (double)NAN;
}

bool foci_fit_is_point(const foci_fit_measure *measure)
{
    int32_t count = 0;
    for (int32_t n = 1; n < measure->setting_count; n++)
        count += !isnan(height_of(measure, n, false));
    return count == 1;
}

/* The settings of all adapters that have both numbers. */
static void collect(lines *l, const foci_fits *fits, bool is_speed)
{
    l->count = 0;
    for (int32_t n = 0; n < fits->count; n++) {
        const foci_fit_measure *m = fits->fits[n]->measure;
        if (!m) continue;
        const int32_t at = l->count;
        l->line[at] = (foci_chart_line){.name = fits->fits[n]->label,
                                        .number = n,
                                        .x = l->x[at],
                                        .y = l->y[at],
                                        .tags = l->tops[at]};
        for (int32_t i = 1; i < m->setting_count; i++) {
            const foci_fit_setting *s = &m->settings[i];
            const double y = height_of(m, i, is_speed);
            if (isnan(y)) continue;
            add_point(l, at, 100.0 * s->kept, y, s->kind == FOCI_FIT_TOP ? s->top : -1);
        }
        if (l->line[at].count > 0) l->count++;
    }
}

static void write_chart(foci_page *page, const foci_chart *chart, const char *caption)
{
    int32_t named = 0;
    for (int32_t n = 0; n < chart->line_count; n++) named += !chart->lines[n].is_faint;
    (void)fputs("<figure>\n", page->file);
    if (named > 1) {
        (void)fputs("<ul class=\"legend\">\n", page->file);
        for (int32_t n = 0; n < chart->line_count; n++)
            if (!chart->lines[n].is_faint)
                foci_svg_legend(page, chart->lines[n].name, chart->lines[n].number,
                                chart->lines[n].count == 1);
        (void)fputs("</ul>\n", page->file);
    }
    foci_svg_chart(page, chart);
    (void)fprintf(page->file, "<figcaption>%s</figcaption></figure>\n", caption);
}

/* Whether a point is of a number of groups, or of an adapter that has no such number. */
static bool has_point(const lines *l, bool has_top)
{
    for (int32_t n = 0; n < l->count; n++)
        for (int32_t i = 0; i < l->line[n].count; i++)
            if ((l->tops[n][i] >= 0) == has_top) return true;
    return false;
}

/* Of what is drawn alone: points without their numbers are not explained by them. */
static void make_loss_caption(const foci_chart *chart, const lines *l, char *out, size_t room)
{
    const char *points = !has_point(l, true) ? ""
                         : foci_chart_has_tags(chart)
                             ? "A point is a number of groups that a token looks into, which "
                               "stands beside it: 0 is window and sinks alone, all of them is "
                               "every key. "
                             : "A mark is a number of groups that a token looks into, from window "
                               "and sinks alone to every key: point at it to see which. ";
    (void)snprintf(out, room, "%sLower is better, 0 is the model as it is, in the same run.%s",
                   points,
                   has_point(l, false) ? " LoRA, temperatures alone and a scale look at every "
                                         "pair: they are controls."
                                       : "");
}

void foci_fits_loss_chart(foci_page *page, const foci_fits *fits)
{
    lines l;
    char caption[512];
    collect(&l, fits, false);
    if (l.count == 0) return;
    const foci_chart chart = {.id = "loss",
                              .title = "Loss beyond dense attention over the share of pairs",
                              .x_label = "distant pairs that are looked at (%)",
                              .y_label = "loss beyond dense (nats a token)",
                              .has_marks = true,
                              .has_round_x = true,
                              .has_zero = true,
                              .tag = "groups",
                              .lines = l.line,
                              .line_count = l.count};
    (void)fputs("<section><h2>Loss against share of pairs</h2>\n", page->file);
    make_loss_caption(&chart, &l, caption, sizeof caption);
    write_chart(page, &chart, caption);
    (void)fputs("</section>\n", page->file);
}

void foci_fits_speed_chart(foci_page *page, const foci_fits *fits)
{
    lines l;
    collect(&l, fits, true);
    if (l.count == 0) return;
    const foci_chart chart = {.id = "speed",
                              .title = "Prompt speed against dense over the share of pairs",
                              .x_label = "distant pairs that are looked at (%)",
                              .y_label = "prompt speed (times dense)",
                              .has_marks = true,
                              .has_round_x = true,
                              .has_one = true,
                              .tag = "groups",
                              .lines = l.line,
                              .line_count = l.count};
    (void)fputs("<section><h2>Speed of the same settings</h2>\n", page->file);
    write_chart(page, &chart,
                "Tokens a second of reading the first text as a prompt, all of the model's work, "
                "divided by those of the model as it is (the line at 1); settings were timed by "
                "turns.");
    (void)fputs("</section>\n", page->file);
}

/* What skip_share does, for readers. */
#define FIRST_STEPS                                                                                \
    "The first 5 % of the steps set no limits: a curve may begin outside of the picture."

/* Behind each other: batches, thin where the adapter has validations too, and those with their
 * points. Returns how many lines there are. */
static int32_t collect_kl(const foci_fits *fits, bool is_valid, foci_chart_line *line)
{
    int32_t count = 0;
    for (int32_t n = 0; n < fits->count; n++) {
        const foci_fit_log *log = &fits->fits[n]->log;
        if (is_valid ? log->valid_count == 0 : !log->has_kl) continue;
        line[count] = (foci_chart_line){.name = fits->fits[n]->label,
                                        .number = n,
                                        .count = is_valid ? log->valid_count : log->count,
                                        .x = is_valid ? log->valid_step : log->step,
                                        .y = is_valid ? log->valid_kl : log->kl,
                                        .has_marks = is_valid,
                                        .is_faint = !is_valid && log->valid_count > 0};
        count++;
    }
    return count;
}

#define OF_BATCHES                                                                                 \
    "of the batches that were learned from: single batches differ by several times, so look at "   \
    "the trend. "
#define OF_VALIDATION "Points are the validation&#39;s, on text that is not learned from. "

static void write_kl(foci_page *page, const foci_fits *fits)
{
    foci_chart_line line[2 * FOCAL_REPORT_MAX_FITS];
    const int32_t batches = collect_kl(fits, false, line);
    const int32_t count = batches + collect_kl(fits, true, line + batches);
    if (count == 0) return;
    const foci_chart chart = {.id = "kl",
                              .title = "KL to the dense model over steps",
                              .x_label = "steps",
                              .y_label = "KL to the dense model (nats)",
                              .skip_share = 0.05,
                              .lines = line,
                              .line_count = count};
    (void)fputs("<h3>Divergence from the dense model</h3>\n", page->file);
    write_chart(page, &chart,
                count == batches ? "Lines are " OF_BATCHES FIRST_STEPS
                : batches == 0   ? OF_VALIDATION FIRST_STEPS
                               : OF_VALIDATION "Lines without points are " OF_BATCHES FIRST_STEPS);
}

static void write_largest(foci_page *page, const foci_fits *fits)
{
    foci_chart_line line[FOCAL_REPORT_MAX_FITS];
    int32_t count = 0;
    for (int32_t n = 0; n < fits->count; n++) {
        const foci_fit_log *log = &fits->fits[n]->log;
        if (!log->has_largest) continue;
        line[count] = (foci_chart_line){.name = fits->fits[n]->label,
                                        .number = n,
                                        .count = log->count,
                                        .x = log->step,
                                        .y = log->largest};
        count++;
    }
    if (count == 0) return;
    const foci_chart chart = {.id = "largest",
                              .title = "Share of the largest group over steps",
                              .x_label = "steps",
                              .y_label = "share of the largest group",
                              .skip_share = 0.05,
                              .lines = line,
                              .line_count = count};
    (void)fputs("<h3>The largest group</h3>\n", page->file);
    write_chart(page, &chart,
                "The largest share that one group of any router has of a batch: collapse is 1, "
                "with shared groups 1 / the groups of a key. " FIRST_STEPS);
}

void foci_fits_curves(foci_page *page, const foci_fits *fits)
{
    bool has_any = false;
    for (int32_t n = 0; n < fits->count; n++) {
        const foci_fit_log *log = &fits->fits[n]->log;
        has_any |= log->has_kl || log->has_largest || log->valid_count > 0;
    }
    if (!has_any) return;
    (void)fputs("<section><h2>How the fits went</h2>\n", page->file);
    write_kl(page, fits);
    write_largest(page, fits);
    (void)fputs("</section>\n", page->file);
}
