/* Building the tree of byte strings. */
#include "text/trie.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"

focal_status foci_trie_init(focal_ctx *ctx, size_t bytes, foci_trie *trie)
{
    *trie = (foci_trie){.ctx = ctx, .nodes = 1};
    memset(trie->root, 0xFF, sizeof trie->root);
    if (bytes >= INT32_MAX / 4)
        return foci_fail(ctx, FOCAL_EFORMAT, "tokens: %zu bytes are too many for a tree", bytes);
    size_t edges = 64;
    while (edges < 2 * bytes) edges *= 2;
    trie->edge_mask = edges - 1;
    trie->node_room = (int32_t)bytes + 1;
    trie->value = foci_alloc(ctx, bytes + 1, sizeof *trie->value);
    trie->edge = foci_alloc(ctx, edges, sizeof *trie->edge);
    if (!trie->value || !trie->edge) {
        foci_trie_free(trie);
        return FOCAL_ENOMEM;
    }
    for (size_t n = 0; n < edges; n++) trie->edge[n].key = UINT64_MAX;
    trie->value[0] = -1;
    return FOCAL_OK;
}

void foci_trie_free(foci_trie *trie)
{
    if (trie->ctx) {
        foci_free(trie->ctx, trie->value);
        foci_free(trie->ctx, trie->edge);
    }
    *trie = (foci_trie){0};
}

static int32_t new_node(foci_trie *trie, int32_t parent, unsigned char byte)
{
    const int32_t child = trie->nodes++;
    trie->value[child] = -1;
    if (parent == 0) {
        trie->root[byte] = child;
        return child;
    }
    const uint64_t key = (uint64_t)parent << 8 | byte;
    uint64_t at = (key * 0x9E3779B97F4A7C15U >> 20) & trie->edge_mask;
    while (trie->edge[at].key != UINT64_MAX) at = (at + 1) & trie->edge_mask;
    trie->edge[at] = (foci_trie_edge){key, child};
    return child;
}

bool foci_trie_add(foci_trie *trie, const char *text, size_t bytes, int32_t value)
{
    int32_t node = 0;
    for (size_t n = 0; n < bytes; n++) {
        const unsigned char byte = (unsigned char)text[n];
        const int32_t next = foci_trie_step(trie, node, byte);
        node = next >= 0 ? next : new_node(trie, node, byte);
    }
    if (trie->value[node] >= 0) return false;
    trie->value[node] = value;
    return true;
}
