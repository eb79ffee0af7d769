/* Rows of a profile, by name, in the order in which the names first came. */
#include "base/profile.h"

#include <string.h>
#include <time.h>

#include "base/ctx.h"
#include "base/error.h"

enum { MAX_ROWS = 32 };

struct foci_profile {
    bool is_on;
    int32_t row_count;
    focal_profile_row rows[MAX_ROWS];
};

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

focal_status focal_profile_start(focal_ctx *ctx)
{
    if (!ctx) return FOCAL_EINVAL;
    foci_profile **place = foci_ctx_profile(ctx);
    if (!*place) *place = foci_alloc(ctx, 1, sizeof **place);
    if (!*place) return FOCAL_ENOMEM;
    memset(*place, 0, sizeof **place);
    (*place)->is_on = true;
    return FOCAL_OK;
}

void focal_profile_stop(focal_ctx *ctx)
{
    foci_profile *profile = *foci_ctx_profile(ctx);
    if (profile) profile->is_on = false;
}

int32_t focal_profile_rows(focal_ctx *ctx, const focal_profile_row **rows)
{
    const foci_profile *profile = *foci_ctx_profile(ctx);
    *rows = profile ? profile->rows : NULL;
    return profile ? profile->row_count : 0;
}

bool foci_profile_is_on(focal_ctx *ctx)
{
    const foci_profile *profile = *foci_ctx_profile(ctx);
    return profile && profile->is_on;
}

double foci_profile_begin(focal_ctx *ctx)
{
    return foci_profile_is_on(ctx) ? seconds_now() : 0.0;
}

void foci_profile_end(focal_ctx *ctx, const char *name, double begin, foci_cost cost)
{
    if (!foci_profile_is_on(ctx)) return;
    foci_profile *profile = *foci_ctx_profile(ctx);
    const double seconds = seconds_now() - begin;
    int32_t n = 0;
    while (n < profile->row_count && strcmp(profile->rows[n].name, name) != 0) n++;
    if (n == MAX_ROWS) return;
    focal_profile_row *row = &profile->rows[n];
    if (n == profile->row_count) {
        profile->row_count++;
        row->name = name;
    }
    row->calls++;
    row->seconds += seconds;
    row->flops += cost.flops;
    row->bytes += cost.bytes;
}
