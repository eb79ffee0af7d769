/* A mapped file copied into memory with large pages, in the place where it was mapped: what points
 * into it stays. Small pages cost a memory-bound loop a third of its speed, and a file's pages are
 * small. */
#include <string.h>
#include <sys/mman.h>

#include "base/ctx.h"
#include "base/pool.h"
#include "io/file.h"

#if defined(__linux__) && defined(MREMAP_FIXED)

typedef struct load_call {
    uint8_t *to, *from; /* pieces of FOCI_LARGE_PAGE: the mapped file's, and new memory */
    bool *has_moved;    /* (pieces) */
} load_call;

/* Piece by piece, so that the file's pages are given back as the new ones fill. */
static void load_piece(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const load_call *call = arg;
    uint8_t *to = call->to + index * FOCI_LARGE_PAGE, *from = call->from + index * FOCI_LARGE_PAGE;
    memcpy(from, to, FOCI_LARGE_PAGE);
    call->has_moved[index] = mremap(from, FOCI_LARGE_PAGE, FOCI_LARGE_PAGE,
                                    MREMAP_MAYMOVE | MREMAP_FIXED, to) == (void *)to;
}

bool foci_map_load(focal_ctx *ctx, const foci_map *map)
{
    const size_t pieces = map->bytes / FOCI_LARGE_PAGE; /* what is left over stays mapped */
    const size_t bytes = pieces * FOCI_LARGE_PAGE;
    if (pieces == 0 || (uintptr_t)map->data % FOCI_LARGE_PAGE != 0) return false;
    load_call call;
    memcpy(&call.to, &map->data, sizeof call.to); /* what mmap() gave, without the const */
    call.has_moved = foci_alloc(ctx, pieces, sizeof *call.has_moved);
    if (!call.has_moved) return false;
    uint8_t *room = mmap(NULL, bytes + FOCI_LARGE_PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool is_loaded = room != MAP_FAILED;
    if (is_loaded) {
        const size_t skip = (0 - (uintptr_t)room) % FOCI_LARGE_PAGE;
        call.from = room + skip;
        foci_use_large_pages(call.from, bytes);
        foci_parallel(ctx, (int64_t)pieces, load_piece, &call);
        for (size_t n = 0; n < pieces; n++) {
            is_loaded &= call.has_moved[n];
            if (!call.has_moved[n]) (void)munmap(call.from + n * FOCI_LARGE_PAGE, FOCI_LARGE_PAGE);
        }
        if (skip > 0) (void)munmap(room, skip);
        (void)munmap(call.from + bytes, FOCI_LARGE_PAGE - skip);
        (void)mprotect(call.to, bytes, PROT_READ);
    }
    foci_free(ctx, call.has_moved);
    return is_loaded;
}

#else

bool foci_map_load(focal_ctx *ctx, const foci_map *map)
{
    (void)ctx;
    (void)map;
    return false;
}

#endif
