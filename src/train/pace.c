/* A run of so many steps has rates that depend on the step alone. A run of so many minutes does not
 * know its steps: there the part of the time that is gone stands for the part of the steps. */
#include "train/pace.h"

#include <math.h>

#include "base/error.h"
#include "base/sizes.h"

enum { TIME_PARTS = 1000000 };

/* Warm-up takes no more of the time than this: the first steps of a large model may be few. */
static const double warmup_part = 0.1;

focal_status foci_pace_open(focal_ctx *ctx, const foci_run *run, foci_pace *pace)
{
    static const foci_schedule_kind kinds[] = {[FOCI_RUN_CONSTANT] = FOCI_SCHEDULE_CONSTANT,
                                               [FOCI_RUN_COSINE] = FOCI_SCHEDULE_COSINE,
                                               [FOCI_RUN_DECAY] = FOCI_SCHEDULE_DECAY};
    const bool is_timed = run->schedule.steps == 0;
    const int64_t parts = is_timed ? TIME_PARTS : run->schedule.steps;
    const int64_t warmup = is_timed ? 0 : run->schedule.warmup;
    const int64_t decay = (int64_t)llround(run->schedule.decay_part * (double)parts);
    *pace = (foci_pace){.schedule = {.kind = kinds[run->schedule.kind],
                                     .peak = run->optimiser.lr,
                                     .floor = run->schedule.floor,
                                     .steps = parts,
                                     .warmup_steps = warmup,
                                     .decay_steps = foci_min64(decay, parts - warmup)},
                        .steps = run->schedule.steps,
                        .limit = 60.0 * run->schedule.minutes,
                        .warmup = run->schedule.warmup};
    return foci_schedule_check(ctx, &pace->schedule);
}

bool foci_pace_is_over(const foci_pace *pace, int64_t step, double seconds)
{
    return (pace->steps == 0 && pace->limit <= 0.0) || /* nothing learns */
           (pace->steps > 0 && step >= pace->steps) ||
           (pace->limit > 0.0 && seconds >= pace->limit);
}

double foci_pace_part(const foci_pace *pace, int64_t step, double seconds)
{
    if (pace->steps > 0) return fmin((double)step / (double)pace->steps, 1.0);
    return fmin(seconds / pace->limit, 1.0);
}

double foci_pace_rate(const foci_pace *pace, int64_t step, double seconds)
{
    if (pace->steps > 0) return foci_schedule_rate(&pace->schedule, step);
    const double gone = fmin(seconds / pace->limit, 1.0);
    const double rate = foci_schedule_rate(&pace->schedule, (int64_t)(gone * TIME_PARTS));
    if (step >= pace->warmup) return rate;
    const double warm = fmax((double)(step + 1) / (double)pace->warmup, gone / warmup_part);
    return rate * fmin(warm, 1.0);
}
