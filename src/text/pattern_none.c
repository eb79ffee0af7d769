/* Stands in for pattern.c where PCRE2 is missing: no pattern can be made. */
#include "text/pattern.h"

#include "base/error.h"

focal_status foci_pattern_new(focal_ctx *ctx, const char *source, size_t bytes, foci_pattern **out)
{
    (void)source;
    (void)bytes;
    *out = NULL;
    return foci_fail(ctx, FOCAL_EUNSUPPORTED,
                     "pattern: this build has no regular expressions (PCRE2)");
}

void foci_pattern_free(foci_pattern *pattern)
{
    (void)pattern;
}

int64_t foci_pattern_work(size_t bytes)
{
    (void)bytes;
    return 0;
}

focal_status foci_pattern_find(focal_ctx *ctx, foci_pattern *pattern, const foci_pattern_text *in,
                               size_t from, size_t *begin, size_t *end)
{
    (void)pattern;
    (void)from;
    *begin = *end = in->bytes;
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "pattern: there is none in this build");
}
