/* Byte strings as a tree, to find which of them begin at a place in a text. */
#ifndef FOCI_TEXT_TRIE_H
#define FOCI_TEXT_TRIE_H

#include "focal/base.h"

typedef struct foci_trie_edge {
    uint64_t key; /* node << 8 | byte; UINT64_MAX: free */
    int32_t child;
} foci_trie_edge;

typedef struct foci_trie {
    focal_ctx *ctx;
    int32_t *value; /* by node: what was added there, or -1 */
    int32_t nodes, node_room;
    int32_t root[256];    /* children of node 0, which most steps ask for; -1: none */
    foci_trie_edge *edge; /* the other children, by open addressing */
    uint64_t edge_mask;
} foci_trie;

/* Room for strings of that many bytes together. All zero is a trie without strings, and free. */
focal_status foci_trie_init(focal_ctx *ctx, size_t bytes, foci_trie *trie);
void foci_trie_free(foci_trie *trie);

/* Adds a string of at least one byte; false when it is there already. */
bool foci_trie_add(foci_trie *trie, const char *text, size_t bytes, int32_t value);

/* The child of a node (0 is the root), or -1. */
static inline int32_t foci_trie_step(const foci_trie *trie, int32_t node, unsigned char byte)
{
    if (node == 0) return trie->root[byte];
    const uint64_t key = (uint64_t)node << 8 | byte;
    uint64_t at = (key * 0x9E3779B97F4A7C15U >> 20) & trie->edge_mask;
    while (trie->edge[at].key != key) {
        if (trie->edge[at].key == UINT64_MAX) return -1;
        at = (at + 1) & trie->edge_mask;
    }
    return trie->edge[at].child;
}

#endif /* FOCI_TEXT_TRIE_H */
