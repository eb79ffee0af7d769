/* Arbitrary attention calls: shapes, strides, sequences, pages, gates and hand-made key sets with
 * anything in them. A call may fail, with a sentence; it may not crash, and ASan watches that it
 * reads and writes no byte beyond what its shapes say. Bytes of the input become fields; whatever
 * the call is entitled to touch is allocated to the exact size. A call that is entitled to more
 * than a test can afford only has its arguments checked. */
#include "fuzz_reader.h"

#include "focal/focal.h"

enum { MAX_SEQS = 3, MAX_PAGES = 8 };

/* Indices that are mostly plausible: a byte each, below `bound`, sometimes anything. */
static const int32_t *take_indices(reader *r, arena *a, int64_t count, int32_t bound)
{
    int32_t *indices = take_block(a, count, sizeof *indices);
    for (int64_t n = 0; n < count && count <= MAX_ELEMENTS; n++) {
        const uint8_t byte = take(r);
        indices[n] = byte < 250 && bound > 0 ? byte % bound : take_size(r, 8);
    }
    return indices;
}

/* Offsets that mostly ascend from 0 to `end`. */
static const int32_t *take_offsets(reader *r, arena *a, int64_t count, int32_t end)
{
    int32_t *offsets = take_block(a, count, sizeof *offsets);
    for (int64_t n = 0; n < count && count <= MAX_ELEMENTS; n++) {
        const uint8_t byte = take(r);
        const int64_t even = count > 1 ? n * end / (count - 1) : 0;
        offsets[n] = byte < 200 ? (int32_t)even : take_size(r, 8);
    }
    return offsets;
}

static focal_keys take_keys(reader *r, arena *a, const focal_attn_args *args, int32_t T, int32_t S)
{
    focal_keys keys = {.mode = (focal_keys_mode)(take(r) % 8 == 7 ? 9 : take(r) % 2)};
    keys.K = take_size(r, 4);
    keys.routers = take(r) % 4 ? (take(r) % 2 ? 1 : args->G) : take_size(r, 4);
    keys.T = take(r) % 16 ? T : take_size(r, 16);
    keys.S = take(r) % 16 ? S : take_size(r, 16);
    keys.key_stride = take(r) % 16 ? S : take_stride(r, S);
    keys.query_stride = take(r) % 16 ? 2 * (int64_t)T : take_stride(r, T);
    const int64_t groups = times(keys.routers, keys.K);
    keys.key_row = take_indices(r, a, times(keys.routers, keys.key_stride), S);
    keys.key_begin = take_offsets(r, a, groups, S / 2);
    keys.key_end = take_offsets(r, a, groups, S);
    keys.query = take_indices(r, a, times(keys.routers, keys.query_stride), T);
    keys.query_end = take_indices(r, a, times(keys.routers, keys.query_stride), S);
    keys.query_begin = take_offsets(r, a, times(keys.routers, (int64_t)keys.K + 1), T);
    if (take(r) % 2) {
        keys.key_mask_stride = take(r) % 16 ? S : take_stride(r, S);
        keys.query_mask = take_block(a, times(keys.routers, keys.T), sizeof *keys.query_mask);
        keys.key_mask =
            take_block(a, times(keys.routers, keys.key_mask_stride), sizeof *keys.key_mask);
    }
    if (take(r) % 8 == 7) {
        keys.position_stride = take(r) % 16 ? S : take_stride(r, S);
        keys.position_row = take_indices(r, a, times(keys.routers, keys.position_stride), S);
    }
    if (!a->is_covered) keys.K = 0; /* a list is not there in full, so it must not be read */
    return keys;
}

/* Key sets as users make them, from ids that may be wrong. The view lives as long as the set. */
static focal_keyset *take_keyset(reader *r, arena *a, focal_ctx *ctx, const focal_attn_args *args,
                                 focal_keys *view)
{
    const focal_keyset_options options = {.mode = (focal_keys_mode)(take(r) % 2),
                                          .K = take_size(r, 6),
                                          .top = take_size(r, 3),
                                          .routers = take(r) % 2 ? 1 : args->G,
                                          .window = args->window,
                                          .sinks = args->sinks};
    focal_keyset *set = NULL;
    if (times(options.routers, 1) > MAX_ELEMENTS) return NULL;
    if (focal_keyset_new(ctx, &options, &set) != FOCAL_OK) return NULL;
    for (int piece = 0; piece < 3; piece++) {
        const int32_t T = piece == 2 ? args->T : take_size(r, 8);
        const int64_t rows = times(T, options.routers);
        arena own = {.is_covered = true, .contents = a->contents};
        const int32_t *query = take_indices(r, &own, times(rows, options.top), options.K);
        const int32_t *key = take(r) % 16 ? take_indices(r, &own, rows, options.K) : NULL;
        if (own.is_covered) (void)focal_keyset_append(set, T, query, key);
        for (int n = 0; n < own.count; n++) free(own.blocks[n]);
        if (take(r) % 8 == 7) (void)focal_keyset_truncate(set, take_size(r, 8));
    }
    focal_keys_stats stats;
    (void)focal_keyset_stats(set, (take(r) % 8) - 1, &stats);
    *view = focal_keyset_view(set);
    return set;
}

