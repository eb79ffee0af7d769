/* A run's log as JSON lines: one object a line, its step first, numbers that read back to the bit.
 */
#ifndef FOCI_TRAIN_LOG_JSONL_H
#define FOCI_TRAIN_LOG_JSONL_H

#include "focal/base.h"
#include "io/names.h"

typedef enum foci_log_type { FOCI_LOG_REAL, FOCI_LOG_INT, FOCI_LOG_TEXT } foci_log_type;

/* A member of a line. The name is ours: ASCII without quotes or backslashes. */
typedef struct foci_log_field {
    const char *name;
    foci_log_type type;
    double real; /* NaN and infinities are written as null */
    int64_t integer;
    const char *text; /* UTF-8; control characters are escaped. What is no UTF-8 becomes U+FFFD */
} foci_log_field;

typedef struct foci_log foci_log;

/* Opens the log of a run that goes on behind `step`, -1 for one that begins, and cuts it there:
 * lines of later steps, and what is unfinished or no line of ours behind them, go, so that each
 * step stands there once. Steps must not descend from line to line. FOCAL_EFORMAT when something
 * else stands before that step; the file is then as it was. */
focal_status foci_log_open(focal_ctx *ctx, const char *path, int64_t step, foci_log **out);
/* The same for a text in memory, which `path` names in messages: the bytes that stay. */
focal_status foci_log_find_end(focal_ctx *ctx, const char *path, foci_text text, int64_t step,
                               int64_t *end);
void foci_log_close(foci_log *log); /* NULL is fine */

/* {"step":..., then the fields}. The line is in the system's hands when this returns, so it
 * survives the process; FOCAL_EIO when it does not fit, and the log then ends with the line before.
 */
focal_status foci_log_put(foci_log *log, int64_t step, const foci_log_field *fields, int count);

/* To be called before a checkpoint is saved: then the log on the disk is never behind it. */
focal_status foci_log_sync(foci_log *log);

#endif /* FOCI_TRAIN_LOG_JSONL_H */
