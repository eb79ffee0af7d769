/* Writing shards: ids go out through a buffer, the places of documents are held until the shard
 * ends, and the folder gets its name when all are whole. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "io/file.h"
#include "io/shard_file.h"
#include "io/shards.h"

enum { BUFFERED = 1 << 14, SUFFIX_ROOM = 48 };

struct foci_shard_writer {
    focal_ctx *ctx;
    foci_shard_options options;
    char *folder, *temporary; /* where it goes, where it is now */
    foci_writer *file;        /* NULL: the next id opens a shard */
    foci_shard_header header;
    uint64_t contents;   /* checksum of the shards that are closed */
    uint64_t *documents; /* (FOCI_SHARD_DOCUMENTS) that began in this shard */
    int32_t buffered;
    bool is_wide, has_document, is_pending; /* pending: a document begins with the next id */
    union {
        uint16_t narrow[BUFFERED];
        uint32_t wide[BUFFERED];
    } buffer;
};

static focal_status fail_errno(focal_ctx *ctx, const char *path)
{
    return foci_fail(ctx, FOCAL_EIO, "%s: %s", path, strerror(errno));
}

/* Nothing may be there but an empty folder. */
static focal_status check_folder(focal_ctx *ctx, const char *folder)
{
    DIR *stream = opendir(folder);
    if (!stream) return errno == ENOENT ? FOCAL_OK : fail_errno(ctx, folder);
    const struct dirent *file = readdir(stream);
    while (file && (strcmp(file->d_name, ".") == 0 || strcmp(file->d_name, "..") == 0))
        file = readdir(stream);
    const focal_status status =
        file ? foci_fail(ctx, FOCAL_EINVAL,
                         "%s: is there already and holds '%.64s'; give another "
                         "folder, or an empty one",
                         folder, file->d_name)
             : FOCAL_OK;
    (void)closedir(stream);
    return status;
}

static focal_status check_options(focal_ctx *ctx, const foci_shard_options *o)
{
    if (o->vocab < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "shards: a vocabulary of %d tokens", o->vocab);
    if (o->end < -1 || o->end >= o->vocab)
        return foci_fail(ctx, FOCAL_EINVAL, "shards: end id %d, the vocabulary has %d tokens",
                         o->end, o->vocab);
    if (o->shard_tokens < 0 || o->shard_tokens > FOCI_SHARD_LONGEST)
        return foci_fail(ctx, FOCAL_EINVAL, "shards: %lld tokens a shard, 1 to %d can be",
                         (long long)o->shard_tokens, FOCI_SHARD_LONGEST);
    return FOCAL_OK;
}

static focal_status make_folder(foci_shard_writer *w)
{
    const size_t room = strlen(w->folder) + SUFFIX_ROOM;
    char *path = foci_alloc(w->ctx, room, 1);
    int made = -1;
    if (!path) return FOCAL_ENOMEM;
    for (unsigned n = 0; made != 0 && n < 100; n++) { /* names that others use are skipped */
        (void)snprintf(path, room, "%s.%ld.%u.part", w->folder, (long)getpid(), n);
        made = mkdir(path, 0777);
        if (made != 0 && errno != EEXIST) break;
    }
    if (made != 0) {
        const focal_status status = fail_errno(w->ctx, w->folder);
        foci_free(w->ctx, path);
        return status;
    }
    w->temporary = path;
    return FOCAL_OK;
}

focal_status foci_shard_writer_open(focal_ctx *ctx, const char *folder,
                                    const foci_shard_options *options, foci_shard_writer **out)
{
    *out = NULL;
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/') length--; /* the other name is beside it */
    FOCAL_TRY(check_options(ctx, options));
    FOCAL_TRY(check_folder(ctx, folder));
    foci_shard_writer *w = foci_alloc(ctx, 1, sizeof *w);
    if (!w) return FOCAL_ENOMEM;
    memset(w, 0, sizeof *w);
    w->ctx = ctx;
    w->options = *options;
    if (w->options.shard_tokens == 0) w->options.shard_tokens = FOCI_SHARD_TOKENS;
    w->contents = FOCI_CHECK_BEGIN;
    w->is_wide = options->vocab > UINT16_MAX + 1;
    w->folder = foci_alloc(ctx, length + 1, 1);
    w->documents = foci_alloc(ctx, FOCI_SHARD_DOCUMENTS, sizeof *w->documents);
    focal_status status = w->folder && w->documents ? FOCAL_OK : FOCAL_ENOMEM;
    if (status == FOCAL_OK) {
        memcpy(w->folder, folder, length);
        w->folder[length] = '\0';
        status = make_folder(w);
    }
    if (status != FOCAL_OK) {
        foci_shard_writer_abandon(w);
        return status;
    }
    *out = w;
    return FOCAL_OK;
}

static focal_status open_shard(foci_shard_writer *w)
{
    const foci_shard_header *last = &w->header;
    const bool is_first = last->version == 0;
    char name[FOCI_SHARD_NAME];
    foci_shard_header header = {
        .magic = FOCI_SHARD_MAGIC,
        .version = FOCI_SHARD_VERSION,
        .id_bits = w->is_wide ? 32 : 16,
        .first_token = last->first_token + last->token_count,
        .first_document = last->first_document + last->document_count,
        .index = is_first ? 0 : last->index + 1,
        .vocab = (uint32_t)w->options.vocab,
        .end = w->options.end,
        .fingerprint = w->options.fingerprint,
        .ids_check = FOCI_CHECK_BEGIN,
    };
    if (header.index >= FOCI_SHARDS_MOST)
        return foci_fail(w->ctx, FOCAL_EINVAL, "%s: more than %d shards; make them longer",
                         w->folder, FOCI_SHARDS_MOST);
    (void)snprintf(name, sizeof name, "shard-%05u.tokens", header.index);
    char *path = foci_path_join(w->ctx, w->temporary, strlen(w->temporary), name);
    if (!path) return FOCAL_ENOMEM;
    const focal_status status = foci_writer_open(w->ctx, path, &w->file);
    foci_free(w->ctx, path);
    if (status != FOCAL_OK) return status;
    w->header = header;
    foci_writer_put(w->file, &header, sizeof header); /* its place */
    return FOCAL_OK;
}

