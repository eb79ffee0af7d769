/* Two paths that change places at once. */
#ifndef FOCI_IO_EXCHANGE_H
#define FOCI_IO_EXCHANGE_H

#include <stdbool.h>

/* At no moment is there nothing under either name. False: this system or file system cannot, or
 * one is missing; nothing has changed then. */
bool foci_exchange(const char *a, const char *b);

#endif /* FOCI_IO_EXCHANGE_H */
