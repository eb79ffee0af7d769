/* Walking the golden vectors of losses' gradients and optimisers. */
#include "support/optim_cases.h"

#include <string.h>

#include "support/check.h"

void each_optim_golden(const char *prefix, int count, void *user,
                       void (*check)(const golden_case *c, void *user))
{
    golden *g = golden_open("optim");
    int met = 0;
    for (int n = 0; n < g->case_count; n++) {
        if (strncmp(g->cases[n].name, prefix, strlen(prefix)) != 0) continue;
        check(&g->cases[n], user);
        met++;
    }
    assert_int_equal(met, count);
    golden_close(g);
}
