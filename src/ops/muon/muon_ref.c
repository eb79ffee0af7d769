/* The passes of Muon, reference: in double. */
#include "base/bf16.h"
#include "base/sizes.h"
#include "ops/muon/muon_passes.h"

static double element(const void *array, focal_dtype dtype, int64_t at)
{
    return dtype == FOCAL_BF16 ? (double)foci_bf16_to_float(((const uint16_t *)array)[at])
                               : (double)((const float *)array)[at];
}

static void momentum(const foci_muon_pass *p, int64_t first, int64_t count)
{
    const foci_muon_args *a = p->args;
    for (int64_t n = first; n < first + count; n++) {
        const double g = a->factor * (double)a->gradient[n], old = (double)a->momentum[n];
        const double m = old + (1.0 - a->beta) * (g - old);
        a->momentum[n] = (float)m;
        ((float *)p->out)[n] = (float)(a->is_plain ? m : g + a->beta * (m - g));
        if (a->is_cleared) a->gradient[n] = 0.0F;
    }
}

static void mix(const foci_muon_pass *p, int64_t first, int64_t count)
{
    for (int64_t n = first; n < first + count; n++) {
        const double y = p->y ? p->beta * (double)p->y[n] : 0.0;
        foci_rows_put(p->out, p->out_dtype, n, p->alpha * element(p->x, p->x_dtype, n) + y);
    }
}

static void turn(const foci_muon_pass *p, int64_t first, int64_t count)
{
    const int64_t last = foci_min64(p->cols, (first + count) * FOCI_MUON_BAND);
    for (int64_t i = first * FOCI_MUON_BAND; i < last; i++)
        for (int64_t j = 0; j < p->rows; j++)
            ((float *)p->out)[i * p->out_stride + j] = ((const float *)p->x)[j * p->x_stride + i];
}

static void update(const foci_muon_pass *p, int64_t first, int64_t count)
{
    const foci_muon_args *a = p->args;
    for (int64_t n = first; n < first + count; n++) {
        const double w = (double)a->weights[n], x = (double)((const float *)p->x)[n];
        a->weights[n] = (float)(w - (p->alpha * x + p->beta * w));
        if (a->rounded) a->rounded[n] = foci_bf16_from_float(a->weights[n]);
    }
}

void foci_muon_ref(const void *args, int64_t first, int64_t count)
{
    const foci_muon_pass *p = args;
    switch (p->kind) {
    case FOCI_MUON_MOMENTUM:
        momentum(p, first, count);
        break;
    case FOCI_MUON_MIX:
        mix(p, first, count);
        break;
    case FOCI_MUON_TURN:
        turn(p, first, count);
        break;
    case FOCI_MUON_UPDATE:
        update(p, first, count);
        break;
    }
}
