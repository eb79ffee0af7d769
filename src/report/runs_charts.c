/* What the charts of a report of runs show. */
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "report/chart_svg.h"
#include "report/runs_page.h"

/* One line or row an arm, and numbers where the arms do not have them themselves. */
struct foci_chart_room {
    foci_chart_line *lines;
    foci_chart_row *rows;
    double *values; /* 4 rows of points an arm */
    char (*names)[FOCI_RUNS_NAME];
    size_t points; /* a row */
};

focal_status foci_chart_room_new(const foci_runs *runs, foci_chart_room **out)
{
    focal_ctx *ctx = runs->ctx;
    const size_t arms = (size_t)runs->arm_count;
    foci_chart_room *room = foci_alloc(ctx, 1, sizeof *room);
    *out = NULL;
    if (!room) return FOCAL_ENOMEM;
    /* Enough for the lengths of a measure, the seeds of an arm, and the sizes of a family. */
    room->points = FOCI_RUNS_MEASURES;
    for (size_t n = 0; n < arms; n++)
        if ((size_t)runs->arms[n].count > room->points) room->points = (size_t)runs->arms[n].count;
    const size_t count = 4 * arms * room->points + 2 * (arms + 1);
    room->lines = foci_alloc(ctx, arms, sizeof *room->lines);
    room->rows = foci_alloc(ctx, arms, sizeof *room->rows);
    room->values = foci_alloc(ctx, count, sizeof *room->values);
    room->names = foci_alloc(ctx, arms, sizeof *room->names);
    if (!room->lines || !room->rows || !room->values || !room->names) {
        foci_chart_room_free(runs, room);
        return FOCAL_ENOMEM;
    }
    *out = room;
    return FOCAL_OK;
}

void foci_chart_room_free(const foci_runs *runs, foci_chart_room *room)
{
    if (!room) return;
    foci_free(runs->ctx, room->lines);
    foci_free(runs->ctx, room->rows);
    foci_free(runs->ctx, room->values);
    foci_free(runs->ctx, room->names);
    foci_free(runs->ctx, room);
}

static void write_legend(foci_page *page, const foci_chart_line *lines, int32_t count)
{
    (void)fputs("<ul class=\"legend\">\n", page->file);
    for (int32_t n = 0; n < count; n++)
        foci_svg_legend(page, lines[n].name, lines[n].number, lines[n].count == 1);
    (void)fputs("</ul>\n", page->file);
}

void foci_runs_finals_chart(foci_page *page, const foci_runs *runs, foci_chart_room *room)
{
    enum { MOST_ROWS = 64 };
    int32_t count = 0;
    for (int32_t n = 0; n < runs->arm_count && count < MOST_ROWS; n++) {
        const foci_arm *arm = &runs->arms[n];
        double *values = room->values + (size_t)count * room->points;
        foci_chart_row row = {arm->name, n, 0, values, arm->final.mean};
        for (int32_t i = 0; i < arm->count; i++) {
            const double final = foci_arm_run(runs, arm, i)->final;
            if (!isnan(final)) values[row.count++] = final;
        }
        if (row.count > 0) room->rows[count++] = row;
    }
    if (count < 2) return;
    foci_svg_rows(page, "finals", "Final validation loss, a dot a seed and a bar for their mean",
                  runs->arm_count > MOST_ROWS
                      ? "final validation loss (nats a token) of the first 64 arms"
                      : "final validation loss (nats a token); a dot a seed, the bar is their mean",
                  room->rows, count);
}

typedef enum curve_kind { CURVE_VALID, CURVE_APART, CURVE_TRAIN } curve_kind;

static const foci_band *band_of(const foci_arm *arm, curve_kind kind)
{
    return kind == CURVE_VALID ? &arm->valid : kind == CURVE_APART ? &arm->apart : &arm->train;
}

/* The arms that have such a curve. */
static int32_t curve_lines(const foci_runs *runs, curve_kind kind, foci_chart_line *lines)
{
    int32_t count = 0;
    for (int32_t n = 0; n < runs->arm_count; n++) {
        const foci_band *band = band_of(&runs->arms[n], kind);
        if (band->mean.count < 1) continue;
        const bool has_band = runs->arms[n].count > 1;
        const foci_chart_line line = {.name = runs->arms[n].name,
                                      .number = n,
                                      .count = band->mean.count,
                                      .x = band->mean.x,
                                      .y = band->mean.y,
                                      .low = has_band ? band->low : NULL,
                                      .high = has_band ? band->high : NULL};
        lines[count++] = line;
    }
    return count;
}

/* Runs of very different lengths need a logarithm to be seen together. */
static bool is_log_better(const foci_chart_line *lines, int32_t count)
{
    double least = (double)INFINITY, most = 0.0;
    for (int32_t n = 0; n < count; n++) {
        const double end = lines[n].x[lines[n].count - 1];
        least = fmin(least, end);
        most = fmax(most, end);
    }
    return most > 6.0 * least;
}

