/* A GGUF model of one part or several: opening, and what is asked of it as a whole. gguf_part.c
 * reads a part, gguf_get.c the values of keys. */
#include "io/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/gguf_part.h"

enum { SUFFIX_BYTES = 20 }; /* of "-00001-of-00003.gguf" */

static const char split_no[] = "split.no";
static const char split_count[] = "split.count";
static const char split_tensors[] = "split.tensors.count";

/* "NAME-00001-of-00003.gguf" for part number (from 1) beside a path of the same form; NULL, with
 * the message set, without memory. */
static char *part_path(focal_ctx *ctx, const char *path, int64_t number, int64_t count)
{
    const size_t bytes = strlen(path) + 1;
    const size_t stem = bytes - 1 - SUFFIX_BYTES;
    char *out = foci_alloc(ctx, bytes, 1);
    if (!out) return NULL;
    memcpy(out, path, stem);
    char suffix[64]; /* numbers are below 100,000: as long as what stands there */
    (void)snprintf(suffix, sizeof suffix, "-%05d-of-%05d.gguf", (int)number, (int)count);
    memcpy(out + stem, suffix, SUFFIX_BYTES);
    out[stem + SUFFIX_BYTES] = '\0';
    return out;
}

static bool has_part_path(const char *path, int64_t number, int64_t count)
{
    char suffix[64];
    (void)snprintf(suffix, sizeof suffix, "-%05d-of-%05d.gguf", (int)number, (int)count);
    const size_t bytes = strlen(path);
    return bytes > SUFFIX_BYTES && strcmp(path + bytes - SUFFIX_BYTES, suffix) == 0;
}

/* Reads part `index` of the model; path is taken over, and may be NULL for want of memory. */
static focal_status read_part(const foci_gguf *gguf, foci_gguf_part *part, char *path,
                              int32_t index)
{
    *part = (foci_gguf_part){.ctx = gguf->ctx, .path = path};
    if (!path) return FOCAL_ENOMEM;
    if (!gguf->given) {
        FOCAL_TRY(foci_map_open(gguf->ctx, path, &part->map));
        part->is_mapped = true;
    } else if (index < gguf->given_count) {
        part->map = gguf->given[index];
    } else {
        return foci_fail(gguf->ctx, FOCAL_EIO, "%s: there are %" PRId32 " parts", path,
                         gguf->given_count);
    }
    return foci_gguf_part_read(part);
}

/* How many parts there are, from the first; a part that is not the first is refused. */
static focal_status count_parts(const foci_gguf_part *part, int64_t *out)
{
    int64_t count = 1, no = 0;
    FOCAL_TRY(foci_gguf_part_int(part, split_count, 0, FOCI_GGUF_PARTS, &count));
    if (count == 0) count = 1; /* some programs write 0 for "not split" */
    FOCAL_TRY(foci_gguf_part_int(part, split_no, 0, count - 1, &no));
    if (no > 0 && has_part_path(part->path, no + 1, count)) {
        char *first = part_path(part->ctx, part->path, 1, count);
        if (!first) return FOCAL_ENOMEM;
        (void)foci_fail(part->ctx, FOCAL_EFORMAT,
                        "%s: part %" PRId64 " of %" PRId64 ", open the first: %s", part->path,
                        no + 1, count, first);
        foci_free(part->ctx, first);
        return FOCAL_EFORMAT;
    }
    if (no > 0)
        return foci_fail(part->ctx, FOCAL_EFORMAT,
                         "%s: part %" PRId64 " of %" PRId64 ", open the first", part->path, no + 1,
                         count);
    if (count > 1 && !has_part_path(part->path, 1, count))
        return foci_fail(part->ctx, FOCAL_EFORMAT,
                         "%s: part 1 of %" PRId64 ", but its name does not end in "
                         "-00001-of-%05d.gguf, so the others cannot be found",
                         part->path, count, (int)count);
    *out = count;
    return FOCAL_OK;
}

static bool values_equal(const foci_gguf_value *a, const foci_gguf_value *b)
{
    return a->type == b->type && a->element == b->element && a->count == b->count &&
           foci_text_equal(a->raw, b->raw);
}

