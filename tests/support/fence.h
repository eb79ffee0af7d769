/* Memory whose neighbours cannot be read: what reaches outside dies. */
#ifndef FOCAL_TESTS_FENCE_H
#define FOCAL_TESTS_FENCE_H

#include <stdbool.h>
#include <stddef.h>

/* Pages of which only the middle ones may be read: `bytes` lie at their end, or at their beginning.
 */
typedef struct fence {
    char *pages;
    size_t bytes; /* of all */
    char *at;
} fence;

fence fence_new(const void *from, size_t bytes, bool at_end);
void fence_free(fence *f);

#endif /* FOCAL_TESTS_FENCE_H */
