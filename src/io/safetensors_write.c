/* Writing safetensors: tensors are declared, cut into files in that order, and streamed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "io/file.h"
#include "io/names.h"
#include "io/safetensors.h"

enum { HEADER_ALIGNMENT = 8, MAX_SHARDS = 4096, SUFFIX_ROOM = 32 };

static const char ending[] = ".safetensors";

typedef struct declared {
    foci_tensor tensor;
    char *name; /* ours; the tensor's is the same */
} declared;

struct foci_safetensors_writer {
    focal_ctx *ctx;
    declared *list; /* (count) */
    int64_t count, capacity;
    char **texts; /* (2 text_count) keys and values of the metadata by turns */
    int64_t text_count;
};

/* What goes where: file n has the tensors order[start[n]] to order[start[n + 1] - 1]. */
typedef struct plan {
    int64_t *order; /* (count) */
    int64_t *start; /* (shard_count + 1) */
    int64_t shard_count;
    char *path; /* of the file at hand */
    const char *whole_path;
    foci_tensor_fill fill;
    void *user;
} plan;

/* Text on its way into a file, or, without one, only measured. */
typedef struct sink {
    foci_writer *file;
    size_t bytes;
} sink;

focal_status foci_safetensors_writer_new(focal_ctx *ctx, foci_safetensors_writer **out)
{
    *out = foci_alloc(ctx, 1, sizeof **out);
    if (!*out) return FOCAL_ENOMEM;
    **out = (foci_safetensors_writer){.ctx = ctx};
    return FOCAL_OK;
}

void foci_safetensors_writer_free(foci_safetensors_writer *writer)
{
    if (!writer) return;
    for (int64_t n = 0; n < writer->count; n++) foci_free(writer->ctx, writer->list[n].name);
    for (int64_t n = 0; n < 2 * writer->text_count; n++) foci_free(writer->ctx, writer->texts[n]);
    foci_free(writer->ctx, writer->texts);
    foci_free(writer->ctx, writer->list);
    foci_free(writer->ctx, writer);
}

static const char *type_name(focal_dtype dtype)
{
    switch (dtype) {
    case FOCAL_F32:
        return "F32";
    case FOCAL_F16:
        return "F16";
    case FOCAL_BF16:
        return "BF16";
    default:
        return NULL;
    }
}

static focal_status check_tensor(focal_ctx *ctx, const foci_tensor *t)
{
    const size_t length = t->name ? strlen(t->name) : 0;
    bool is_name = foci_safetensors_is_name(t->name, length);
    /* Files of others have plain names, and so no encoding can go wrong here. */
    for (size_t n = 0; is_name && n < length; n++) is_name = (unsigned char)t->name[n] < 0x80;
    if (!is_name)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "safetensors: a name must have 1 to 256 printable ASCII characters");
    if (!type_name(t->dtype))
        return foci_fail(ctx, FOCAL_EINVAL, "safetensors: tensor '%s' is %s, not f32, f16 or bf16",
                         t->name, focal_dtype_name(t->dtype));
    size_t bytes = focal_dtype_bytes(t->dtype);
    bool fits = t->dims >= 1 && t->dims <= FOCI_TENSOR_DIMS;
    for (int32_t n = 0; fits && n < t->dims; n++)
        fits = t->shape[n] > 0 && foci_size_mul(bytes, (size_t)t->shape[n], &bytes);
    if (!fits || bytes != t->bytes)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "safetensors: tensor '%s' has %zu bytes, its shape gives another number",
                         t->name, t->bytes);
    return FOCAL_OK;
}

