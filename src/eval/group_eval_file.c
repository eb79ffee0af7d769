/* What was measured of an adapter's groups, as the JSON that reports read (docs/FORMATS.md). */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "eval/group_eval.h"
#include "io/json_text.h"
#include "text/utf8.h"

enum { CUT = 96 }; /* bytes of a text in the file; tokens are shorter, but for rows of spaces */

/* Any bytes in quotes: what is no UTF-8 becomes U+FFFD, as a part of a character does. */
static void put_bytes(foci_writer *to, const char *data, size_t bytes)
{
    char text[CUT + FOCI_UTF8_MOST] = {0};
    size_t used = 0;
    for (size_t n = 0, step; n < bytes && used < CUT; n += step) {
        int32_t character = foci_utf8_decode(data + n, bytes - n, &step);
        if (character < 0) character = 0xFFFD;
        used += foci_utf8_encode(character, text + used);
    }
    foci_json_put_text(to, (foci_text){text, used});
}

static void put_string(foci_writer *to, const char *before, const char *text)
{
    const foci_text all = foci_text_of(text);
    foci_json_put(to, before);
    put_bytes(to, all.data, all.bytes);
}

static void put_int(foci_writer *to, const char *before, int64_t value)
{
    foci_json_put(to, before);
    foci_json_put_int(to, value);
}

static void put_real(foci_writer *to, const char *before, double value)
{
    foci_json_put(to, before);
    if (isnan(value))
        foci_json_put(to, "null");
    else
        foci_json_put_real(to, value);
}

static void put_head(foci_writer *to, const focal_group_eval *e)
{
    char version[32];
    (void)snprintf(version, sizeof version, "%d.%d.%d", FOCAL_VERSION_MAJOR, FOCAL_VERSION_MINOR,
                   FOCAL_VERSION_PATCH);
    put_string(to, "{\n  \"measure\": \"groups\",\n  \"focal\": ", version);
    put_string(to, ",\n  \"model\": ", e->model);
    put_string(to, ",\n  \"fingerprint\": ", e->fingerprint);
    put_string(to, ",\n  \"adapter_checksum\": ", e->adapter_checksum);
    put_string(to, ",\n  \"precision\": ", e->precision);
    put_string(to, ",\n  \"cache_type\": ", e->cache_type);
    put_int(to, ",\n  \"context\": ", e->context);
    put_int(to, ",\n  \"batch\": ", e->batch);
    put_int(to, ",\n  \"rounds\": ", e->rounds);
    put_int(to, ",\n  \"threads\": ", e->threads);
    foci_json_put(to, ",\n  \"texts\": [");
    for (int32_t n = 0; n < e->text_count; n++) {
        put_string(to, n ? ",\n    {\"name\": " : "\n    {\"name\": ", e->names[n]);
        put_int(to, ", \"tokens\": ", e->tokens[n]);
        foci_json_put(to, "}");
    }
    foci_json_put(to, "\n  ]");
}

static void put_settings(foci_writer *to, const focal_group_eval *e)
{
    static const char *const kinds[] = {[FOCAL_GROUP_DENSE] = "dense",
                                        [FOCAL_GROUP_TOP] = "top",
                                        [FOCAL_GROUP_TEMPERATURES] = "temperatures",
                                        [FOCAL_GROUP_ADAPTER] = "adapter"};
    foci_json_put(to, ",\n  \"settings\": [");
    for (int32_t n = 0; n < e->setting_count; n++) {
        const focal_group_setting *s = &e->settings[n];
        put_string(to, n ? ",\n    {\"kind\": " : "\n    {\"kind\": ", kinds[s->kind]);
        if (s->kind == FOCAL_GROUP_TOP) put_int(to, ", \"top\": ", s->top);
        put_real(to, ", \"loss\": ", s->loss);
        put_real(to, ", \"kept\": ", s->kept);
        put_real(to, ", \"tokens_per_second\": ", s->speed);
        for (int32_t text = 0; text < e->text_count; text++)
            put_real(to, text ? ", " : ", \"losses\": [", s->losses[text]);
        foci_json_put(to, "]}");
    }
    foci_json_put(to, "\n  ]");
}

