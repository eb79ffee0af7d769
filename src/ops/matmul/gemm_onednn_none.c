/* Stands in where focal is built without oneDNN. */
#include "ops/matmul/matmul_kernels.h"

const foci_matmul_kernel foci_matmul_onednn = {
    "onednn", foci_matmul_never_can, foci_matmul_never_run, NULL, NULL, false};
