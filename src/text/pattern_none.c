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

focal_status foci_pattern_find(focal_ctx *ctx, foci_pattern *pattern, const char *text,
                               size_t bytes, size_t from, size_t *begin, size_t *end)
{
    (void)pattern;
    (void)text;
    (void)from;
    *begin = *end = bytes;
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "pattern: there is none in this build");
}