focal_status foci_safetensors_put_tensor(foci_safetensors_writer *writer, const foci_tensor *tensor)
{
    focal_ctx *ctx = writer->ctx;
    FOCAL_TRY(check_tensor(ctx, tensor));
    if (writer->count == writer->capacity) {
        const int64_t capacity = writer->capacity > 0 ? 2 * writer->capacity : 64;
        declared *grown = foci_alloc(ctx, (size_t)capacity, sizeof *grown);
        if (!grown) return FOCAL_ENOMEM;
        if (writer->count > 0) memcpy(grown, writer->list, (size_t)writer->count * sizeof *grown);
        foci_free(ctx, writer->list);
        writer->list = grown;
        writer->capacity = capacity;
    }
    char *name = foci_alloc(ctx, strlen(tensor->name) + 1, 1);
    if (!name) return FOCAL_ENOMEM;
    memcpy(name, tensor->name, strlen(tensor->name) + 1);
    writer->list[writer->count] = (declared){*tensor, name};
    writer->list[writer->count++].tensor.name = name;
    return FOCAL_OK;
}

static char *copy_of(focal_ctx *ctx, const char *text)
{
    char *copy = foci_alloc(ctx, strlen(text) + 1, 1);
    if (copy) memcpy(copy, text, strlen(text) + 1);
    return copy;
}

focal_status foci_safetensors_put_text(foci_safetensors_writer *writer, const char *key,
                                       const char *text)
{
    focal_ctx *ctx = writer->ctx;
    const int64_t used = 2 * writer->text_count;
    if (!foci_text_is_plain(foci_text_of(key)) || !foci_text_is_plain(foci_text_of(text)))
        return foci_fail(ctx, FOCAL_EINVAL, "safetensors: metadata must be plain text of one line");
    char **grown = foci_alloc(ctx, (size_t)used + 2, sizeof *grown);
    char *key_copy = copy_of(ctx, key), *text_copy = copy_of(ctx, text);
    if (!grown || !key_copy || !text_copy) {
        foci_free(ctx, grown);
        foci_free(ctx, key_copy);
        foci_free(ctx, text_copy);
        return FOCAL_ENOMEM;
    }
    for (int64_t n = 0; n < used; n++) grown[n] = writer->texts[n];
    grown[used] = key_copy;
    grown[used + 1] = text_copy;
    foci_free(ctx, writer->texts);
    writer->texts = grown;
    writer->text_count++;
    return FOCAL_OK;
}

static void put_bytes(sink *s, const char *text, size_t bytes)
{
    s->bytes += bytes;
    if (s->file) foci_writer_put(s->file, text, bytes);
}

static void put_text(sink *s, const char *text)
{
    put_bytes(s, text, strlen(text));
}

static void put_number(sink *s, uint64_t number)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%" PRIu64, number);
    put_text(s, digits);
}

/* A string with its quotes; names have no control characters. */
static void put_string(sink *s, const char *text)
{
    put_text(s, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') put_text(s, "\\");
        put_bytes(s, text, 1);
    }
    put_text(s, "\"");
}

static void put_header(const foci_safetensors_writer *w, const plan *p, int64_t shard, sink *s)
{
    uint64_t offset = 0;
    put_text(s, "{\"__metadata__\":{\"format\":\"pt\"");
    for (int64_t n = 0; n < w->text_count; n++) {
        put_text(s, ",");
        put_string(s, w->texts[2 * n]);
        put_text(s, ":");
        put_string(s, w->texts[2 * n + 1]);
    }
    put_text(s, "}");
    for (int64_t n = p->start[shard]; n < p->start[shard + 1]; n++) {
        const foci_tensor *t = &w->list[p->order[n]].tensor;
        put_text(s, ",");
        put_string(s, t->name);
        put_text(s, ":{\"dtype\":\"");
        put_text(s, type_name(t->dtype));
        put_text(s, "\",\"shape\":[");
        for (int32_t d = 0; d < t->dims; d++) {
            if (d > 0) put_text(s, ",");
            put_number(s, (uint64_t)t->shape[d]);
        }
        put_text(s, "],\"data_offsets\":[");
        put_number(s, offset);
        put_text(s, ",");
        offset += t->bytes;
        put_number(s, offset);
        put_text(s, "]}");
    }
    put_text(s, "}");
    while (s->bytes % HEADER_ALIGNMENT != 0) put_text(s, " ");
}

