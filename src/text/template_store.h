/* Memory of a template or of one render: taken piece by piece, given back all at once, so that no
 * value needs an owner and every error path is a plain return. */
#ifndef FOCI_TEXT_TEMPLATE_STORE_H
#define FOCI_TEXT_TEMPLATE_STORE_H

#include "focal/base.h"

typedef struct foci_store_block foci_store_block;

typedef struct foci_store {
    focal_ctx *ctx;
    foci_store_block *blocks;
    char *at; /* the next free byte of the newest block */
    size_t left;
    size_t used, limit;  /* bytes of all blocks */
    focal_status status; /* why the last request failed */
} foci_store;

/* count * size bytes, aligned for any value; NULL, with status and message set, when there is no
 * memory or the limit is reached. A zero product gives a valid address too. */
void *foci_store_alloc(foci_store *store, size_t count, size_t size);
void foci_store_free(foci_store *store);

/* Why the last request failed: never FOCAL_OK. */
static inline focal_status foci_store_failed(const foci_store *store)
{
    return store->status == FOCAL_OK ? FOCAL_ENOMEM : store->status;
}

/* Bytes in a row. Not NUL-terminated. */
typedef struct foci_chars {
    const char *data;
    size_t bytes;
} foci_chars;

foci_chars foci_chars_of(const char *text); /* of a C string */
bool foci_chars_equal(foci_chars a, foci_chars b);
bool foci_chars_is(foci_chars a, const char *text);

/* Text that grows, inside a store. All zero but for store and limit is empty. */
typedef struct foci_builder {
    foci_store *store;
    char *data;
    size_t bytes, room;
    size_t limit; /* 0: none but the store's */
} foci_builder;

focal_status foci_builder_add(foci_builder *builder, const char *data, size_t bytes);
focal_status foci_builder_text(foci_builder *builder, const char *text);
focal_status foci_builder_fill(foci_builder *builder, char byte, size_t count);
foci_chars foci_builder_chars(const foci_builder *builder);

#endif /* FOCI_TEXT_TEMPLATE_STORE_H */
