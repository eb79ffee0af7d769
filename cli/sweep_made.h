/* FILE.made, beside what a sweep prepares: the command that made it. An output that another command
 * has made is not what this sweep means. */
#ifndef CLI_SWEEP_MADE_H
#define CLI_SWEEP_MADE_H

#include "focal/sweep.h"

/* Whether the command's output is there. Returns an exit code: 1 after saying that another command
 * has made it. */
int made_check(const focal_sweep_command *command, bool *is_there);

/* The same for all outputs of a sweep. */
int made_check_all(focal_ctx *ctx, focal_sweep *sweep);

/* Notes the command, before it begins. Returns an exit code. */
int made_note(const focal_sweep_command *command);

#endif /* CLI_SWEEP_MADE_H */
