/* Adapters for tests: some of every shape, and files that can be damaged at a place. */
#ifndef FOCAL_TESTS_ADAPTER_FILES_H
#define FOCAL_TESTS_ADAPTER_FILES_H

#include "model/adapter.h"
#include "model/adapter_layout.h"
#include "support/folder.h"

enum { ADAPTER_SHAPES = 9 };
#define ADAPTER_DIGITS "0123456789abcdef" /* fingerprint of all of them */

extern const foci_groups_shape adapter_shapes[ADAPTER_SHAPES];

/* Random numbers of about 2, top 3 or what K allows, window 17 and 2 sinks. */
foci_groups *adapter_groups(focal_ctx *ctx, const foci_groups_shape *shape);
foci_adapter_note adapter_note(focal_dtype dtype);

/* Opens it, or fails the test. */
focal_adapter *adapter_open(focal_ctx *ctx, const char *path);

/* The first shape in a folder of its own. */
folder adapter_write_good(focal_ctx *ctx, focal_dtype dtype);
/* Replaces the first place of a file where `from` stands; the rest moves. */
void adapter_edit(const folder *f, const char *name, const char *from, const char *to);
/* Overwrites bytes of a tensor where they lie. */
void adapter_poke(focal_ctx *ctx, const folder *f, const char *name, size_t offset,
                  const void *bytes, size_t count);

#endif /* FOCAL_TESTS_ADAPTER_FILES_H */