static void write_curve(foci_page *page, const foci_runs *runs, curve_kind kind,
                        foci_chart_room *room)
{
    static const struct {
        const char *id, *heading, *y_label;
    } texts[] = {
        {"valid", "Validation loss", "validation loss (nats a token)"},
        {"apart", "Validation loss, difference to the baseline", "difference (nats a token)"},
        {"train", "Training loss", "training loss (nats a token)"},
    };
    const int32_t count = curve_lines(runs, kind, room->lines);
    if (count == 0) return;
    const foci_chart chart = {.id = texts[kind].id,
                              .title = texts[kind].heading,
                              .x_label = "tokens seen in training",
                              .y_label = texts[kind].y_label,
                              .is_log_x = is_log_better(room->lines, count),
                              .has_zero = kind == CURVE_APART,
                              .skip_share = 0.1,
                              .lines = room->lines,
                              .line_count = count};
    (void)fprintf(page->file, "<section><h2>%s</h2>\n", texts[kind].heading);
    if (count > 1) write_legend(page, room->lines, count);
    (void)fputs("<figure>\n", page->file);
    foci_svg_chart(page, &chart);
    (void)fputs("<figcaption>", page->file);
    if (kind == CURVE_APART)
        (void)fputs("Below zero is better than the baseline at the same number of tokens; the mean "
                    "over seeds, the band from the least to the largest difference of runs with "
                    "the same seed. ",
                    page->file);
    else if (runs->run_count > runs->arm_count)
        (void)fputs("A line is the mean over the seeds of an arm, its band goes from the least to "
                    "the largest of them. ",
                    page->file);
    if (kind == CURVE_TRAIN) {
        int64_t least = INT64_MAX, most = 0;
        for (int32_t n = 0; n < runs->arm_count; n++) {
            for (int32_t i = 0; i < runs->arms[n].count; i++) {
                const int64_t block = foci_arm_run(runs, &runs->arms[n], i)->log.block;
                least = foci_min64(least, block);
                most = foci_max64(most, block);
            }
        }
        (void)fprintf(page->file, "Smoothed: each point is the mean of %lld", (long long)least);
        if (most > least) (void)fprintf(page->file, " to %lld", (long long)most);
        (void)fprintf(page->file, " successive step%s. ", most > 1 ? "s" : "");
    }
    (void)fputs("The beginning may lie outside of the picture.</figcaption></figure></section>\n",
                page->file);
}

void foci_runs_curves(foci_page *page, const foci_runs *runs, foci_chart_room *room)
{
    write_curve(page, runs, CURVE_VALID, room);
    write_curve(page, runs, CURVE_APART, room);
    write_curve(page, runs, CURVE_TRAIN, room);
}

void foci_runs_sizes_chart(foci_page *page, const foci_runs *runs, foci_axis axis,
                           foci_chart_room *room)
{
    int32_t count = 0;
    double *next = room->values;
    for (int32_t n = 0; n < runs->arm_count; n++) {
        if (!foci_family_starts(runs, axis, n)) continue;
        /* Families share no arm, so all of their points have room here, and one more to move. */
        double *losses = next + (size_t)runs->arm_count + 1;
        const int32_t sizes = foci_family_collect(runs, axis, n, next, losses);
        if (sizes < 2) continue;
        double *y = next + sizes;
        memmove(y, losses, (size_t)sizes * sizeof *y);
        foci_arm_label(runs, n, (int)axis, room->names[count]);
        room->lines[count] = (foci_chart_line){
            .name = room->names[count], .number = count, .count = sizes, .x = next, .y = y};
        next = y + sizes;
        count++;
    }
    if (count == 0) return;
    const bool is_parameters = axis == FOCI_AXIS_PARAMETERS;
    const foci_chart chart = {.id = is_parameters ? "parameters" : "tokens",
                              .title = is_parameters
                                           ? "Final validation loss over parameters"
                                           : "Final validation loss over tokens, one run a point",
                              .x_label = is_parameters ? "parameters" : "tokens of the whole run",
                              .y_label = "final validation loss",
                              .is_log_x = true,
                              .has_marks = true,
                              .lines = room->lines,
                              .line_count = count};
    if (count > 1) write_legend(page, room->lines, count);
    foci_svg_chart(page, &chart);
}

void foci_runs_measure_chart(foci_page *page, const foci_runs *runs, int32_t first, int32_t end,
                             foci_chart_room *room)
{
    int32_t count = 0;
    double longest = 0.0, shortest = (double)INFINITY;
    for (int32_t n = 0; n < runs->arm_count; n++) {
        double *x = room->values + (size_t)(4 * count) * room->points;
        double *y = x + room->points, *low = y + room->points, *high = low + room->points;
        foci_chart_line line = {.name = runs->arms[n].name, .number = n, .x = x, .y = y};
        bool has_band = false;
        for (int32_t k = first; k < end && (size_t)line.count < room->points; k++) {
            const foci_spread spread = foci_arm_measure(runs, &runs->arms[n], &runs->kinds[k]);
            if (spread.n == 0 || isnan(runs->kinds[k].length)) continue;
            x[line.count] = runs->kinds[k].length;
            y[line.count] = spread.mean;
            low[line.count] = spread.least;
            high[line.count] = spread.most;
            has_band |= spread.n > 1;
            longest = fmax(longest, x[line.count]);
            shortest = fmin(shortest, x[line.count]);
            line.count++;
        }
        if (line.count == 0) continue;
        if (has_band) {
            line.low = low;
            line.high = high;
        }
        room->lines[count++] = line;
    }
    if (count == 0 || !(longest > shortest)) return;
    char id[32];
    (void)snprintf(id, sizeof id, "measure%d", (int)first);
    const foci_chart chart = {.id = id,
                              .title = runs->kinds[first].name,
                              .x_label = "length (tokens)",
                              .y_label = runs->kinds[first].name,
                              .is_log_x = true,
                              .has_marks = true,
                              .lines = room->lines,
                              .line_count = count};
    (void)fputs("<figure class=\"small\">\n", page->file);
    if (count > 1) write_legend(page, room->lines, count);
    foci_svg_chart(page, &chart);
    (void)fputs("</figure>\n", page->file);
}
