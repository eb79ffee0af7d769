/* Key sets as pictures: runs of equal cells become one stretch of a path, one path a colour, so
 * that a text of 256 tokens stays far below a megabyte. */
#include "report/key_sets_svg.h"

#include <math.h>

enum {
    CELL = 3,    /* units a token */
    MARGIN = 30, /* room for the strips and the axis names */
    STRIP = 6,
    WHY_NOT = -1, /* why a pair is seen; a group's number otherwise */
    WHY_WINDOW = FOCAL_MAX_GROUPS,
    WHY_SINK = FOCAL_MAX_GROUPS + 1
};

static int32_t colour_of(int32_t group)
{
    return group % FOCI_REPORT_COLOURS;
}

/* The lowest group by which query i sees key j, or WHY_NOT. */
static int32_t common_group(const focal_report_sets *sets, int32_t i, int32_t j)
{
    const int32_t *query = sets->query_groups + (int64_t)i * sets->top;
    const bool is_shared = sets->mode == FOCAL_SHARED;
    const int32_t *key =
        is_shared ? sets->query_groups + (int64_t)j * sets->top : sets->key_groups + j;
    const int32_t key_count = is_shared ? sets->top : 1;
    int32_t lowest = WHY_NOT;
    for (int32_t a = 0; a < sets->top; a++)
        for (int32_t b = 0; b < key_count; b++)
            if (query[a] == key[b] && (lowest == WHY_NOT || query[a] < lowest)) lowest = query[a];
    return lowest;
}

static int32_t why_seen(const focal_report_sets *sets, int32_t i, int32_t j)
{
    if (j > i) return WHY_NOT;
    if (i - j <= sets->window) return WHY_WINDOW;
    if (j < sets->sinks) return WHY_SINK;
    return common_group(sets, i, j);
}

static void begin_svg(foci_page *page, int32_t width, int32_t height, const char *id)
{
    (void)fprintf(page->file,
                  "<svg viewBox=\"0 0 %d %d\" role=\"img\" "
                  "aria-labelledby=\"%s-title %s-desc\">\n",
                  width, height, id, id);
}

static void print_class(foci_page *page, int32_t why)
{
    if (why == WHY_WINDOW)
        (void)fputs("window", page->file);
    else if (why == WHY_SINK)
        (void)fputs("sink", page->file);
    else
        (void)fprintf(page->file, "g%d", colour_of(why));
}

/* All cells of one reason, row by row, as one path. */
static void draw_reason(foci_page *page, const focal_report_sets *sets, int32_t why)
{
    bool is_begun = false;
    for (int32_t i = 0; i < sets->T; i++) {
        for (int32_t j = 0; j <= i;) {
            if (why_seen(sets, i, j) != why) {
                j++;
                continue;
            }
            const int32_t first = j;
            while (j <= i && why_seen(sets, i, j) == why) j++;
            if (!is_begun) {
                (void)fputs("<path class=\"", page->file);
                print_class(page, why);
                (void)fputs("\" d=\"", page->file);
            }
            is_begun = true;
            (void)fprintf(page->file, "M%d %dh%dv%dh%dz", MARGIN + first * CELL, MARGIN + i * CELL,
                          (j - first) * CELL, CELL, (first - j) * CELL);
        }
    }
    if (is_begun) (void)fputs("\"/>\n", page->file);
}

/* The group of each key above the columns, the groups of each query beside the rows. */
static void draw_strips(foci_page *page, const focal_report_sets *sets)
{
    const int32_t part = sets->top < STRIP ? sets->top : STRIP;
    for (int32_t j = 0; j < sets->T; j++) {
        const int32_t key = sets->mode == FOCAL_SHARED ? sets->query_groups[(int64_t)j * sets->top]
                                                       : sets->key_groups[j];
        (void)fprintf(page->file, "<path class=\"g%d\" d=\"M%d %dh%dv%dh-%dz\"/>\n", colour_of(key),
                      MARGIN + j * CELL, MARGIN - STRIP - 2, CELL, STRIP, CELL);
        for (int32_t a = 0; a < part; a++)
            (void)fprintf(page->file,
                          "<rect class=\"g%d\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" "
                          "height=\"%d\"/>\n",
                          colour_of(sets->query_groups[(int64_t)j * sets->top + a]),
                          MARGIN - STRIP - 2 + (double)(STRIP * a) / part, MARGIN + j * CELL,
                          (double)STRIP / part, CELL);
    }
}

