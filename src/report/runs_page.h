/* The parts of a report of runs, each into a page that is open. */
#ifndef FOCI_REPORT_RUNS_PAGE_H
#define FOCI_REPORT_RUNS_PAGE_H

#include "report/page.h"
#include "report/runs_group.h"

/* Room that charts need, made before anything is written. */
typedef struct foci_chart_room foci_chart_room;
focal_status foci_chart_room_new(const foci_runs *runs, foci_chart_room **out);
void foci_chart_room_free(const foci_runs *runs, foci_chart_room *room); /* NULL is fine */

/* Final losses as dots; curves; loss over parameters or tokens of whole runs; measures over
 * length. Each writes nothing when there is nothing to show. */
void foci_runs_finals_chart(foci_page *page, const foci_runs *runs, foci_chart_room *room);
void foci_runs_curves(foci_page *page, const foci_runs *runs, foci_chart_room *room);
void foci_runs_sizes_chart(foci_page *page, const foci_runs *runs, foci_axis axis,
                           foci_chart_room *room);
void foci_runs_measure_chart(foci_page *page, const foci_runs *runs, int32_t first, int32_t end,
                             foci_chart_room *room);

void foci_runs_html(foci_page *page, const foci_runs *runs, const char *title,
                    foci_chart_room *room);
void foci_runs_markdown(foci_page *page, const foci_runs *runs, const char *title);
void foci_runs_json(foci_page *page, const foci_runs *runs, const char *title);

/* Parts of the page: the head of an arm's row with its colour; settings; samples; how to make it
 * again. */
void foci_runs_arm(foci_page *page, const foci_runs *runs, int32_t n);
void foci_runs_settings(foci_page *page, const foci_runs *runs);
void foci_runs_samples(foci_page *page, const foci_runs *runs);
void foci_runs_reproduction(foci_page *page, const foci_runs *runs);

/* "at most ", "" or "more than ": what stands before a size. */
const char *foci_equal_text(foci_equal kind);

#endif /* FOCI_REPORT_RUNS_PAGE_H */
