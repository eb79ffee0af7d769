/* What the two directions of a temperature check alike. */
#ifndef FOCI_OPS_TEMPERATURE_TEMPERATURE_CHECK_H
#define FOCI_OPS_TEMPERATURE_TEMPERATURE_CHECK_H

#include "ops/temperature/temperature.h"

/* Checks the call; fills in defaults in both, the bounds and one sequence among them. normal names
 * `kept` as its temperature, and `whole` (2) as its sequence where none were given. */
focal_status foci_temperature_normalise(focal_ctx *ctx, const foci_temperature_args *args,
                                        foci_temperature_args *normal, foci_temperature *kept,
                                        int32_t whole[2]);

static inline bool foci_temperature_has(const foci_temperature *temperature, int64_t head)
{
    return !temperature->heads || temperature->heads[head];
}

static inline bool foci_temperature_reads_h(const foci_temperature *temperature)
{
    return temperature->kind == FOCI_TEMPERATURE_LEARNED ||
           temperature->kind == FOCI_TEMPERATURE_LEARNED_PAPER;
}

#endif /* FOCI_OPS_TEMPERATURE_TEMPERATURE_CHECK_H */
