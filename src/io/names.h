/* Names from files: text with a length, what may stand in it, and look-ups that no choice of names
 * can slow down. */
#ifndef FOCI_IO_NAMES_H
#define FOCI_IO_NAMES_H

#include "focal/base.h"

/* Bytes in somebody else's memory: not NUL-terminated, any content. */
typedef struct foci_text {
    const char *data;
    size_t bytes;
} foci_text;

foci_text foci_text_of(const char *string);
bool foci_text_equal(foci_text a, foci_text b);

/* UTF-8 as Unicode defines it (shortest forms, no surrogates) without control characters, so that
 * it can stand in a message of one line. */
bool foci_text_is_plain(foci_text text);

/* A name and the place it stands for. */
typedef struct foci_name {
    foci_text text;
    int64_t index;
} foci_name;

/* Brings the names into the order that the calls below need: n log n steps at most, no memory. */
void foci_names_sort(foci_name *names, int64_t count);
/* A name that stands there more than once, or NULL. */
const foci_name *foci_names_repeated(const foci_name *names, int64_t count);
/* The index of the name; -1: it is not there. */
int64_t foci_names_find(const foci_name *names, int64_t count, foci_text text);

#endif /* FOCI_IO_NAMES_H */
