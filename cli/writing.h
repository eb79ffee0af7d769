/* Showing what a model reads and writes while it does: a bar for the prompt, text as it comes, one
 * line at the end. */
#ifndef CLI_WRITING_H
#define CLI_WRITING_H

#include "focal/generate.h"

typedef struct writing {
    bool is_quiet;            /* text is kept, not shown */
    const volatile int *stop; /* becomes 1 when the answer is to end; or NULL */
    double started;           /* seconds */
    char *text;               /* all of it, where it is kept; free() */
    size_t bytes, capacity;
    int32_t *ids;
    int64_t id_count, id_capacity;
    bool keeps;     /* text and ids */
    bool is_broken; /* standard output took no more */
} writing;

/* For focal_generate_args; user is a writing. */
bool writing_on_prompt(void *user, int64_t done, int64_t total);
bool writing_on_token(void *user, int32_t id, const char *text, size_t bytes);
void writing_free(writing *w);

/* "prompt 7012 tokens in 12.30 s (570/s), answer 64 tokens in 1.2 s (53/s), stopped: end" */
void writing_summary(const focal_generate_result *result);

double writing_seconds(void); /* a clock */

#endif /* CLI_WRITING_H */
