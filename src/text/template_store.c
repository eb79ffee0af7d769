/* The store's blocks, each a piece of the context's memory, and text that grows in them. */
#include "text/template_store.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"

enum { BLOCK_BYTES = 1 << 14, ALIGNMENT = 16 };

struct foci_store_block {
    foci_store_block *next;
    _Alignas(ALIGNMENT) char data[];
};

static void *refuse(foci_store *store, focal_status status)
{
    store->status = status;
    if (status == FOCAL_EINVAL)
        (void)foci_fail(store->ctx, status, "template: more than the %zu bytes of memory allowed",
                        store->limit);
    return NULL;
}

static bool add_block(foci_store *store, size_t bytes)
{
    /* Blocks grow with what is there already, so that their number stays small. */
    const size_t usual = store->used / 4 > BLOCK_BYTES ? store->used / 4 : BLOCK_BYTES;
    const size_t room = store->limit - store->used;
    size_t want = bytes > usual ? bytes : usual;
    if (want > room) want = room;
    if (want < bytes) return refuse(store, FOCAL_EINVAL) != NULL;
    foci_store_block *block = foci_alloc(store->ctx, 1, sizeof *block + want);
    if (!block) return refuse(store, FOCAL_ENOMEM) != NULL;
    block->next = store->blocks;
    store->blocks = block;
    store->used += want;
    store->at = block->data;
    store->left = want;
    return true;
}

void *foci_store_alloc(foci_store *store, size_t count, size_t size)
{
    size_t bytes;
    if (!foci_size_mul(count, size, &bytes) || !foci_size_add(bytes, ALIGNMENT - 1, &bytes))
        return refuse(store, FOCAL_EINVAL);
    bytes &= ~(size_t)(ALIGNMENT - 1);
    if ((!store->at || bytes > store->left) && !add_block(store, bytes)) return NULL;
    void *result = store->at;
    store->at += bytes;
    store->left -= bytes;
    return result;
}

void foci_store_free(foci_store *store)
{
    while (store->blocks) {
        foci_store_block *next = store->blocks->next;
        foci_free(store->ctx, store->blocks);
        store->blocks = next;
    }
    store->at = NULL;
    store->left = store->used = 0;
}

foci_chars foci_chars_of(const char *text)
{
    return (foci_chars){text, strlen(text)};
}

bool foci_chars_equal(foci_chars a, foci_chars b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

bool foci_chars_is(foci_chars a, const char *text)
{
    return foci_chars_equal(a, foci_chars_of(text));
}

/* Room for `more` bytes. What lies at the end of its block grows in place. */
static focal_status reserve(foci_builder *b, size_t more)
{
    foci_store *store = b->store;
    if (b->limit && more > b->limit - b->bytes)
        return foci_fail(store->ctx, FOCAL_EINVAL,
                         "template: more than the %zu bytes of output allowed", b->limit);
    if (more <= b->room - b->bytes) return FOCAL_OK;
    size_t want;
    if (!foci_size_add(b->bytes, more, &want)) return FOCAL_EINVAL;
    want = (want + want / 2 + 64) & ~(size_t)(ALIGNMENT - 1);
    if (b->data && b->data + b->room == store->at && want - b->room <= store->left) {
        store->at += want - b->room;
        store->left -= want - b->room;
    } else {
        char *data = foci_store_alloc(store, want, 1);
        if (!data) return foci_store_failed(store);
        if (b->data && b->bytes) memcpy(data, b->data, b->bytes);
        b->data = data;
    }
    b->room = want;
    return FOCAL_OK;
}

focal_status foci_builder_add(foci_builder *builder, const char *data, size_t bytes)
{
    FOCAL_TRY(reserve(builder, bytes));
    if (bytes) memcpy(builder->data + builder->bytes, data, bytes);
    builder->bytes += bytes;
    return FOCAL_OK;
}

focal_status foci_builder_text(foci_builder *builder, const char *text)
{
    return foci_builder_add(builder, text, strlen(text));
}

focal_status foci_builder_fill(foci_builder *builder, char byte, size_t count)
{
    FOCAL_TRY(reserve(builder, count));
    if (count) memset(builder->data + builder->bytes, byte, count);
    builder->bytes += count;
    return FOCAL_OK;
}

foci_chars foci_builder_chars(const foci_builder *builder)
{
    return (foci_chars){builder->data ? builder->data : "", builder->bytes};
}
