/* Reading shards: each file is mapped and checked, and prefix counts lead from a token or a
 * document to the shard it is in. */
#include "io/shards.h"

#include <stdio.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "io/file.h"
#include "io/shard_file.h"

typedef struct shard {
    foci_map map;
    foci_shard_header header;
    const uint8_t *ids;
    const uint64_t *documents; /* first tokens, counted from the shard's */
} shard;

struct foci_shards {
    focal_ctx *ctx;
    shard *list;
    int32_t count, capacity;
    foci_shards_info info;
};

void foci_shards_close(foci_shards *shards)
{
    if (!shards) return;
    for (int32_t n = 0; n < shards->count; n++) foci_map_close(&shards->list[n].map);
    foci_free(shards->ctx, shards->list);
    foci_free(shards->ctx, shards);
}

static focal_status fail_field(focal_ctx *ctx, const char *path, const char *field, uint64_t value,
                               const char *limit)
{
    return foci_fail(ctx, FOCAL_EFORMAT, "%s: %s is %llu, it must be %s", path, field,
                     (unsigned long long)value, limit);
}

/* What the header alone says. */
static focal_status check_header(focal_ctx *ctx, const char *path, const foci_shard_header *h)
{
    if (memcmp(h->magic, FOCI_SHARD_MAGIC, sizeof h->magic) != 0)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: is no shard of tokens: it does not begin with "
                         "'" FOCI_SHARD_MAGIC "'",
                         path);
    if (h->version != FOCI_SHARD_VERSION)
        return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: version %u, only %d is known", path,
                         h->version, FOCI_SHARD_VERSION);
    if (h->header_check != foci_shard_header_check(h))
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: the checksum of the header is wrong", path);
    if (h->id_bits != 16 && h->id_bits != 32)
        return fail_field(ctx, path, "id_bits", h->id_bits, "16 or 32");
    if (h->token_count < 1 || h->token_count > FOCI_SHARD_LONGEST)
        return fail_field(ctx, path, "token_count", h->token_count, "1 to 2,000,000,000");
    if (h->document_count > h->token_count || h->document_count > FOCI_SHARD_DOCUMENTS)
        return fail_field(ctx, path, "document_count", h->document_count,
                          "at most token_count and 1,048,576");
    if (h->vocab < 1 || h->vocab > INT32_MAX)
        return fail_field(ctx, path, "vocab", h->vocab, "1 to 2,147,483,647");
    if (h->end < -1 || h->end >= (int64_t)h->vocab)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: end is %d, it must be -1 or below vocab, %u",
                         path, h->end, h->vocab);
    if (h->flags > FOCI_SHARD_LAST) return fail_field(ctx, path, "flags", h->flags, "0 or 1");
    for (size_t n = 0; n < FOCAL_COUNT(h->reserved); n++)
        if (h->reserved[n] != 0) return fail_field(ctx, path, "reserved", h->reserved[n], "0");
    return FOCAL_OK;
}

/* What must be as in the shards before. */
static focal_status check_order(const foci_shards *s, const char *path, const foci_shard_header *h)
{
    const foci_shards_info *info = &s->info;
    if (h->index != (uint32_t)s->count)
        return foci_fail(s->ctx, FOCAL_EFORMAT, "%s: is shard %u of its set, by its name %d", path,
                         h->index, s->count);
    if (h->first_token != (uint64_t)info->token_count ||
        h->first_document != (uint64_t)info->document_count)
        return foci_fail(s->ctx, FOCAL_EFORMAT,
                         "%s: begins with token %llu of document %llu, the shards before it have "
                         "%lld tokens and %lld documents",
                         path, (unsigned long long)h->first_token,
                         (unsigned long long)h->first_document, (long long)info->token_count,
                         (long long)info->document_count);
    if (s->count == 0) return FOCAL_OK;
    const foci_shard_header *first = &s->list[0].header;
    if (h->vocab != first->vocab || h->end != first->end || h->fingerprint != first->fingerprint ||
        h->id_bits != first->id_bits)
        return foci_fail(s->ctx, FOCAL_EFORMAT, "%s: was made by another tokenizer than shard 0",
                         path);
    return FOCAL_OK;
}

