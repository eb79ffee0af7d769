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

static float sigmoid(float x)
{
    return 1.0F / (1.0F + expf(-x));
}

/* The activation, and its slope. */
static float activate(foci_activation activation, float x, float *slope)
{
    if (activation == FOCI_SILU) {
        const float s = sigmoid(x);
        *slope = s * (1.0F + x * (1.0F - s));
        return x * s;
    }
    if (activation == FOCI_GELU) {
        const float s = 0.5F * (1.0F + erff(x * 0.70710678F));
        *slope = s + x * 0.39894228F * expf(-0.5F * x * x);
        return x * s;
    }
    const float t = tanhf(0.79788456F * (x + 0.044715F * x * x * x));
    const float inner = 0.79788456F * (1.0F + 3.0F * 0.044715F * x * x);
    *slope = 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * inner;
    return 0.5F * x * (1.0F + t);
}

void plain_gate_backward(const foci_gate_backward_args *a, float *dgate, float *dup)
{
    for (int64_t t = 0; t < a->T; t++)
        for (int64_t n = 0; n < a->F; n++) {
            float slope;
            const float y = activate(a->activation, a->gate[t * a->gate_stride + n], &slope);
            const float dout = a->dout[t * a->dout_stride + n];
            dgate[t * a->F + n] = dout * slope * (a->up ? a->up[t * a->up_stride + n] : 1.0F);
            if (a->up) dup[t * a->F + n] = dout * y;
        }
}
