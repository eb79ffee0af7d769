/* A named tensor as it lies in a mapped file, whatever the format. */
#ifndef FOCI_IO_TENSOR_H
#define FOCI_IO_TENSOR_H

#include "focal/base.h"

enum { FOCI_TENSOR_DIMS = 4 };

typedef struct foci_tensor {
    const char *name; /* NUL-terminated; it and data live as long as the file is open */
    focal_dtype dtype;
    int32_t dims;                    /* 1 to FOCI_TENSOR_DIMS; a scalar has 1 and shape 1 */
    int64_t shape[FOCI_TENSOR_DIMS]; /* the last of the dims lies contiguous in memory; the unused
                                        ones behind are 1. GGUF stores the reverse. */
    const void *data;
    size_t bytes;
} foci_tensor;

/* How a writer asks for tensors: hands out the bytes of tensor `index`, valid until the next call.
 * It may point at one buffer again and again. */
typedef focal_status (*foci_tensor_fill)(void *user, int64_t index, const void **data);

#endif /* FOCI_IO_TENSOR_H */
