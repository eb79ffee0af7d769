/* A stretch of a word while its pairs are joined. Ids and ranks stand at the byte where their
 * symbol begins, and a bit a byte says where symbols begin. */
#ifndef FOCI_TEXT_BPE_JOIN_H
#define FOCI_TEXT_BPE_JOIN_H

#include "text/bpe.h"

enum {
    FOCI_BITS = 64,   /* positions that a word of bits covers */
    FOCI_LEVELS = 16, /* of the tree: 16^16 is more than any text */
    FOCI_RECENT = 1 << 16
};

typedef struct foci_symbols {
    const foci_bpe *bpe;
    const char *text;
    size_t bytes;
    int32_t *ids;                  /* (bytes) by position, where a symbol begins */
    uint64_t *starts;              /* a bit a position */
    uint32_t *minima[FOCI_LEVELS]; /* [0]: the rank of the pair that begins at a position */
    int32_t *joined;               /* (bytes) what that pair joins to */
    foci_merge *recent;            /* (FOCI_RECENT) pairs that were looked up, by hash; or NULL */
    size_t counts[FOCI_LEVELS];
    int top;
} foci_symbols;

/* How many uint32_t the tree and `joined` take for `bytes`, and where they are. */
size_t foci_symbols_plan(foci_symbols *w);
void foci_symbols_place(foci_symbols *w, uint32_t *memory);

static inline void foci_put_symbol(foci_symbols *w, size_t at, int32_t id)
{
    w->starts[at / FOCI_BITS] |= (uint64_t)1 << at % FOCI_BITS;
    w->ids[at] = id;
}

/* The first symbol at or behind `at`; the stretch's bytes when there is none. */
size_t foci_start_from(const foci_symbols *w, size_t at);
/* The last symbol before `at`, SIZE_MAX when there is none. */
size_t foci_start_before(const foci_symbols *w, size_t at);

/* Joins the best pair, of equal ones the leftmost, until none is left. */
void foci_symbols_join(foci_symbols *w);

#endif /* FOCI_TEXT_BPE_JOIN_H */