void foci_svg_pairs(foci_page *page, const focal_report_sets *sets)
{
    const int32_t side = sets->T * CELL;
    int64_t seen = 0, local = 0;
    for (int32_t i = 0; i < sets->T; i++)
        for (int32_t j = 0; j <= i; j++) {
            const int32_t why = why_seen(sets, i, j);
            seen += why != WHY_NOT;
            local += why == WHY_WINDOW || why == WHY_SINK;
        }
    begin_svg(page, side + MARGIN + 2, side + MARGIN + 2, "pairs");
    (void)fprintf(
        page->file,
        "<title id=\"pairs-title\">Pairs of query and key that are seen</title>\n"
        "<desc id=\"pairs-desc\">A triangle of %d queries, from top to bottom, by %d "
        "keys, from left to right. Of %lld causal pairs %lld are seen: %lld in the window "
        "along the diagonal and the sinks at the left edge, %lld by their group, in "
        "rectangles where a query&#39;s group meets an earlier stretch of the same "
        "group.</desc>\n",
        sets->T, sets->T, (long long)((int64_t)sets->T * (sets->T + 1) / 2), (long long)seen,
        (long long)local, (long long)(seen - local));
    (void)fprintf(page->file, "<path class=\"causal\" d=\"M%d %dV%dH%dz\"/>\n", MARGIN, MARGIN,
                  MARGIN + side, MARGIN + side);
    (void)fprintf(page->file,
                  "<text x=\"%d\" y=\"14\">keys, first to last</text>\n"
                  "<text transform=\"translate(14 %d) rotate(-90)\" text-anchor=\"end\">queries, "
                  "first to last</text>\n",
                  MARGIN, MARGIN);
    draw_strips(page, sets);
    for (int32_t c = 0; c < sets->K; c++) draw_reason(page, sets, c);
    draw_reason(page, sets, WHY_WINDOW);
    draw_reason(page, sets, WHY_SINK);
    (void)fputs("</svg>\n", page->file);
}

static bool looks_into(const focal_report_sets *sets, int32_t token, int32_t group)
{
    for (int32_t a = 0; a < sets->top; a++)
        if (sets->query_groups[(int64_t)token * sets->top + a] == group) return true;
    return false;
}

static bool has_key(const focal_report_sets *sets, int32_t token, int32_t group)
{
    if (token < sets->sinks) return false;
    return sets->mode == FOCAL_SHARED ? looks_into(sets, token, group)
                                      : sets->key_groups[token] == group;
}

/* One group: its queries as rows below `top`, its keys as columns right of `left`. A row is the
 * prefix of keys that lie before the query's window. */
static void draw_group(foci_page *page, const focal_report_sets *sets, int32_t group, double left,
                       double top, double x_unit, double y_unit)
{
    int32_t row = 0;
    (void)fprintf(page->file, "<path class=\"g%d\" d=\"", colour_of(group));
    for (int32_t i = 0; i < sets->T; i++) {
        if (!looks_into(sets, i, group)) continue;
        int32_t seen = 0;
        for (int32_t j = sets->sinks; j < i - sets->window; j++) seen += has_key(sets, j, group);
        if (seen > 0)
            (void)fprintf(page->file, "M%.1f %.2fh%.1fv%.2fh%.1fz", left, top + row * y_unit,
                          seen * x_unit, y_unit, -seen * x_unit);
        row++;
    }
    (void)fputs("\"/>\n", page->file);
}

