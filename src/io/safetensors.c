/* Reading safetensors: the tensors of all files of a model are gathered in one list, and an index
 * must agree with what its files hold. */
#include "io/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/file.h"
#include "io/json.h"
#include "io/safetensors_part.h"

enum { MAX_INDEX_BYTES = 32000000, MAX_SHARDS = 4096 };

typedef foci_safetensors_entry entry;
typedef foci_safetensors_part part;

/* A name and the entry that has it. */
typedef struct place {
    const char *name;
    int64_t index;
} place;

struct foci_safetensors {
    focal_ctx *ctx;
    char *path;
    part *parts;
    int64_t part_count;
    entry *entries; /* readable ones first */
    int64_t tensor_count, entry_count;
    place *by_name; /* ascending */
};

static int compare_places(const void *a, const void *b)
{
    return strcmp(((const place *)a)->name, ((const place *)b)->name);
}

/* Moves the entries of all parts into one list, readable ones first, and sorts their names. */
static focal_status gather(foci_safetensors *file)
{
    for (int64_t n = 0; n < file->part_count; n++) file->entry_count += file->parts[n].count;
    file->entries = foci_alloc(file->ctx, (size_t)file->entry_count, sizeof *file->entries);
    file->by_name = foci_alloc(file->ctx, (size_t)file->entry_count, sizeof *file->by_name);
    if (!file->entries || !file->by_name) return FOCAL_ENOMEM;
    int64_t count = 0;
    for (int other = 0; other < 2; other++) {
        for (int64_t n = 0; n < file->part_count; n++) {
            for (int64_t i = 0; i < file->parts[n].count; i++) {
                const entry *e = &file->parts[n].entries[i];
                if (e->type->is_readable != (other == 0)) continue;
                file->entries[count] = *e;
                file->entries[count].part = n;
                file->by_name[count] = (place){e->tensor.name, count};
                count++;
            }
        }
        if (other == 0) file->tensor_count = count;
    }
    for (int64_t n = 0; n < file->part_count; n++) {
        foci_free(file->ctx, file->parts[n].entries);
        file->parts[n].entries = NULL;
    }
    qsort(file->by_name, (size_t)count, sizeof *file->by_name, compare_places);
    for (int64_t n = 1; n < count; n++) {
        const place *a = &file->by_name[n - 1], *b = &file->by_name[n];
        if (strcmp(a->name, b->name) == 0)
            return foci_fail(file->ctx, FOCAL_EFORMAT, "%s: tensor '%s' is in %s too",
                             file->parts[file->entries[a->index].part].path, a->name,
                             file->parts[file->entries[b->index].part].path);
    }
    return FOCAL_OK;
}

static const entry *find(const foci_safetensors *file, const char *name)
{
    const place wanted = {.name = name};
    const place *found = bsearch(&wanted, file->by_name, (size_t)file->entry_count,
                                 sizeof *file->by_name, compare_places);
    return found ? &file->entries[found->index] : NULL;
}

static char *copy_text(focal_ctx *ctx, const char *text)
{
    char *copy = foci_alloc(ctx, strlen(text) + 1, 1);
    if (copy) memcpy(copy, text, strlen(text) + 1);
    return copy;
}

static focal_status new_file(focal_ctx *ctx, const char *path, foci_safetensors **out)
{
    foci_safetensors *file = foci_alloc(ctx, 1, sizeof *file);
    if (!file) return FOCAL_ENOMEM;
    *file = (foci_safetensors){.ctx = ctx, .path = copy_text(ctx, path)};
    *out = file;
    return file->path ? FOCAL_OK : FOCAL_ENOMEM;
}

static focal_status new_parts(foci_safetensors *file, int64_t count)
{
    file->parts = foci_alloc(file->ctx, (size_t)count, sizeof *file->parts);
    if (!file->parts) return FOCAL_ENOMEM;
    memset(file->parts, 0, (size_t)count * sizeof *file->parts);
    file->part_count = count;
    return FOCAL_OK;
}

static int compare_shards(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The name of a file beside the index, so that no index reaches beyond its folder or makes us read
 * something that is not safetensors. */
static focal_status check_shard(focal_ctx *ctx, const char *path, const foci_json *value)
{
    static const char ending[] = ".safetensors";
    const char *name = foci_json_string(value);
    const size_t bytes = foci_json_length(value), tail = sizeof ending - 1;
    if (!name)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: weight_map: a file name must be a string", path);
    FOCAL_TRY(foci_safetensors_check_name(ctx, path, name, bytes));
    if (name[0] == '.' || strchr(name, '/') || bytes <= tail ||
        strcmp(name + bytes - tail, ending) != 0)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: weight_map: '%s' is no name of a safetensors file in this folder",
                         path, name);
    return FOCAL_OK;
}

