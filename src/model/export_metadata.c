/* What a GGUF file says about a model besides its shapes (general.license, general.languages): the
 * member focal_metadata of an exported config.json, and the way back. transformers keeps members
 * that it does not know. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/gguf.h"
#include "io/json_text.h"
#include "model/export.h"
#include "text/utf8.h"

enum { METADATA_BYTES = 1 << 20 }; /* of all keys and texts; a loader reads 16 MB of config.json */

/* Keys of this kind have no other place. The ones named have, or say what is in that file alone. */
static bool is_kept(foci_text key)
{
    static const char prefix[] = "general.";
    static const char *const others[] = {"general.architecture", "general.type",
                                         "general.name",         "general.file_type",
                                         "general.alignment",    "general.quantization_version"};
    if (key.bytes < sizeof prefix || memcmp(key.data, prefix, sizeof prefix - 1) != 0) return false;
    for (size_t n = 0; n < FOCAL_COUNT(others); n++)
        if (foci_text_equal(key, foci_text_of(others[n]))) return false;
    return true;
}

/* An object on its way into a file. */
typedef struct metadata_writer {
    foci_writer *file;
    size_t bytes; /* of keys and texts so far */
    bool has_any;
} metadata_writer;

static void put_key(metadata_writer *w, const char *key)
{
    foci_json_put(w->file, w->has_any ? ",\n    " : ",\n  \"focal_metadata\": {\n    ");
    foci_json_put_text(w->file, foci_text_of(key));
    foci_json_put(w->file, ": ");
    w->has_any = true;
}

/* Texts that are UTF-8 and, with those before, not too long. */
static bool has_room(metadata_writer *w, const char *key, const foci_text *texts, int64_t count)
{
    size_t bytes = strlen(key);
    for (int64_t n = 0; n < count; n++) {
        if (texts[n].bytes > METADATA_BYTES || bytes > METADATA_BYTES) return false;
        if (foci_utf8_valid(texts[n].data, texts[n].bytes) < texts[n].bytes) return false;
        bytes += texts[n].bytes + 4;
    }
    if (w->bytes + bytes > METADATA_BYTES) return false;
    w->bytes += bytes;
    return true;
}

static focal_status write_texts(metadata_writer *w, foci_gguf *gguf, const char *key, bool is_list)
{
    const foci_text *texts = NULL;
    int64_t count = 0;
    FOCAL_TRY(foci_gguf_get_texts(gguf, key, &texts, &count));
    if (!has_room(w, key, texts, count)) return FOCAL_OK;
    put_key(w, key);
    if (is_list) foci_json_put(w->file, "[");
    for (int64_t n = 0; n < count; n++) {
        if (n > 0) foci_json_put(w->file, ", ");
        foci_json_put_text(w->file, texts[n]);
    }
    if (is_list) foci_json_put(w->file, "]");
    return FOCAL_OK;
}

/* Numbers go back as u32 and f32, whatever they were: readers of these keys take any. */
static focal_status write_value(metadata_writer *w, foci_gguf *gguf, const char *key)
{
    foci_gguf_value value;
    if (!foci_gguf_get_value(gguf, key, &value)) return FOCAL_OK;
    const bool is_list = value.type == FOCI_GGUF_ARRAY;
    if (value.element == FOCI_GGUF_STRING) return write_texts(w, gguf, key, is_list);
    if (is_list || value.type >= FOCI_GGUF_ARRAY || !has_room(w, key, NULL, 0)) return FOCAL_OK;
    if (value.type == FOCI_GGUF_BOOL) {
        bool is_true = false;
        FOCAL_TRY(foci_gguf_get_bool(gguf, key, &is_true));
        put_key(w, key);
        foci_json_put_bool(w->file, is_true);
    } else if (value.type == FOCI_GGUF_F32) {
        double real = 0.0;
        FOCAL_TRY(foci_gguf_get_real(gguf, key, &real));
        put_key(w, key);
        foci_json_put_real(w->file, real);
    } else {
        int64_t number = 0;
        FOCAL_TRY(foci_gguf_get_int(gguf, key, INT32_MIN, UINT32_MAX, &number));
        if (number < 0) return FOCAL_OK;
        put_key(w, key);
        foci_json_put_int(w->file, number);
    }
    return FOCAL_OK;
}