/* A later part must say which it is, and nothing that the first does not say. */
static focal_status check_later_part(const foci_gguf_part *first, const foci_gguf_part *part,
                                     int64_t index)
{
    int64_t no = -1;
    FOCAL_TRY(foci_gguf_part_int(part, split_no, 0, INT64_MAX, &no));
    if (no < 0 || !foci_gguf_part_find(part, split_count))
        return foci_fail(part->ctx, FOCAL_EFORMAT, "%s: not a part: key '%s' is missing",
                         part->path, no < 0 ? split_no : split_count);
    if (no != index)
        return foci_fail(part->ctx, FOCAL_EFORMAT,
                         "%s: key 'split.no' is %" PRId64 ", in this part it must be %" PRId64,
                         part->path, no, index);
    for (int64_t n = 0; n < part->entry_count; n++) {
        const foci_gguf_entry *entry = &part->entries[n];
        if (foci_text_equal(entry->key, foci_text_of(split_no)) ||
            foci_text_equal(entry->key, foci_text_of("general.alignment")))
            continue;
        const int64_t place = foci_names_find(first->keys, first->entry_count, entry->key);
        if (place < 0 || !values_equal(&first->entries[place].value, &entry->value))
            return foci_fail(part->ctx, FOCAL_EFORMAT,
                             "%s: key '%.*s' is not as in the first part: a part of another model",
                             part->path, (int)entry->key.bytes, entry->key.data);
    }
    return FOCAL_OK;
}

/* Takes the split.* keys out of the first part. */
static focal_status hide_split_keys(foci_gguf_part *part)
{
    int64_t kept = 0;
    for (int64_t n = 0; n < part->entry_count; n++) {
        const foci_text key = part->entries[n].key;
        if (foci_text_equal(key, foci_text_of(split_no)) ||
            foci_text_equal(key, foci_text_of(split_count)) ||
            foci_text_equal(key, foci_text_of(split_tensors)))
            continue;
        part->entries[kept++] = part->entries[n];
    }
    if (kept == part->entry_count) return FOCAL_OK;
    part->entry_count = kept;
    return foci_gguf_part_index(part);
}

static char *copy_string(focal_ctx *ctx, const char *string)
{
    const size_t bytes = strlen(string) + 1;
    char *out = foci_alloc(ctx, bytes, 1);
    return out ? memcpy(out, string, bytes) : NULL;
}

static focal_status read_parts(foci_gguf *gguf, const char *path)
{
    focal_ctx *ctx = gguf->ctx;
    foci_gguf_part first;
    int64_t count = 0;
    focal_status status = read_part(gguf, &first, copy_string(ctx, path), 0);
    if (status == FOCAL_OK) status = count_parts(&first, &count);
    if (status == FOCAL_OK) {
        gguf->parts = foci_alloc(ctx, (size_t)count, sizeof *gguf->parts);
        if (!gguf->parts) status = FOCAL_ENOMEM;
    }
    if (status != FOCAL_OK) {
        foci_gguf_part_free(&first);
        return status;
    }
    gguf->parts[0] = first;
    gguf->part_count = 1;
    for (int32_t n = 1; n < count; n++) {
        foci_gguf_part *part = &gguf->parts[gguf->part_count++];
        FOCAL_TRY(read_part(gguf, part, part_path(ctx, path, n + 1, count), n));
        FOCAL_TRY(check_later_part(&gguf->parts[0], part, n));
    }
    return FOCAL_OK;
}

/* One list of the tensors of all parts, and one of their names. */
static focal_status index_tensors(foci_gguf *gguf)
{
    const foci_gguf_part *first = &gguf->parts[0];
    int64_t count = 0, announced = 0;
    for (int32_t p = 0; p < gguf->part_count; p++) count += gguf->parts[p].tensor_count;
    announced = count;
    FOCAL_TRY(foci_gguf_part_int(first, split_tensors, 0, INT64_MAX, &announced));
    if (announced != count)
        return foci_fail(gguf->ctx, FOCAL_EFORMAT,
                         "%s: key 'split.tensors.count' is %" PRId64 ", the file%s %" PRId64
                         " tensors",
                         first->path, announced, gguf->part_count > 1 ? "s have" : " has", count);
    gguf->tensors = foci_alloc(gguf->ctx, (size_t)count, sizeof *gguf->tensors);
    gguf->names = foci_alloc(gguf->ctx, (size_t)count, sizeof *gguf->names);
    if (!gguf->tensors || !gguf->names) return FOCAL_ENOMEM;
    for (int32_t p = 0; p < gguf->part_count; p++) {
        for (int64_t n = 0; n < gguf->parts[p].tensor_count; n++) {
            const foci_tensor *tensor = &gguf->parts[p].tensors[n].tensor;
            const int64_t index = gguf->tensor_count++;
            gguf->tensors[index] = *tensor;
            gguf->names[index] = (foci_name){foci_text_of(tensor->name), index};
        }
    }
    foci_names_sort(gguf->names, count);
    const foci_name *twice = foci_names_repeated(gguf->names, count);
    if (!twice) return FOCAL_OK;
    return foci_fail(gguf->ctx, FOCAL_EFORMAT, "%s: the tensor '%s' stands there twice",
                     first->path, twice->text.data);
}

