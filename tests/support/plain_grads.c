/* Plain float32 loops of gradients, by the formulas that PyTorch's users write. */
#include "support/plain_grads.h"

#include <math.h>
#include <string.h>

void plain_norm_backward(const foci_norm_backward_args *a, float *dx, float *dweight, float *dbias)
{
    const float width = (float)a->width;
    memset(dweight, 0, (size_t)a->width * sizeof *dweight);
    memset(dbias, 0, (size_t)a->width * sizeof *dbias);
    for (int64_t row = 0; row < (int64_t)a->T * a->H; row++) {
        const int64_t head = row % a->H * a->width;
        const float *x = a->x + row / a->H * a->x_stride + head;
        const float *dy = a->dy + row / a->H * a->dy_stride + head;
        float mean = 0.0F, square = 0.0F, g_mean = 0.0F, gz_mean = 0.0F;
        for (int64_t n = 0; n < a->width && a->kind == FOCI_NORM_LAYER; n++) mean += x[n];
        mean /= width;
        for (int64_t n = 0; n < a->width; n++) square += (x[n] - mean) * (x[n] - mean);
        const float scale = 1.0F / sqrtf(square / width + a->epsilon);
        for (int64_t n = 0; n < a->width; n++) {
            const float g = a->weight ? dy[n] * (a->weight[n] + a->weight_offset) : dy[n];
            if (a->kind == FOCI_NORM_LAYER) g_mean += g;
            gz_mean += g * ((x[n] - mean) * scale);
        }
        for (int64_t n = 0; n < a->width; n++) {
            const float g = a->weight ? dy[n] * (a->weight[n] + a->weight_offset) : dy[n];
            const float z = (x[n] - mean) * scale;
            dx[row * a->width + n] = scale * (g - g_mean / width - z * (gz_mean / width));
            dweight[n] += dy[n] * z;
            dbias[n] += dy[n];
        }
    }
}
