/* Stands in where focal is built without oneDNN. */
#include "ops/matmul/matmul_kernels.h"

const foci_matmul_kernel foci_matmul_onednn = {
    .name = "onednn", .can = foci_matmul_never_can, .run = foci_matmul_never_run};
