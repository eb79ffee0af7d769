/* A mapped file copied into memory with large pages, in the place where it was mapped: what points
 * into it stays. Small pages cost a memory-bound loop a third of its speed, and a file's pages are
 * small. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "io/file.h"

/* Where mmap() put it, without the const. */
static uint8_t *base_of(const foci_map *map)
{
    uint8_t *base;
    memcpy(&base, &map->data, sizeof base);
    return base;
}

bool foci_map_set_writable(const foci_map *map, bool is_writable)
{
    return mprotect(base_of(map), map->bytes, is_writable ? PROT_READ | PROT_WRITE : PROT_READ) ==
           0;
}

#if defined(__linux__) && defined(MREMAP_FIXED)

typedef struct load_call {
    uint8_t *to, *from; /* pieces of FOCI_LARGE_PAGE: the mapped file's, and new memory */
    int64_t bytes;
    bool *has_moved; /* (pieces) */
} load_call;

static size_t whole_pages(int64_t bytes)
{
    return (size_t)foci_round_up(bytes, sysconf(_SC_PAGESIZE));
}

/* Bytes of a piece: the last one may be shorter. */
static int64_t piece_bytes(const load_call *call, int64_t index)
{
    return foci_min64(FOCI_LARGE_PAGE, call->bytes - index * FOCI_LARGE_PAGE);
}

/* Piece by piece, so that the file's pages are given back as the new ones fill. */
static void load_piece(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const load_call *call = arg;
    uint8_t *to = call->to + index * FOCI_LARGE_PAGE, *from = call->from + index * FOCI_LARGE_PAGE;
    const int64_t bytes = piece_bytes(call, index);
    const size_t pages = whole_pages(bytes);
    memcpy(from, to, (size_t)bytes);
    call->has_moved[index] =
        mremap(from, pages, pages, MREMAP_MAYMOVE | MREMAP_FIXED, to) == (void *)to;
}

bool foci_map_load(focal_ctx *ctx, const foci_map *map)
{
    const int64_t bytes = (int64_t)map->bytes, pieces = foci_pieces(bytes, FOCI_LARGE_PAGE);
    const size_t room_bytes = (size_t)(pieces + 1) * FOCI_LARGE_PAGE;
    if (pieces == 0) return false;
    if (bytes >= FOCI_LARGE_PAGE && (uintptr_t)map->data % FOCI_LARGE_PAGE != 0) return false;
    load_call call = {.to = base_of(map), .bytes = bytes};
    call.has_moved = foci_alloc(ctx, (size_t)pieces, sizeof *call.has_moved);
    if (!call.has_moved) return false;
    uint8_t *room =
        mmap(NULL, room_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool is_loaded = room != MAP_FAILED;
    if (is_loaded) {
        const size_t skip = (0 - (uintptr_t)room) % FOCI_LARGE_PAGE, used = whole_pages(bytes);
        call.from = room + skip;
        foci_use_large_pages(call.from, (size_t)(bytes / FOCI_LARGE_PAGE) * FOCI_LARGE_PAGE);
        foci_parallel(ctx, pieces, load_piece, &call);
        for (int64_t n = 0; n < pieces; n++) {
            is_loaded &= call.has_moved[n];
            if (!call.has_moved[n])
                (void)munmap(call.from + n * FOCI_LARGE_PAGE, whole_pages(piece_bytes(&call, n)));
        }
        if (skip > 0) (void)munmap(room, skip);
        (void)munmap(call.from + used, room_bytes - skip - used);
        (void)foci_map_set_writable(map, false);
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