void foci_svg_sorted(foci_page *page, const focal_report_sets *sets)
{
    const int32_t side = sets->T * CELL;
    int32_t key_total = 0;
    const int32_t query_total = sets->T * sets->top;
    for (int32_t c = 0; c < sets->K; c++)
        for (int32_t j = 0; j < sets->T; j++) key_total += has_key(sets, j, c);
    const double x_unit = (double)side / (key_total > 0 ? key_total : 1);
    const double y_unit = (double)side / query_total;
    begin_svg(page, side + MARGIN + 2, side + MARGIN + 2, "sorted");
    (void)fputs(
        "<title id=\"sorted-title\">The distant pairs, sorted by group</title>\n"
        "<desc id=\"sorted-desc\">The same pairs with keys and queries sorted by group: one "
        "staircase a group along the diagonal, and nothing elsewhere. Each query sees the "
        "first keys of its group, without gaps.</desc>\n",
        page->file);
    (void)fprintf(
        page->file,
        "<text x=\"%d\" y=\"14\">keys, by group</text>\n"
        "<text transform=\"translate(14 %d) rotate(-90)\" text-anchor=\"end\">queries, by "
        "group</text>\n",
        MARGIN, MARGIN);
    double left = MARGIN, top = MARGIN;
    for (int32_t c = 0; c < sets->K; c++) {
        int32_t keys = 0, queries = 0;
        for (int32_t j = 0; j < sets->T; j++) {
            keys += has_key(sets, j, c);
            queries += looks_into(sets, j, c);
        }
        const double width = keys * x_unit, height = queries * y_unit;
        (void)fprintf(page->file,
                      "<rect class=\"causal\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                      "height=\"%.1f\"/>\n"
                      "<rect class=\"g%d\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n"
                      "<rect class=\"g%d\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"/>\n",
                      left, top, width, height, colour_of(c), left, MARGIN - STRIP - 2, width,
                      STRIP, colour_of(c), MARGIN - STRIP - 2, top, STRIP, height);
        draw_group(page, sets, c, left, top, x_unit, y_unit);
        left += width;
        top += height;
    }
    (void)fputs("</svg>\n", page->file);
}

void foci_svg_loads(foci_page *page, const double *loads, int32_t load_count)
{
    enum { WIDTH = 1040, HEIGHT = 170, FOOT = 40, MOST_LABELS = 24 };
    double largest = 0.0, least = (double)INFINITY;
    for (int32_t c = 0; c < load_count; c++) {
        largest = fmax(largest, loads[c]);
        least = fmin(least, loads[c]);
    }
    const double step = (double)WIDTH / load_count;
    const double scale = (HEIGHT - 4) / (largest > 0.0 ? largest : 1.0);
    begin_svg(page, WIDTH, HEIGHT + FOOT, "loads");
    (void)fprintf(page->file,
                  "<title id=\"loads-title\">Share of the keys in each group</title>\n"
                  "<desc id=\"loads-desc\">%d bars: the fullest group holds %.1f %% of the keys, "
                  "the emptiest %.1f %%; even groups would hold %.1f %%.</desc>\n",
                  load_count, 100.0 * largest, 100.0 * least, 100.0 / load_count);
    for (int32_t c = 0; c < load_count; c++) {
        const double height = loads[c] * scale, middle = (c + 0.5) * step;
        (void)fprintf(page->file,
                      "<rect class=\"bar\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                      "height=\"%.1f\" rx=\"2\"/>\n",
                      (c + 0.12) * step, HEIGHT - height, 0.76 * step, height);
        if (load_count <= MOST_LABELS)
            (void)fprintf(page->file,
                          "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.1f %%</text>\n"
                          "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">group %d</text>\n",
                          middle, HEIGHT + 17, 100.0 * loads[c], middle, HEIGHT + 34, c);
    }
    const double even = HEIGHT - scale / load_count;
    (void)fprintf(page->file, "<path class=\"even\" d=\"M0 %.1fH%d\"/>\n</svg>\n", even, WIDTH);
}
