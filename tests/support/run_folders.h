/* Run folders as focal train leaves them, with curves that a test can compute again, and the folder
 * they lie in. */
#ifndef FOCAL_TESTS_RUN_FOLDERS_H
#define FOCAL_TESTS_RUN_FOLDERS_H

#include <stdbool.h>
#include <stdint.h>

enum { RUN_FOLDER_PATH = 256, RUN_STEPS = 400, RUN_VALID_EVERY = 100, RUN_STEP_TOKENS = 1000 };

typedef struct run_spec {
    const char *name;
    const char *settings; /* lines of run.conf beyond seed and steps */
    int64_t seed;
    double offset;      /* added to all losses */
    double parameters;  /* 0: 1e6 */
    bool is_unfinished; /* half of the steps, no summary */
    const char *after;  /* after.jsonl, or NULL */
} run_spec;

/* Validation loss at a step, without the offset: 5, 4.5, 4.25 and 4 at steps 100, 200, 300, 400. */
double run_valid_loss(int64_t step);

/* A folder of its own for a test; fails the test when it cannot be made. */
void run_root_new(char root[RUN_FOLDER_PATH]);
/* Removes it, the run folders in it and their files. */
void run_root_remove(const char *root);

void run_folder_write(const char *root, const run_spec *spec);
/* One file of a run. */
void run_file_write(const char *root, const char *name, const char *file, const char *text);

#endif /* FOCAL_TESTS_RUN_FOLDERS_H */
