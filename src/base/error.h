/* Failing with a sentence: the message goes into the context, the status to the caller. */
#ifndef FOCI_BASE_ERROR_H
#define FOCI_BASE_ERROR_H

#include "focal/base.h"

/* Stores the formatted message in ctx (which may be NULL) and returns status. */
focal_status foci_fail(focal_ctx *ctx, focal_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define FOCAL_TRY(call)                                                                            \
    do {                                                                                           \
        const focal_status try_status_ = (call);                                                   \
        if (try_status_ != FOCAL_OK) return try_status_;                                           \
    } while (0)

#define FOCAL_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif /* FOCI_BASE_ERROR_H */
