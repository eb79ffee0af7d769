/* Running the plan of a sweep: what is prepared, the runs, and what follows each. */
#ifndef CLI_SWEEP_RUN_H
#define CLI_SWEEP_RUN_H

#include "focal/sweep.h"

typedef struct sweep_request {
    const char *out;
    int64_t threads, jobs; /* threads in all, shared by the jobs */
} sweep_request;

/* Does everything that is not done yet in request->out, which holds a settings/NAME.conf for each
 * run. Returns the exit code: 1 when a run failed, 130 or 143 after a signal. */
int sweep_run_all(focal_ctx *ctx, focal_sweep *sweep, const sweep_request *request);

#endif /* CLI_SWEEP_RUN_H */
