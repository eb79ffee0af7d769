/* Charts of lines with bands, and of single values with their mean, as inline SVG. Colours and
 * dashes are classes c0.. and d0.. of the page's style, chosen by a line's number: two lines with
 * the same colour have other dashes. A line of one point is a mark, whose shape tells it from the
 * points of lines, and from those alone that have its colour. */
#ifndef FOCI_REPORT_CHART_SVG_H
#define FOCI_REPORT_CHART_SVG_H

#include "report/page.h"

enum {
    FOCI_CHART_COLOURS = 7,
    FOCI_CHART_DASHES = 4,
    FOCI_CHART_NUMBER = 32, /* bytes that hold a number as foci_chart_count() writes it */
    FOCI_CHART_LABELS = 20  /* lines that get a label at their end */
};

/* The rules of style that charts need. */
extern const char foci_chart_style[];

typedef struct foci_chart_line {
    const char *name;
    int32_t number; /* of its colour and dashes */
    int32_t count;
    const double *x, *y;      /* (count), x ascending, finite */
    const double *low, *high; /* (count); NULL: no band */
    const int32_t *tags;      /* (count) a number beside each mark, below 0: none; NULL: no tags */
    bool has_marks;           /* at each point, where the chart has none */
    bool is_faint;            /* thin, without points and a label: another line has its name */
} foci_chart_line;

typedef struct foci_chart {
    const char *id;    /* unique in the page, ASCII letters */
    const char *title; /* what a reader without the picture is told */
    const char *x_label, *y_label;
    bool is_log_x, has_marks;
    bool has_round_x;  /* ticks at round numbers, also where marks are few */
    bool has_zero;     /* a line at y = 0 */
    bool has_one;      /* a line at y = 1 */
    const char *tag;   /* what the tags of lines count: "groups" */
    double skip_share; /* points before this share of a line's last x may lie outside the picture */
    const foci_chart_line *lines;
    int32_t line_count;
} foci_chart;

/* Whether tags are drawn: some line has any, and they are few enough to be read. Points tell theirs
 * to the pointer all the same. */
bool foci_chart_has_tags(const foci_chart *chart);

void foci_svg_chart(foci_page *page, const foci_chart *chart);

/* A row of dots, one a value, and their mean as a bar. */
typedef struct foci_chart_row {
    const char *name;
    int32_t number, count;
    const double *values; /* (count), finite */
    double mean;
} foci_chart_row;

void foci_svg_rows(foci_page *page, const char *id, const char *title, const char *x_label,
                   const foci_chart_row *rows, int32_t row_count);

/* The legend's entry of a line, or of a point alone. */
void foci_svg_legend(foci_page *page, const char *name, int32_t number, bool is_alone);

/* 1234567 as 1.23M; below ten thousand as it is. */
void foci_chart_count(double value, char out[FOCI_CHART_NUMBER]);

#endif /* FOCI_REPORT_CHART_SVG_H */
