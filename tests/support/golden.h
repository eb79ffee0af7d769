/* Golden vectors: named cases with parameters and tensors of doubles, as tools/golden.py writes
 * them: a manifest of lines, and one file of little-endian doubles. */
#ifndef FOCAL_TESTS_GOLDEN_H
#define FOCAL_TESTS_GOLDEN_H

#include <stdint.h>

enum { GOLDEN_PARAMETERS = 24, GOLDEN_TENSORS = 24, GOLDEN_NAME = 32 };

typedef struct golden_tensor {
    char name[GOLDEN_NAME];
    const double *data;
    int64_t count;
} golden_tensor;

typedef struct golden_case {
    char name[GOLDEN_NAME];
    double parameters[GOLDEN_PARAMETERS]; /* in the order of the generator */
    int parameter_count;
    golden_tensor tensors[GOLDEN_TENSORS];
    int tensor_count;
} golden_case;

typedef struct golden {
    golden_case *cases;
    int case_count;
    double *data;
    int64_t count;
} golden;

/* Reads tests/golden/<name>.manifest and .bin, or fails the test. */
golden *golden_open(const char *name);
void golden_close(golden *g);

/* The tensor of that name, which must have count elements; NULL when the case has none. */
const double *golden_get(const golden_case *c, const char *name, int64_t count);

#endif /* FOCAL_TESTS_GOLDEN_H */