/* Elements of k or v, to the byte. */
static const void *take_kv_block(arena *a, const focal_attn_args *args, int64_t elements)
{
    if (!args->has_q8_keys) return take_block(a, elements, args->dtype == FOCAL_BF16 ? 2 : 4);
    return take_block(a, elements > MAX_ELEMENTS ? elements : elements / 32, 34);
}

/* Where it is a little more than packed, so many blocks more. */
static int64_t take_kv_stride(reader *r, const focal_attn_args *args, int64_t packed)
{
    const int64_t stride = take_stride(r, packed);
    int64_t more;
    if (!args->has_q8_keys || __builtin_sub_overflow(stride, packed, &more)) return stride;
    return more > 0 && more < 4 && packed < MAX_ELEMENTS ? packed + 32 * more : stride;
}

static const void *const *take_pages(arena *a, const focal_attn_args *args, int64_t page_count,
                                     int64_t elements)
{
    const void **pages = take_block(a, page_count, sizeof *pages);
    for (int64_t n = 0; n < page_count && page_count <= MAX_PAGES; n++)
        pages[n] = take_kv_block(a, args, elements);
    return pages;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Rows from 0 to the end of a piece that begins at `first`. */
static int64_t rows_to(int64_t first, int64_t count)
{
    if (count <= 0 || first < 0) return 0;
    return first > MAX_ELEMENTS || count > MAX_ELEMENTS ? MAX_ELEMENTS + 1 : first + count;
}

/* All calls on one set of arguments. */
static void run_calls(reader *r, arena *a, focal_ctx *ctx, const focal_attn_args *args,
                      int64_t q_rows, int64_t k_rows)
{
    (void)take(r); /* once a flag: the corpus counts on its byte */
    (void)focal_attn_kernel_name(ctx, args);
    if (!a->is_covered) return;
    int64_t pairs = 0;
    check_status(ctx, focal_attn_pairs(ctx, args, &pairs));
    if (pairs < 0) abort();
    check_status(ctx, focal_attn_forward(ctx, args));

    const size_t size = args->dtype == FOCAL_BF16 ? 2 : 4;
    const int64_t q_width = times(args->H, args->D), k_width = times(args->G, args->D);
    const int64_t Dv = args->Dv ? args->Dv : args->D;
    const int64_t v_width = times(args->G, Dv), out_width = times(args->H, Dv);
    focal_attn_grads grads = {.dout =
                                  take_block(a, extent(q_rows, args->out_stride, out_width), size),
                              .dq = take_block(a, extent(q_rows, args->q_stride, q_width), size),
                              .dk = take_block(a, extent(k_rows, args->k_stride, k_width), size),
                              .dv = take_block(a, extent(k_rows, args->v_stride, v_width), size)};
    if (args->gate) {
        const int64_t wide = times(args->gate->routers, args->gate->K);
        grads.dgq = take_block(a, times(q_rows, wide), sizeof(float));
        grads.dgk = take_block(a, times(k_rows, wide), sizeof(float));
    }
    if (a->is_covered) check_status(ctx, focal_attn_backward(ctx, args, &grads));
}

static void fuzz_call(reader *r, arena *a, focal_ctx *ctx)
{
    focal_attn_args args = {.dtype = (focal_dtype)(take(r) % 16 == 15 ? 5 : take(r) % 2)};
    args.T = take_size(r, 24);
    args.S = take(r) % 2 ? args.T : take_size(r, 40);
    args.G = take_size(r, 3);
    args.H = take(r) % 8 ? (int32_t)times(args.G, 1 + take(r) % 3) : take_size(r, 6);
    args.D = take_size(r, 40);
    args.Dv = take(r) % 2 ? 0 : take_size(r, 40);
    const uint8_t flags = take(r);
    args.is_bidirectional = (flags & 7) == 7;
    args.has_window = (flags & 24) != 0;
    args.window = take(r) % 4 ? take(r) % 8 : take_size(r, 64);
    args.sinks = take(r) % 4 ? take(r) % 3 : take_size(r, 8);
    args.softcap = take(r) % 4 ? 0.0F : (float)take_size(r, 50);
    args.page_rows = take_size(r, 16);
    args.has_q8_keys = (flags & 96) == 96;
    if (args.has_q8_keys && (flags & 128) == 0) { /* widths that it takes, mostly */
        args.D = args.D > 0 && args.D < 256 ? 32 * (1 + args.D % 3) : args.D;
        args.Dv = args.Dv > 0 && args.Dv < 256 ? 32 * (1 + args.Dv % 3) : args.Dv;
    }

    const size_t size = args.dtype == FOCAL_BF16 ? 2 : 4;
    const int64_t Dv = args.Dv ? args.Dv : args.D;
    const int64_t q_width = times(args.H, args.D), k_width = times(args.G, args.D);
    const int64_t v_width = times(args.G, Dv), out_width = times(args.H, Dv);
    args.q_stride = take_stride(r, q_width);
    args.k_stride = take_kv_stride(r, &args, k_width);
    args.v_stride = take_kv_stride(r, &args, v_width);
    args.out_stride = take_stride(r, out_width);

    int64_t q_rows = args.T, k_rows = args.S;
    focal_keys keys[MAX_SEQS];
    focal_attn_seq seqs[MAX_SEQS] = {{0}};
    const uint8_t shape = take(r);
    if (shape % 4 == 0) {
        args.seq_count = shape % 32 == 28 ? -1 : 1 + take(r) % MAX_SEQS;
        args.seqs = seqs;
        q_rows = k_rows = 0;
    }
    for (int32_t n = 0; n < args.seq_count; n++) {
        focal_attn_seq *seq = &seqs[n];
        seq->T = take_size(r, 12);
        seq->S = take(r) % 2 ? seq->T : take_size(r, 24);
        seq->q_row = take(r) % 8 ? q_rows : take_stride(r, 8);
        seq->k_row = take(r) % 8 ? k_rows : take_stride(r, 8);
        if (take(r) % 4 == 3) {
            seq->page_count = take(r) % MAX_PAGES;
            seq->k_pages = take_pages(a, &args, seq->page_count,
                                      extent(args.page_rows, args.k_stride, k_width));
            seq->v_pages = take_pages(a, &args, seq->page_count,
                                      extent(args.page_rows, args.v_stride, v_width));
        }
        q_rows = larger(q_rows, rows_to(seq->q_row, seq->T));
        k_rows = larger(k_rows, rows_to(seq->k_row, seq->S));
        if (take(r) % 2) {
            keys[n] = take_keys(r, a, &args, seq->T, seq->S);
            seq->keys = &keys[n];
        }
    }

    focal_keyset *set = NULL;
    if (args.seq_count == 0 && shape % 4 == 1) {
        keys[0] = take_keys(r, a, &args, args.T, args.S);
        args.keys = &keys[0];
    } else if (args.seq_count == 0 && shape % 4 == 2) {
        set = take_keyset(r, a, ctx, &args, &keys[0]);
        if (set) args.keys = &keys[0];
    }
    focal_attn_gate gate = {0};
    if (take(r) % 4 == 3) {
        gate.kind = (focal_gate_kind)(take(r) % 6);
        gate.K = args.keys ? args.keys->K : take_size(r, 5);
        gate.routers = take(r) % 2 ? 1 : args.G;
        gate.gq = take_block(a, times(q_rows, times(gate.routers, gate.K)), sizeof(float));
        gate.gk = take_block(a, times(k_rows, times(gate.routers, gate.K)), sizeof(float));
        args.gate = &gate;
    }

    args.q = take_block(a, extent(q_rows, args.q_stride, q_width), size);
    args.k = take_kv_block(a, &args, extent(k_rows, args.k_stride, k_width));
    args.v = take_kv_block(a, &args, extent(k_rows, args.v_stride, v_width));
    args.out = take_block(a, extent(q_rows, args.out_stride, out_width), size);
    if (take(r) % 4) args.lse = take_block(a, times(q_rows, args.H), sizeof(float));
    switch (take(r)) { /* a missing tensor */
    case 251:
        args.q = NULL;
        break;
    case 252:
        args.k = NULL;
        break;
    case 253:
        args.v = NULL;
        break;
    case 254:
        args.out = NULL;
        break;
    default:
        break;
    }
    run_calls(r, a, ctx, &args, q_rows, k_rows);
    focal_keyset_free(set);
}

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reader r = {.data = data, .size = size};
    focal_ctx *ctx = take_ctx(&r);
    arena a = {.is_covered = true, .contents = &r};
    fuzz_call(&r, &a, ctx);
    for (int n = 0; n < a.count; n++) free(a.blocks[n]);
    return 0;
}
