/* What a group holds: the tokens in which it differs most from the whole text. */
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "eval/group_eval.h"

enum { LEAST_OFTEN = 2 };

typedef struct candidate {
    foci_typical token;
    double weight;
} candidate;

/* Keeps the best, in order; ids come ascending, so that equal ones stay so. */
static void offer(candidate *best, int32_t *count, const candidate *one)
{
    int32_t at = *count;
    while (at > 0 && best[at - 1].weight < one->weight) at--;
    if (at == FOCI_GROUP_TOKENS) return;
    if (*count < FOCI_GROUP_TOKENS) ++*count;
    memmove(best + at + 1, best + at, (size_t)(*count - 1 - at) * sizeof *best);
    best[at] = *one;
}

focal_status foci_typical_tokens(focal_ctx *ctx, const int32_t *ids, const uint64_t *masks,
                                 int64_t count, int32_t V, int32_t K, foci_typical_group *groups)
{
    int64_t *of_token = foci_alloc(ctx, (size_t)V, sizeof *of_token);
    int64_t *in_group = foci_alloc(ctx, (size_t)V, sizeof *in_group);
    const focal_status status = of_token && in_group ? FOCAL_OK : FOCAL_ENOMEM;
    if (status == FOCAL_OK) {
        memset(of_token, 0, (size_t)V * sizeof *of_token);
        for (int64_t n = 0; n < count; n++) of_token[ids[n]]++;
    }
    for (int32_t c = 0; status == FOCAL_OK && c < K; c++) {
        candidate best[FOCI_GROUP_TOKENS] = {0};
        int64_t members = 0;
        groups[c].count = 0;
        memset(in_group, 0, (size_t)V * sizeof *in_group);
        for (int64_t n = 0; n < count; n++)
            if (masks[n] >> c & 1U) {
                in_group[ids[n]]++;
                members++;
            }
        for (int32_t v = 0; v < V; v++) {
            if (in_group[v] < LEAST_OFTEN) continue;
            const double here = (double)in_group[v] / (double)members;
            const double overall = (double)of_token[v] / (double)count;
            const candidate one = {{v, in_group[v], of_token[v]}, here * log(here / overall)};
            if (one.weight > 0.0) offer(best, &groups[c].count, &one);
        }
        for (int32_t n = 0; n < groups[c].count; n++) groups[c].tokens[n] = best[n].token;
    }
    foci_free(ctx, of_token);
    foci_free(ctx, in_group);
    return status;
}