/* Sizes are small enough by now that nothing here can wrap. */
static focal_status place_parts(const foci_shards *s, const char *path, shard *one)
{
    const foci_shard_header *h = &one->header;
    const size_t ids = (size_t)foci_round_up((int64_t)h->token_count * (h->id_bits / 8), 8);
    const size_t bytes = sizeof *h + ids + 8 * h->document_count;
    if (one->map.bytes != bytes)
        return foci_fail(s->ctx, FOCAL_EFORMAT, "%s: %zu bytes, by its header it has %zu", path,
                         one->map.bytes, bytes);
    one->ids = one->map.data + sizeof *h;
    /* A map begins on a page, and the documents at a multiple of 8. */
    one->documents = (const uint64_t *)(const void *)(one->ids + ids);
    return FOCAL_OK;
}

static focal_status check_documents(const foci_shards *s, const char *path, const shard *one)
{
    const foci_shard_header *h = &one->header;
    if (foci_check_words(FOCI_CHECK_BEGIN, one->documents, h->document_count) != h->documents_check)
        return foci_fail(s->ctx, FOCAL_EFORMAT, "%s: the checksum of the documents is wrong", path);
    for (uint64_t n = 0; n < h->document_count; n++)
        if (one->documents[n] >= h->token_count ||
            (n > 0 && one->documents[n] <= one->documents[n - 1]))
            return foci_fail(s->ctx, FOCAL_EFORMAT,
                             "%s: document %llu begins at token %llu: they must ascend, below %llu",
                             path, (unsigned long long)n, (unsigned long long)one->documents[n],
                             (unsigned long long)h->token_count);
    if (s->count == 0 && (h->document_count == 0 || one->documents[0] != 0))
        return foci_fail(s->ctx, FOCAL_EFORMAT, "%s: no document begins with the first token",
                         path);
    return FOCAL_OK;
}

static uint32_t id_at(const shard *one, uint64_t index)
{
    uint16_t narrow;
    uint32_t wide;
    if (one->header.id_bits == 16) {
        memcpy(&narrow, one->ids + 2 * index, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, one->ids + 4 * index, sizeof wide);
    return wide;
}

static focal_status fail_id(focal_ctx *ctx, uint64_t token, uint32_t id, uint32_t vocab)
{
    return foci_fail(ctx, FOCAL_EFORMAT, "shards: token %llu has id %u, the vocabulary has %u",
                     (unsigned long long)token, id, vocab);
}

static focal_status check_ids(const foci_shards *s, const char *path, const shard *one)
{
    const foci_shard_header *h = &one->header;
    const size_t words = (size_t)((const uint8_t *)one->documents - one->ids) / 8;
    if (foci_check_words(FOCI_CHECK_BEGIN, one->ids, words) != h->ids_check)
        return foci_fail(s->ctx, FOCAL_EFORMAT, "%s: the checksum of the ids is wrong", path);
    for (uint64_t n = 0; n < h->token_count; n++)
        if (id_at(one, n) >= h->vocab)
            return fail_id(s->ctx, h->first_token + n, id_at(one, n), h->vocab);
    return FOCAL_OK;
}

static focal_status open_shard(foci_shards *s, const char *path, bool checks_ids)
{
    shard *one = &s->list[s->count];
    *one = (shard){0};
    FOCAL_TRY(foci_map_open(s->ctx, path, &one->map));
    focal_status status = FOCAL_OK;
    if (one->map.bytes < sizeof one->header)
        status = foci_fail(s->ctx, FOCAL_EFORMAT, "%s: %zu bytes, a shard has %zu or more", path,
                           one->map.bytes, sizeof one->header);
    if (status == FOCAL_OK) {
        memcpy(&one->header, one->map.data, sizeof one->header);
        status = check_header(s->ctx, path, &one->header);
    }
    if (status == FOCAL_OK) status = check_order(s, path, &one->header);
    if (status == FOCAL_OK) status = place_parts(s, path, one);
    if (status == FOCAL_OK) status = check_documents(s, path, one);
    if (status == FOCAL_OK && checks_ids) status = check_ids(s, path, one);
    if (status != FOCAL_OK) {
        foci_map_close(&one->map);
        return status;
    }
    s->count++;
    s->info.contents = foci_check_words(s->info.contents, &one->header.header_check, 1);
    s->info.token_count += (int64_t)one->header.token_count;
    s->info.document_count += (int64_t)one->header.document_count;
    return FOCAL_OK;
}

static focal_status make_room(foci_shards *s)
{
    if (s->count < s->capacity) return FOCAL_OK;
    const int32_t capacity = s->capacity ? 2 * s->capacity : 16;
    shard *list = foci_alloc(s->ctx, (size_t)capacity, sizeof *list);
    if (!list) return FOCAL_ENOMEM;
    if (s->count > 0) memcpy(list, s->list, (size_t)s->count * sizeof *list);
    foci_free(s->ctx, s->list);
    s->list = list;
    s->capacity = capacity;
    return FOCAL_OK;
}

/* Shard after shard until the one that says it is the last. */
static focal_status open_all(foci_shards *s, const char *folder, bool checks_ids)
{
    for (bool is_last = false; !is_last;) {
        char name[FOCI_SHARD_NAME];
        if (s->count == FOCI_SHARDS_MOST)
            return foci_fail(s->ctx, FOCAL_EFORMAT, "%s: more than %d shards", folder,
                             FOCI_SHARDS_MOST);
        FOCAL_TRY(make_room(s));
        (void)snprintf(name, sizeof name, "shard-%05d.tokens", s->count);
        char *path = foci_path_join(s->ctx, folder, strlen(folder), name);
        if (!path) return FOCAL_ENOMEM;
        focal_status status = FOCAL_OK;
        if (s->count > 0 && access(path, F_OK) != 0)
            status = foci_fail(s->ctx, FOCAL_EFORMAT,
                               "%s: is not there, and the shard before it is not the last", path);
        if (status == FOCAL_OK) status = open_shard(s, path, checks_ids);
        foci_free(s->ctx, path);
        if (status != FOCAL_OK) return status;
        is_last = s->list[s->count - 1].header.flags & FOCI_SHARD_LAST;
    }
    return FOCAL_OK;
}

focal_status foci_shards_open(focal_ctx *ctx, const char *folder, bool checks_ids,
                              foci_shards **out)
{
    *out = NULL;
    foci_shards *s = foci_alloc(ctx, 1, sizeof *s);
    if (!s) return FOCAL_ENOMEM;
    *s = (foci_shards){.ctx = ctx, .info.contents = FOCI_CHECK_BEGIN};
    const focal_status status = open_all(s, folder, checks_ids);
    if (status != FOCAL_OK) {
        foci_shards_close(s);
        return status;
    }
    const foci_shard_header *first = &s->list[0].header;
    s->info.shard_count = s->count;
    s->info.vocab = (int32_t)first->vocab;
    s->info.end = first->end;
    s->info.fingerprint = first->fingerprint;
    *out = s;
    return FOCAL_OK;
}

foci_shards_info foci_shards_describe(const foci_shards *shards)
{
    return shards->info;
}

/* The last shard that begins with this token or an earlier one. */
static const shard *shard_of_token(const foci_shards *s, uint64_t token)
{
    int32_t low = 0, high = s->count;
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (s->list[middle].header.first_token <= token)
            low = middle;
        else
            high = middle;
    }
    return &s->list[low];
}