static focal_status put_data(const foci_safetensors_writer *w, const plan *p, int64_t shard,
                             foci_writer *file)
{
    for (int64_t n = p->start[shard]; n < p->start[shard + 1]; n++) {
        const foci_tensor *t = &w->list[p->order[n]].tensor;
        const void *data = t->data;
        if (p->fill) FOCAL_TRY(p->fill(p->user, p->order[n], &data));
        if (!data)
            return foci_fail(w->ctx, FOCAL_EINVAL, "safetensors: tensor '%s' has no data", t->name);
        foci_writer_put(file, data, t->bytes);
        FOCAL_TRY(foci_writer_status(file)); /* the other tensors need not be made */
    }
    return FOCAL_OK;
}

/* p->path becomes the name of file `shard`. */
static void name_shard(const plan *p, int64_t shard)
{
    const size_t whole = strlen(p->whole_path), stem = whole - (sizeof ending - 1);
    if (p->shard_count == 1)
        memcpy(p->path, p->whole_path, whole + 1);
    else
        (void)snprintf(p->path, whole + SUFFIX_ROOM, "%.*s-%05d-of-%05d%s", (int)stem,
                       p->whole_path, (int)shard + 1, (int)p->shard_count, ending);
}

static focal_status write_shard(const foci_safetensors_writer *w, const plan *p, int64_t shard)
{
    foci_writer *file = NULL;
    name_shard(p, shard);
    FOCAL_TRY(foci_writer_open(w->ctx, p->path, &file));
    sink measure = {.file = NULL};
    put_header(w, p, shard, &measure);
    uint8_t length[8];
    for (int n = 0; n < 8; n++) length[n] = (uint8_t)((uint64_t)measure.bytes >> (8 * n));
    foci_writer_put(file, length, sizeof length);
    put_header(w, p, shard, &(sink){.file = file});
    const focal_status status = put_data(w, p, shard, file);
    if (status == FOCAL_OK) return foci_writer_commit(file);
    foci_writer_abandon(file);
    return status;
}

static focal_status write_index(const foci_safetensors_writer *w, const plan *p)
{
    foci_writer *file = NULL;
    uint64_t total = 0;
    for (int64_t n = 0; n < w->count; n++) total += w->list[n].tensor.bytes;
    (void)snprintf(p->path, strlen(p->whole_path) + SUFFIX_ROOM, "%s.index.json", p->whole_path);
    FOCAL_TRY(foci_writer_open(w->ctx, p->path, &file));
    sink s = {.file = file};
    put_text(&s, "{\n  \"metadata\": {\n    \"total_size\": ");
    put_number(&s, total);
    put_text(&s, "\n  },\n  \"weight_map\": {");
    for (int64_t shard = 0; shard < p->shard_count; shard++) {
        name_shard(p, shard);
        const char *slash = strrchr(p->path, '/');
        for (int64_t n = p->start[shard]; n < p->start[shard + 1]; n++) {
            put_text(&s, n > 0 ? ",\n    " : "\n    ");
            put_string(&s, w->list[p->order[n]].name);
            put_text(&s, ": ");
            put_string(&s, slash ? slash + 1 : p->path);
        }
    }
    put_text(&s, "\n  }\n}\n");
    return foci_writer_commit(file);
}

static focal_status write_files(const foci_safetensors_writer *w, const plan *p)
{
    focal_status status = FOCAL_OK;
    int64_t written = 0;
    while (written < p->shard_count && status == FOCAL_OK) {
        status = write_shard(w, p, written);
        if (status == FOCAL_OK) written++;
    }
    if (status == FOCAL_OK && p->shard_count > 1) status = write_index(w, p);
    while (status != FOCAL_OK && written > 0) { /* a part of a model is worth nothing */
        name_shard(p, --written);
        (void)unlink(p->path);
    }
    return status;
}

/* Cuts the tensors into files in the order of their declaration; start may be NULL to count only.
 * Every file has a tensor, but for the one of a writer without any. */