static void put_sizes(foci_writer *to, const focal_group_eval *e)
{
    const char *before = "\n    {\"layer\": ";
    foci_json_put(to, ",\n  \"sizes\": [");
    for (int32_t n = 0; n < e->L; n++) {
        if (!e->is_routed[n]) continue;
        for (int32_t router = 0; router < e->routers; router++) {
            const int64_t *counts = e->sizes + ((int64_t)n * e->routers + router) * e->K;
            double total = 0.0;
            for (int32_t c = 0; c < e->K; c++) total += (double)counts[c];
            put_int(to, before, n);
            put_int(to, ", \"router\": ", router);
            for (int32_t c = 0; c < e->K; c++)
                put_real(to, c ? ", " : ", \"shares\": [", (double)counts[c] / total);
            foci_json_put(to, "]}");
            before = ",\n    {\"layer\": ";
        }
    }
    foci_json_put(to, "\n  ]");
}

/* The text that a token adds to one that has begun: some vocabularies write a space and single
 * bytes with signs of their own. An id that only the model has is no text. */
static focal_status put_token(foci_writer *to, const focal_group_eval *e, int32_t id,
                              focal_buffer *text)
{
    focal_text_stream stream = {.has_begun = true};
    text->bytes = 0;
    if (id < focal_tokenizer_size(e->tokenizer)) {
        FOCAL_TRY(focal_text_stream_push(e->ctx, e->tokenizer, &stream, id, text));
        FOCAL_TRY(focal_text_stream_end(e->ctx, &stream, text));
    }
    put_bytes(to, text->data, text->bytes);
    return FOCAL_OK;
}

static focal_status put_group(foci_writer *to, const focal_group_eval *e,
                              const foci_typical_group *group, focal_buffer *text)
{
    foci_json_put(to, "[");
    for (int32_t n = 0; n < group->count; n++) {
        const foci_typical *t = &group->tokens[n];
        foci_json_put(to, n ? ", {\"text\": " : "{\"text\": ");
        FOCAL_TRY(put_token(to, e, t->id, text));
        put_int(to, ", \"here\": ", t->in_group);
        put_int(to, ", \"all\": ", t->in_all);
        foci_json_put(to, "}");
    }
    foci_json_put(to, "]");
    return FOCAL_OK;
}

static focal_status put_tokens(foci_writer *to, const focal_group_eval *e)
{
    focal_status status = FOCAL_OK;
    focal_buffer text = {0};
    foci_json_put(to, ",\n  \"typical\": [");
    for (int32_t n = 0; n < e->layer_count; n++) {
        put_int(to, n ? ",\n    {\"layer\": " : "\n    {\"layer\": ", e->layers[n]);
        foci_json_put(to, ", \"router\": 0, \"groups\": [");
        for (int32_t c = 0; c < e->K && status == FOCAL_OK; c++) {
            foci_json_put(to, c ? ",\n      " : "\n      ");
            status = put_group(to, e, &e->typical[(int64_t)n * e->K + c], &text);
        }
        foci_json_put(to, "]}");
    }
    foci_json_put(to, "\n  ]");
    focal_buffer_free(e->ctx, &text);
    return status;
}

focal_status focal_group_eval_write(const focal_group_eval *e, const char *path)
{
    focal_status status = FOCAL_OK;
    foci_writer *to = NULL;
    FOCAL_TRY(foci_writer_open(e->ctx, path, &to));
    put_head(to, e);
    put_settings(to, e);
    if (e->own >= 0) {
        put_int(to, ",\n  \"groups\": ", e->K);
        put_int(to, ",\n  \"groups_top\": ", e->settings[e->own].top);
        put_sizes(to, e);
        if (e->tokenizer) status = put_tokens(to, e);
    }
    foci_json_put(to, "\n}\n");
    if (status == FOCAL_OK) return foci_writer_commit(to);
    foci_writer_abandon(to);
    return status;
}
