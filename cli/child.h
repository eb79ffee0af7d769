/* The program started again by itself, with other arguments: output into files, signals handed on.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What a child is to do. */
typedef struct child_call {
    const char *const *words; /* (count) behind "focal" */
    int32_t count;
    const char *output;   /* standard output is appended to this file; NULL: to `messages` */
    const char *messages; /* standard error is, both are made where they are not there */
    int64_t threads;      /* OMP_NUM_THREADS; 0: as it is */
} child_call;

/* Starts it, in a process group of its own; it is told to end when this process dies. Returns its
 * number, or 0 after saying why not. */
pid_t child_start(const child_call *call);

/* Whether it has ended; *code becomes its exit code, 128 and the signal for one that was killed. */
bool child_has_ended(pid_t child, int *code);

#endif /* CLI_CHILD_H */