focal_status foci_export_write_metadata(const foci_export *e, foci_writer *file)
{
    foci_gguf *gguf = e->model->gguf;
    metadata_writer w = {.file = file};
    for (int64_t n = 0; gguf && n < foci_gguf_key_count(gguf); n++) {
        char key[FOCI_GGUF_KEY_BYTES + 1];
        const foci_text text = foci_gguf_key(gguf, n);
        if (!is_kept(text)) continue;
        memcpy(key, text.data, text.bytes);
        key[text.bytes] = '\0';
        FOCAL_TRY(write_value(&w, gguf, key));
    }
    if (w.has_any) foci_json_put(file, "\n  }");
    return FOCAL_OK;
}

static focal_status put_list(foci_export *e, foci_gguf_writer *writer, const char *key,
                             const foci_json *list)
{
    const int64_t count = foci_json_count(list);
    foci_text *texts = foci_alloc(e->ctx, (size_t)count, sizeof *texts);
    if (!texts) return FOCAL_ENOMEM;
    focal_status status = FOCAL_OK;
    for (int64_t n = 0; n < count && status == FOCAL_OK; n++) {
        const foci_json *text = foci_json_at(list, n);
        texts[n] = (foci_text){foci_json_string(text), foci_json_length(text)};
        if (!texts[n].data)
            status = foci_fail(e->ctx, FOCAL_EFORMAT,
                               "%s/config.json: focal_metadata: '%s' must hold texts alone",
                               e->model->path, key);
    }
    if (status == FOCAL_OK) status = foci_gguf_put_texts(writer, key, texts, count);
    foci_free(e->ctx, texts);
    return status;
}

static focal_status put_value(foci_export *e, foci_gguf_writer *writer, const char *key,
                              const foci_json *value)
{
    const int64_t number = foci_json_int(value, -1);
    const double real = foci_json_real(value, 0.0);
    switch (foci_json_kind(value)) {
    case FOCI_JSON_STRING:
        return foci_gguf_put_text(writer, key,
                                  (foci_text){foci_json_string(value), foci_json_length(value)});
    case FOCI_JSON_ARRAY:
        return put_list(e, writer, key, value);
    case FOCI_JSON_BOOL:
        return foci_gguf_put_bool(writer, key, foci_json_bool(value, false));
    case FOCI_JSON_REAL:
        if (fabs(real) <= (double)FLT_MAX) return foci_gguf_put_f32(writer, key, (float)real);
        break;
    case FOCI_JSON_INT:
        if (number >= 0 && number <= UINT32_MAX)
            return foci_gguf_put_u32(writer, key, (uint32_t)number);
        break;
    default:
        break;
    }
    return foci_fail(e->ctx, FOCAL_EFORMAT,
                     "%s/config.json: focal_metadata: '%s' must be a text, a list of texts, true, "
                     "false or a number: a float32, or a whole one from 0 to %u",
                     e->model->path, key, UINT32_MAX);
}

focal_status foci_export_put_metadata(foci_export *e, foci_gguf_writer *writer)
{
    const foci_json *metadata = foci_json_get(e->model->dir->config, "focal_metadata");
    foci_json_member member = {0};
    while (foci_json_next(metadata, &member)) {
        const foci_text key = {member.key, member.key_length};
        if (!is_kept(key)) continue;
        if (key.bytes > FOCI_GGUF_KEY_BYTES || !foci_text_is_plain(key))
            return foci_fail(e->ctx, FOCAL_EFORMAT,
                             "%s/config.json: focal_metadata: a key of %zu bytes, at most %d of "
                             "plain text are accepted",
                             e->model->path, key.bytes, FOCI_GGUF_KEY_BYTES);
        FOCAL_TRY(put_value(e, writer, member.key, member.value));
    }
    return FOCAL_OK;
}
