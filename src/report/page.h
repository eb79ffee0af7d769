/* Writing a page: a file that appears whole or not at all, and text that cannot break it. */
#ifndef FOCI_REPORT_PAGE_H
#define FOCI_REPORT_PAGE_H

#include <stdio.h>

#include "focal/base.h"

typedef struct foci_page {
    FILE *file;
    const char *path;     /* NULL: a stream */
    char temporary[4096]; /* the name until it is whole */
    void *user;           /* of a stream */
    void (*write)(void *user, const char *text, size_t bytes);
} foci_page;

/* EIO, with the message set, when the file cannot be made. */
focal_status foci_page_open(focal_ctx *ctx, const char *path, foci_page *page);

/* A page that is handed to `write` piece by piece instead; ENOMEM. */
focal_status foci_page_stream(focal_ctx *ctx, void (*write)(void *, const char *, size_t),
                              void *user, foci_page *page);

/* Puts the file in its place, or removes it: with status not OK, or when writing failed. Returns
 * the first failure. */
focal_status foci_page_close(focal_ctx *ctx, foci_page *page, focal_status status);

/* Gives the page up: nothing stays behind. */
void foci_page_drop(foci_page *page);

/* Text with the letters that mean something in HTML replaced, and with U+FFFD for what is no UTF-8
 * or a control character. NULL writes nothing. */
void foci_page_text(foci_page *page, const char *text);

/* A word of a command: in single quotes where the shell would see more than letters. */
void foci_page_word(foci_page *page, const char *word);

/* The same as a text. False, with nothing written, where four times its bytes and 3 do not fit. */
bool foci_word_quote(const char *word, char *out, size_t room);

/* A number, or a dash where there is none; a true minus. */
void foci_page_number(foci_page *page, double value, int decimals);

/* An HTML page from its first byte to below its title, and its end. Pages look alike: the two
 * styles are what this one has beyond. */
void foci_page_begin(foci_page *page, const char *title, const char *subtitle, const char *style,
                     const char *more_style);
void foci_page_end(foci_page *page);

#endif /* FOCI_REPORT_PAGE_H */
