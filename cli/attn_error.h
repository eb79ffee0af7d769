/* Comparing results with what they should be, row by row; between the files that do it. */
#ifndef CLI_ATTN_ERROR_H
#define CLI_ATTN_ERROR_H

#include "attn_case.h"

enum { ERROR_MAX_ROWS = 48, ERROR_MAX_ENTRIES = ERROR_MAX_ROWS * ATTN_MAX_HEADS };

/* The largest difference and the largest value of the rows of one tensor. */
typedef struct row_errors {
    double difference[ERROR_MAX_ENTRIES], largest[ERROR_MAX_ENTRIES];
    int32_t count;
} row_errors;

void error_add_row(row_errors *errors, const float *mine, const float *exact, int64_t count);

/* floor: the least that a row's largest value counts for, as a share of the largest of all. */
double error_worst(const row_errors *errors, double floor);

/* As many rows as about a second of the reference allows, spread over all, first and last too. */
int32_t error_sample_count(const attn_setup *setup, int32_t rows);
int32_t error_sampled(int32_t n, int32_t count, int32_t rows);

/* Whether the query at position i sees the key at position j, for the heads of the router: by the
 * definition (docs/MATH.md, 3.3), not by the key set. */
bool error_sees(const attn_job *job, int32_t router, int64_t i, int64_t j);

/* attn_error_backward() of a job with a gate, by the definition (docs/MATH.md, 3.5) in double:
 * rows of dq, dk, dv, dgq and dgk. */
int gate_error_backward(const attn_job *job, double *error);

#endif /* CLI_ATTN_ERROR_H */
