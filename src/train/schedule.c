/* Learning rates by step. */
#include "train/schedule.h"

#include <math.h>

#include "base/error.h"

static const double pi = 3.14159265358979323846;

focal_status foci_schedule_check(focal_ctx *ctx, const foci_schedule *s)
{
    if (!s) return foci_fail(ctx, FOCAL_EINVAL, "schedule: none given");
    if (s->kind < FOCI_SCHEDULE_CONSTANT || s->kind > FOCI_SCHEDULE_DECAY)
        return foci_fail(ctx, FOCAL_EINVAL, "schedule: there is no kind %d", (int)s->kind);
    if (!(s->peak > 0.0) || isinf(s->peak))
        return foci_fail(ctx, FOCAL_EINVAL, "schedule: the peak is %g, it must be above 0",
                         s->peak);
    if (!(s->floor >= 0.0 && s->floor <= 1.0))
        return foci_fail(ctx, FOCAL_EINVAL, "schedule: the floor is %g, it must be from 0 to 1",
                         s->floor);
    if (s->steps < (s->kind == FOCI_SCHEDULE_CONSTANT ? 0 : 1))
        return foci_fail(ctx, FOCAL_EINVAL, "schedule: %lld steps, there must be at least 1",
                         (long long)s->steps);
    const bool is_open = s->kind == FOCI_SCHEDULE_CONSTANT && s->steps == 0;
    if (s->warmup_steps < 0 || (!is_open && s->warmup_steps > s->steps))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "schedule: %lld steps of warm-up, they must be from 0 to the %lld of the "
                         "run",
                         (long long)s->warmup_steps, (long long)s->steps);
    if (s->kind == FOCI_SCHEDULE_DECAY &&
        (s->decay_steps < 0 || s->decay_steps > s->steps - s->warmup_steps))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "schedule: %lld steps of decay, they must be from 0 to the %lld behind "
                         "the warm-up",
                         (long long)s->decay_steps, (long long)(s->steps - s->warmup_steps));
    return FOCAL_OK;
}

/* How far the step is from `begin` to the end of the run: 0 to 1. */
static double part_done(int64_t step, int64_t begin, int64_t end)
{
    if (step < begin) return 0.0;
    return step >= end ? 1.0 : (double)(step - begin) / (double)(end - begin);
}

double foci_schedule_rate(const foci_schedule *s, int64_t step)
{
    double gone = 0.0;          /* of the way from the peak to the floor */
    if (step < s->warmup_steps) /* the first step moves already, the last one by the peak */
        return s->peak * ((double)(step + 1) / (double)s->warmup_steps);
    if (s->kind == FOCI_SCHEDULE_COSINE)
        gone = 0.5 * (1.0 - cos(pi * part_done(step, s->warmup_steps, s->steps)));
    else if (s->kind == FOCI_SCHEDULE_DECAY)
        gone = part_done(step, s->steps - s->decay_steps, s->steps);
    return s->peak * (1.0 - (1.0 - s->floor) * gone);
}
