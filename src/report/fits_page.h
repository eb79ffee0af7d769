/* The page of adapters, from inside: its parts in the order in which they stand. */
#ifndef FOCI_REPORT_FITS_PAGE_H
#define FOCI_REPORT_FITS_PAGE_H

#include "report/fits_read.h"
#include "report/page.h"

typedef struct foci_fits {
    focal_ctx *ctx;
    int32_t count;
    foci_fit *fits[FOCAL_REPORT_MAX_FITS];
    foci_notes notes;
} foci_fits;

void foci_fits_html(foci_page *page, const foci_fits *fits, const char *title);

/* Loss and speed over the share of pairs, and the curves of the fits; each is left out where no
 * adapter has such numbers. */
void foci_fits_loss_chart(foci_page *page, const foci_fits *fits);
void foci_fits_speed_chart(foci_page *page, const foci_fits *fits);
void foci_fits_curves(foci_page *page, const foci_fits *fits);

/* Whether all of a measurement is one point of the chart of losses. */
bool foci_fit_is_point(const foci_fit_measure *measure);

/* The commands that make the adapters, their numbers and the page again. */
void foci_fits_again(foci_page *page, const foci_fits *fits);

/* The sizes of all groups as a picture, the number-th of the page. */
void foci_svg_sizes(foci_page *page, const foci_fit_measure *measure, int32_t number);

#endif /* FOCI_REPORT_FITS_PAGE_H */