/* The distinct files of the map, ascending, into names, which has room for one a tensor. */
static focal_status list_shards(const foci_safetensors *file, const foci_json *map,
                                const char **names, int64_t *count)
{
    int64_t all = 0;
    for (foci_json_member m = {0}; foci_json_next(map, &m);) {
        FOCAL_TRY(foci_safetensors_check_name(file->ctx, file->path, m.key, m.key_length));
        FOCAL_TRY(check_shard(file->ctx, file->path, m.value));
        names[all++] = foci_json_string(m.value);
    }
    qsort(names, (size_t)all, sizeof *names, compare_shards);
    int64_t distinct = 0;
    for (int64_t n = 0; n < all; n++)
        if (n == 0 || strcmp(names[n], names[distinct - 1]) != 0) names[distinct++] = names[n];
    if (distinct < 1 || distinct > MAX_SHARDS)
        return foci_fail(file->ctx, FOCAL_EFORMAT,
                         "%s: weight_map names %" PRId64 " files, it must be 1 to %d", file->path,
                         distinct, MAX_SHARDS);
    *count = distinct;
    return FOCAL_OK;
}

/* Every tensor that the map names is in the file that it says, and no file has another. */
static focal_status check_map(const foci_safetensors *file, const foci_json *map)
{
    for (foci_json_member m = {0}; foci_json_next(map, &m);) {
        const entry *e = find(file, m.key);
        const char *shard = foci_json_string(m.value);
        const char *at = e ? strrchr(file->parts[e->part].path, '/') + 1 : "";
        if (!e || strcmp(at, shard) != 0)
            return foci_fail(file->ctx, FOCAL_EFORMAT, "%s: tensor '%s' is not in %s", file->path,
                             m.key, shard);
    }
    for (int64_t n = 0; n < file->entry_count; n++) {
        const entry *e = &file->entries[n];
        if (!foci_json_get(map, e->tensor.name))
            return foci_fail(file->ctx, FOCAL_EFORMAT, "%s: tensor '%s' of %s is not in weight_map",
                             file->path, e->tensor.name, file->parts[e->part].path);
    }
    return FOCAL_OK;
}

static focal_status open_part(focal_ctx *ctx, part *p)
{
    if (!p->path) return FOCAL_ENOMEM;
    FOCAL_TRY(foci_map_open(ctx, p->path, &p->map));
    return foci_safetensors_part_read(ctx, p);
}

static focal_status open_shards(foci_safetensors *file, const foci_json *map)
{
    const char *slash = strrchr(file->path, '/');
    const char *folder = slash ? file->path : ".";
    const size_t folder_bytes = slash ? (size_t)(slash - file->path) : 1;
    int64_t count = 0;
    const char **names = foci_alloc(file->ctx, (size_t)foci_json_count(map), sizeof *names);
    if (!names) return FOCAL_ENOMEM;
    focal_status status = list_shards(file, map, names, &count);
    if (status == FOCAL_OK) status = new_parts(file, count);
    for (int64_t n = 0; n < file->part_count && status == FOCAL_OK; n++) {
        file->parts[n].path = foci_path_join(file->ctx, folder, folder_bytes, names[n]);
        status = open_part(file->ctx, &file->parts[n]);
    }
    foci_free(file->ctx, names);
    FOCAL_TRY(status);
    FOCAL_TRY(gather(file));
    return check_map(file, map);
}

static focal_status open_index(foci_safetensors *file)
{
    char *text = NULL;
    size_t bytes = 0;
    foci_json *root = NULL;
    FOCAL_TRY(foci_read_file(file->ctx, file->path, MAX_INDEX_BYTES, &text, &bytes));
    focal_status status = foci_json_parse(file->ctx, file->path, text, bytes, &root);
    foci_free(file->ctx, text);
    FOCAL_TRY(status);
    const foci_json *map = foci_json_get(root, "weight_map");
    status =
        foci_json_is(map, FOCI_JSON_OBJECT)
            ? open_shards(file, map)
            : foci_fail(file->ctx, FOCAL_EFORMAT, "%s: weight_map must be an object", file->path);
    foci_json_free(root);
    return status;
}