static int64_t cut_shards(const foci_safetensors_writer *w, size_t limit, int64_t *start)
{
    int64_t shard = 0;
    size_t bytes = 0;
    if (start) start[0] = 0;
    for (int64_t n = 0; n < w->count; n++) {
        const size_t more = w->list[n].tensor.bytes;
        if (bytes > 0 && (more > limit || bytes > limit - more)) {
            bytes = 0;
            shard++;
            if (start) start[shard] = n;
        }
        bytes += more;
    }
    if (start) start[shard + 1] = w->count;
    return shard + 1;
}

/* Wide elements first, so that each tensor begins at a multiple of its elements' width. */
static void order_shards(const foci_safetensors_writer *w, const plan *p)
{
    for (int64_t shard = 0; shard < p->shard_count; shard++) {
        int64_t at = p->start[shard];
        for (int narrow = 0; narrow < 2; narrow++)
            for (int64_t n = p->start[shard]; n < p->start[shard + 1]; n++)
                if ((w->list[n].tensor.dtype != FOCAL_F32) == (narrow == 1)) p->order[at++] = n;
    }
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static focal_status check_distinct(const foci_safetensors_writer *w)
{
    const char **names = foci_alloc(w->ctx, (size_t)w->count, sizeof *names);
    if (!names) return FOCAL_ENOMEM;
    for (int64_t n = 0; n < w->count; n++) names[n] = w->list[n].name;
    qsort(names, (size_t)w->count, sizeof *names, compare_names);
    focal_status status = FOCAL_OK;
    for (int64_t n = 1; n < w->count && status == FOCAL_OK; n++)
        if (strcmp(names[n - 1], names[n]) == 0)
            status = foci_fail(w->ctx, FOCAL_EINVAL, "safetensors: two tensors have the name '%s'",
                               names[n]);
    foci_free(w->ctx, (void *)names);
    return status;
}

/* Readers take one file before an index, so what is there of the other kind would be read in place
 * of what comes, or beside it. */
static focal_status check_place(const foci_safetensors_writer *w, const plan *p)
{
    (void)snprintf(p->path, strlen(p->whole_path) + SUFFIX_ROOM, "%s%s", p->whole_path,
                   p->shard_count > 1 ? "" : ".index.json");
    if (access(p->path, F_OK) != 0) return FOCAL_OK;
    return foci_fail(w->ctx, FOCAL_EINVAL,
                     "%s: is there already, and would be read for what is written", p->path);
}

focal_status foci_safetensors_writer_commit(foci_safetensors_writer *writer, const char *path,
                                            size_t shard_bytes, foci_tensor_fill fill, void *user)
{
    focal_ctx *ctx = writer->ctx;
    const size_t length = strlen(path), tail = sizeof ending - 1;
    if (length <= tail || strcmp(path + length - tail, ending) != 0)
        return foci_fail(ctx, FOCAL_EINVAL, "%s: the name must end in %s", path, ending);
    if (shard_bytes == 0) shard_bytes = (size_t)FOCI_SAFETENSORS_SHARD_MB * 1000000;
    FOCAL_TRY(check_distinct(writer));
    plan p = {.shard_count = cut_shards(writer, shard_bytes, NULL),
              .whole_path = path,
              .fill = fill,
              .user = user};
    if (p.shard_count > MAX_SHARDS)
        return foci_fail(ctx, FOCAL_EINVAL, "%s: %" PRId64 " files, at most %d can be", path,
                         p.shard_count, MAX_SHARDS);
    p.order = foci_alloc(ctx, (size_t)writer->count, sizeof *p.order);
    p.start = foci_alloc(ctx, (size_t)p.shard_count + 1, sizeof *p.start);
    p.path = foci_alloc(ctx, length + SUFFIX_ROOM, 1);
    focal_status status = p.order && p.start && p.path ? FOCAL_OK : FOCAL_ENOMEM;
    if (status == FOCAL_OK) {
        (void)cut_shards(writer, shard_bytes, p.start);
        order_shards(writer, &p);
        status = check_place(writer, &p);
    }
    if (status == FOCAL_OK) status = write_files(writer, &p);
    foci_free(ctx, p.order);
    foci_free(ctx, p.start);
    foci_free(ctx, p.path);
    return status;
}