focal_status foci_shards_read(const foci_shards *shards, int64_t begin, int64_t count, int32_t *ids)
{
    const int64_t total = shards->info.token_count;
    if (begin < 0 || count < 0 || begin > total || count > total - begin)
        return foci_fail(shards->ctx, FOCAL_EINVAL,
                         "shards: %lld tokens from token %lld on, there are %lld", (long long)count,
                         (long long)begin, (long long)total);
    while (count > 0) {
        const shard *one = shard_of_token(shards, (uint64_t)begin);
        const uint64_t from = (uint64_t)begin - one->header.first_token;
        const int64_t take = foci_min64(count, (int64_t)(one->header.token_count - from));
        for (int64_t n = 0; n < take; n++) {
            const uint32_t id = id_at(one, from + (uint64_t)n);
            if (id >= one->header.vocab)
                return fail_id(shards->ctx, (uint64_t)(begin + n), id, one->header.vocab);
            ids[n] = (int32_t)id;
        }
        ids += take;
        begin += take;
        count -= take;
    }
    return FOCAL_OK;
}

int64_t foci_shards_document(const foci_shards *shards, int64_t token)
{
    const shard *one = shard_of_token(shards, (uint64_t)token);
    const uint64_t at = (uint64_t)token - one->header.first_token;
    uint64_t low = 0,
             high = one->header.document_count; /* documents before low begin at or before */
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (one->documents[middle] <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return (int64_t)(one->header.first_document + low) - 1;
}

int64_t foci_shards_begin(const foci_shards *shards, int64_t document)
{
    if (document >= shards->info.document_count) return shards->info.token_count;
    int32_t low = 0, high = shards->count;
    while (high - low > 1) { /* the last shard in which this one or an earlier one begins */
        const int32_t middle = low + (high - low) / 2;
        if (shards->list[middle].header.first_document <= (uint64_t)document)
            low = middle;
        else
            high = middle;
    }
    const shard *one = &shards->list[low];
    return (int64_t)(one->header.first_token +
                     one->documents[(uint64_t)document - one->header.first_document]);
}
