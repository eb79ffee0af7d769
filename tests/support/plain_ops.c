/* Plain float32 loops of the small operations, by the formulas that PyTorch's users write. */
#include "support/plain_ops.h"

#include <math.h>

void plain_norm(const foci_norm_args *a, float *out)
{
    for (int64_t row = 0; row < (int64_t)a->T * a->H; row++) {
        const float *x = a->x + row / a->H * a->x_stride + row % a->H * a->width;
        float mean = 0.0F, square = 0.0F;
        for (int64_t n = 0; n < a->width && a->kind == FOCI_NORM_LAYER; n++) mean += x[n];
        mean /= (float)a->width;
        for (int64_t n = 0; n < a->width; n++) square += (x[n] - mean) * (x[n] - mean);
        const float scale = 1.0F / sqrtf(square / (float)a->width + a->epsilon);
        for (int64_t n = 0; n < a->width; n++) {
            float y = (x[n] - mean) * scale;
            if (a->weight) y *= a->weight[n] + a->weight_offset;
            if (a->bias) y += a->bias[n];
            out[row * a->width + n] = y;
        }
    }
}

void plain_rope(const foci_rope_args *a, float *out)
{
    const int64_t pairs = a->rotated / 2;
    for (int64_t row = 0; row < (int64_t)a->T * a->H; row++) {
        const float *x = a->x + row / a->H * a->x_stride + row % a->H * a->D;
        float *y = out + row * a->D;
        for (int64_t n = 0; n < a->D; n++) y[n] = x[n] * a->scale;
        for (int64_t n = 0; n < pairs; n++) {
            const int64_t i = a->style == FOCI_ROPE_HALVES ? n : 2 * n;
            const int64_t j = a->style == FOCI_ROPE_HALVES ? n + pairs : 2 * n + 1;
            const float c = a->cos[row / a->H * pairs + n], s = a->sin[row / a->H * pairs + n];
            y[i] = (x[i] * c - x[j] * s) * a->scale;
            y[j] = (x[j] * c + x[i] * s) * a->scale;
        }
    }
}

static float activate(foci_activation activation, float x)
{
    const float u = 0.79788456F * (x + 0.044715F * x * x * x);
    if (activation == FOCI_SILU) return x / (1.0F + expf(-x));
    if (activation == FOCI_GELU) return 0.5F * x * (1.0F + erff(x * 0.70710678F));
    return 0.5F * x * (1.0F + tanhf(u));
}

void plain_gate(const foci_gate_args *a, float *out)
{
    for (int64_t t = 0; t < a->T; t++)
        for (int64_t n = 0; n < a->F; n++) {
            const float y = activate(a->activation, a->gate[t * a->gate_stride + n]);
            out[t * a->F + n] = a->up ? y * a->up[t * a->up_stride + n] : y;
        }
}

void plain_log_softmax(int64_t V, const float *x, float *log_probs)
{
    float max = x[0], sum = 0.0F;
    for (int64_t n = 0; n < V; n++) max = fmaxf(max, x[n]);
    for (int64_t n = 0; n < V; n++) sum += expf(x[n] - max);
    for (int64_t n = 0; n < V; n++) log_probs[n] = x[n] - max - logf(sum);
}

float plain_soft_cap(float x, float cap)
{
    return cap * tanhf(x / cap);
}
