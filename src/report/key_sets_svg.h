/* Key sets as pictures. */
#ifndef FOCI_REPORT_KEY_SETS_SVG_H
#define FOCI_REPORT_KEY_SETS_SVG_H

#include "focal/report.h"
#include "report/page.h"

enum { FOCI_REPORT_COLOURS = 8 }; /* groups beyond share them in turn */

/* Every pair of query and key, in the order of the text, coloured by why it is seen. */
void foci_svg_pairs(foci_page *page, const focal_report_sets *sets);

/* The distant pairs again, keys and queries sorted by group: what a kernel walks. */
void foci_svg_sorted(foci_page *page, const focal_report_sets *sets);

/* A bar a group. */
void foci_svg_loads(foci_page *page, const double *loads, int32_t load_count);

#endif /* FOCI_REPORT_KEY_SETS_SVG_H */
