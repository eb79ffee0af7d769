/* Writing a page: a file that appears whole or not at all, and text that cannot break it. */
#ifndef FOCI_REPORT_PAGE_H
#define FOCI_REPORT_PAGE_H

#include <stdio.h>

#include "focal/base.h"

typedef struct foci_page {
    FILE *file;
    const char *path;
    char temporary[4096]; /* the name until it is whole */
} foci_page;

/* EIO, with the message set, when the file cannot be made. */
focal_status foci_page_open(focal_ctx *ctx, const char *path, foci_page *page);

/* Puts the file in its place, or removes it: with status not OK, or when writing failed. Returns
 * the first failure. */
focal_status foci_page_close(focal_ctx *ctx, foci_page *page, focal_status status);

/* Gives the page up: nothing stays behind. */
void foci_page_drop(foci_page *page);

/* Text with the letters that mean something in HTML replaced. NULL writes nothing. */
void foci_page_text(foci_page *page, const char *text);

#endif /* FOCI_REPORT_PAGE_H */