/* Writes what is buffered, as whole words but at the shard's end, where zeros fill the last. */
static void flush_ids(foci_shard_writer *w)
{
    const size_t size = w->is_wide ? sizeof(uint32_t) : sizeof(uint16_t);
    const size_t bytes = (size_t)foci_round_up(w->buffered * (int64_t)size, 8);
    memset((char *)&w->buffer + (size_t)w->buffered * size, 0, bytes - (size_t)w->buffered * size);
    w->header.ids_check = foci_check_words(w->header.ids_check, &w->buffer, bytes / 8);
    foci_writer_put(w->file, &w->buffer, bytes);
    w->buffered = 0;
}

static focal_status close_shard(foci_shard_writer *w, bool is_last)
{
    foci_shard_header *header = &w->header;
    flush_ids(w);
    foci_writer_put(w->file, w->documents, header->document_count * sizeof *w->documents);
    header->documents_check =
        foci_check_words(FOCI_CHECK_BEGIN, w->documents, header->document_count);
    header->flags = is_last ? FOCI_SHARD_LAST : 0;
    header->header_check = foci_shard_header_check(header);
    w->contents = foci_check_words(w->contents, &header->header_check, 1);
    foci_writer_replace(w->file, 0, header, sizeof *header);
    foci_writer *file = w->file;
    w->file = NULL;
    return foci_writer_commit(file);
}

const char *foci_shard_writer_folder(const foci_shard_writer *writer)
{
    return writer->temporary;
}

focal_status foci_shard_writer_begin(foci_shard_writer *writer)
{
    writer->is_pending = writer->has_document = true;
    return FOCAL_OK;
}

/* A shard that takes one more id. */
static focal_status make_place(foci_shard_writer *w)
{
    foci_shard_header *header = &w->header;
    const bool is_full = (int64_t)header->token_count == w->options.shard_tokens ||
                         (w->is_pending && header->document_count == FOCI_SHARD_DOCUMENTS);
    if (w->file && is_full) FOCAL_TRY(close_shard(w, false));
    if (!w->file) FOCAL_TRY(open_shard(w));
    if (w->is_pending) w->documents[header->document_count++] = header->token_count;
    w->is_pending = false;
    return FOCAL_OK;
}

focal_status foci_shard_writer_put(foci_shard_writer *writer, const int32_t *ids, int64_t count)
{
    foci_shard_writer *w = writer;
    if (!w->has_document)
        return foci_fail(w->ctx, FOCAL_EINVAL, "shards: ids before the first document");
    for (int64_t n = 0; n < count; n++) {
        if (ids[n] < 0 || ids[n] >= w->options.vocab)
            return foci_fail(w->ctx, FOCAL_EINVAL, "shards: id %d, the vocabulary has %d tokens",
                             ids[n], w->options.vocab);
        if (!w->file || w->is_pending || (int64_t)w->header.token_count == w->options.shard_tokens)
            FOCAL_TRY(make_place(w));
        if (w->is_wide)
            w->buffer.wide[w->buffered++] = (uint32_t)ids[n];
        else
            w->buffer.narrow[w->buffered++] = (uint16_t)ids[n];
        w->header.token_count++;
        if (w->buffered == BUFFERED) flush_ids(w);
    }
    return w->file ? foci_writer_status(w->file) : FOCAL_OK;
}

focal_status foci_shard_writer_finish(foci_shard_writer *writer, foci_shards_info *info)
{
    foci_shard_writer *w = writer;
    const foci_shard_header *header = &w->header;
    focal_status status =
        w->file ? close_shard(w, true)
                : foci_fail(w->ctx, FOCAL_EINVAL, "%s: there is no token to write", w->folder);
    if (status == FOCAL_OK && rename(w->temporary, w->folder) != 0)
        status = fail_errno(w->ctx, w->folder);
    if (status == FOCAL_OK) {
        if (info)
            *info = (foci_shards_info){
                .token_count = (int64_t)(header->first_token + header->token_count),
                .document_count = (int64_t)(header->first_document + header->document_count),
                .shard_count = (int32_t)header->index + 1,
                .vocab = w->options.vocab,
                .end = w->options.end,
                .fingerprint = w->options.fingerprint,
                .contents = w->contents};
        foci_free(w->ctx, w->temporary);
        w->temporary = NULL;
    }
    foci_shard_writer_abandon(w);
    return status;
}

void foci_shard_writer_abandon(foci_shard_writer *writer)
{
    if (!writer) return;
    foci_writer_abandon(writer->file);
    /* By plain calls: this comes after a failure, which may have been of memory. */
    DIR *stream = writer->temporary ? opendir(writer->temporary) : NULL;
    if (stream) {
        for (const struct dirent *file = readdir(stream); file; file = readdir(stream))
            (void)unlinkat(dirfd(stream), file->d_name, 0);
        (void)closedir(stream);
        (void)rmdir(writer->temporary);
    }
    foci_free(writer->ctx, writer->temporary);
    foci_free(writer->ctx, writer->folder);
    foci_free(writer->ctx, writer->documents);
    foci_free(writer->ctx, writer);
}