static focal_status open_model(focal_ctx *ctx, const char *path, const foci_map *given,
                               int32_t given_count, foci_gguf **out)
{
    *out = NULL;
    foci_gguf *gguf = foci_alloc(ctx, 1, sizeof *gguf);
    if (!gguf) return FOCAL_ENOMEM;
    *gguf = (foci_gguf){.ctx = ctx, .given = given, .given_count = given_count};
    focal_status status = read_parts(gguf, path);
    if (status == FOCAL_OK) status = index_tensors(gguf);
    if (status == FOCAL_OK) status = hide_split_keys(&gguf->parts[0]);
    if (status == FOCAL_OK)
        *out = gguf;
    else
        foci_gguf_close(gguf);
    return status;
}

focal_status foci_gguf_open(focal_ctx *ctx, const char *path, foci_gguf **out)
{
    return open_model(ctx, path, NULL, 0, out);
}

focal_status foci_gguf_from_memory(focal_ctx *ctx, const char *path, const foci_map *parts,
                                   int32_t part_count, foci_gguf **out)
{
    return open_model(ctx, path, parts, part_count, out);
}

bool foci_gguf_load(const foci_gguf *gguf)
{
    bool is_loaded = true;
    for (int32_t n = 0; n < gguf->part_count; n++)
        is_loaded &= gguf->parts[n].is_mapped && foci_map_load(gguf->ctx, &gguf->parts[n].map);
    return is_loaded;
}

bool foci_gguf_set_writable(const foci_gguf *gguf, bool is_writable)
{
    bool is_set = true;
    for (int32_t n = 0; n < gguf->part_count; n++)
        is_set &= foci_map_set_writable(&gguf->parts[n].map, is_writable);
    return is_set;
}

void foci_gguf_close(foci_gguf *gguf)
{
    if (!gguf) return;
    for (int32_t n = 0; n < gguf->part_count; n++) foci_gguf_part_free(&gguf->parts[n]);
    foci_free(gguf->ctx, gguf->parts);
    foci_free(gguf->ctx, gguf->tensors);
    foci_free(gguf->ctx, gguf->names);
    foci_free(gguf->ctx, gguf);
}

const char *foci_gguf_path(const foci_gguf *gguf)
{
    return gguf->parts[0].path;
}

int64_t foci_gguf_key_count(const foci_gguf *gguf)
{
    return gguf->parts[0].entry_count;
}

foci_text foci_gguf_key(const foci_gguf *gguf, int64_t index)
{
    return gguf->parts[0].entries[index].key;
}

bool foci_gguf_has(const foci_gguf *gguf, const char *key)
{
    return foci_gguf_part_find(&gguf->parts[0], key) != NULL;
}

bool foci_gguf_get_value(const foci_gguf *gguf, const char *key, foci_gguf_value *out)
{
    const foci_gguf_entry *entry = foci_gguf_part_find(&gguf->parts[0], key);
    if (entry) *out = entry->value;
    return entry != NULL;
}

int64_t foci_gguf_tensor_count(const foci_gguf *gguf)
{
    return gguf->tensor_count;
}

const foci_tensor *foci_gguf_tensor_at(const foci_gguf *gguf, int64_t index)
{
    return &gguf->tensors[index];
}

const foci_tensor *foci_gguf_tensor(const foci_gguf *gguf, const char *name)
{
    const int64_t index = foci_names_find(gguf->names, gguf->tensor_count, foci_text_of(name));
    return index < 0 ? NULL : &gguf->tensors[index];
}
