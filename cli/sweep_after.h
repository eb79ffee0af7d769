/* after.jsonl of a run: for each command its words, and what it printed. */
#ifndef CLI_SWEEP_AFTER_H
#define CLI_SWEEP_AFTER_H

#include "focal/sweep.h"

/* The line that stands before what a command printed, {"command": ...}, with its end; free() it.
 * NULL: no memory. */
char *after_head(const focal_sweep_command *command);

/* Whether the file has been made by these commands of the run. */
bool after_is_done(focal_ctx *ctx, focal_sweep *sweep, int32_t run, const char *path);

#endif /* CLI_SWEEP_AFTER_H */