static focal_status open_single(foci_safetensors *file)
{
    FOCAL_TRY(new_parts(file, 1));
    file->parts[0].path = copy_text(file->ctx, file->path);
    FOCAL_TRY(open_part(file->ctx, &file->parts[0]));
    return gather(file);
}

static focal_status open_memory(foci_safetensors *file, foci_map map)
{
    FOCAL_TRY(new_parts(file, 1));
    part *p = &file->parts[0];
    p->map = map;
    p->is_borrowed = true;
    p->path = copy_text(file->ctx, file->path);
    if (!p->path) return FOCAL_ENOMEM;
    FOCAL_TRY(foci_safetensors_part_read(file->ctx, p));
    return gather(file);
}

static focal_status finish(foci_safetensors *file, focal_status status, foci_safetensors **out)
{
    if (status == FOCAL_OK)
        *out = file;
    else
        foci_safetensors_close(file);
    return status;
}

focal_status foci_safetensors_open(focal_ctx *ctx, const char *path, foci_safetensors **out)
{
    static const char ending[] = ".index.json";
    const size_t bytes = strlen(path), tail = sizeof ending - 1;
    *out = NULL;
    foci_safetensors *file = NULL;
    const bool is_index = bytes > tail && strcmp(path + bytes - tail, ending) == 0;
    focal_status status = new_file(ctx, path, &file);
    if (status == FOCAL_OK) status = is_index ? open_index(file) : open_single(file);
    return finish(file, status, out);
}

focal_status foci_safetensors_parse(focal_ctx *ctx, const char *what, const void *data,
                                    size_t bytes, foci_safetensors **out)
{
    *out = NULL;
    foci_safetensors *file = NULL;
    focal_status status = new_file(ctx, what, &file);
    if (status == FOCAL_OK) status = open_memory(file, (foci_map){data, bytes});
    return finish(file, status, out);
}

bool foci_safetensors_load(const foci_safetensors *file)
{
    bool is_loaded = true;
    for (int64_t n = 0; n < file->part_count; n++) {
        const foci_safetensors_part *p = &file->parts[n];
        is_loaded &= !p->is_borrowed && foci_map_load(file->ctx, &p->map);
    }
    return is_loaded;
}

void foci_safetensors_close(foci_safetensors *file)
{
    if (!file) return;
    for (int64_t n = 0; n < file->part_count; n++) {
        part *p = &file->parts[n];
        if (!p->is_borrowed) foci_map_close(&p->map);
        foci_free(file->ctx, p->path);
        foci_free(file->ctx, p->names);
        foci_free(file->ctx, p->texts);
        foci_free(file->ctx, p->entries);
    }
    foci_free(file->ctx, file->parts);
    foci_free(file->ctx, file->entries);
    foci_free(file->ctx, file->by_name);
    foci_free(file->ctx, file->path);
    foci_free(file->ctx, file);
}

const char *foci_safetensors_path(const foci_safetensors *file)
{
    return file->path;
}

int64_t foci_safetensors_tensor_count(const foci_safetensors *file)
{
    return file->tensor_count;
}

const foci_tensor *foci_safetensors_tensor_at(const foci_safetensors *file, int64_t index)
{
    return &file->entries[index].tensor;
}

const foci_tensor *foci_safetensors_tensor(const foci_safetensors *file, const char *name)
{
    const entry *e = find(file, name);
    return e && e->type->is_readable ? &e->tensor : NULL;
}

int64_t foci_safetensors_other_count(const foci_safetensors *file)
{
    return file->entry_count - file->tensor_count;
}

foci_safetensors_other foci_safetensors_other_at(const foci_safetensors *file, int64_t index)
{
    const entry *e = &file->entries[file->tensor_count + index];
    return (foci_safetensors_other){e->tensor.name, e->type->name};
}

const char *foci_safetensors_text(const foci_safetensors *file, const char *key)
{
    for (int64_t n = 0; n < file->part_count; n++) {
        const part *p = &file->parts[n];
        for (size_t at = 0; at < p->text_bytes;) {
            const char *found = p->texts + at, *text = found + strlen(found) + 1;
            if (strcmp(found, key) == 0) return text;
            at += strlen(found) + strlen(text) + 2;
        }
    }
    return NULL;
}
