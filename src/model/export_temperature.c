/* A temperature on its way into a file. Dividing queries by a number that no token changes is the
 * same as dividing the weights that make them: such a model is one that every program runs. Other
 * temperatures are kept in keys of focal's own. */
#include <math.h>
#include <stdio.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/json_text.h"
#include "model/export.h"

enum { KEY_BYTES = 128 };

/* One gain that all heads share cannot divide them by different numbers. */
static bool can_fold(const foci_config *c)
{
    const foci_temperature_config *t = &c->temperature;
    const bool has_shared_gain = c->qk_norm == FOCI_QK_HEAD;
    switch (t->kind) {
    case FOCI_TEMPERATURE_CONSTANT:
        return !has_shared_gain || !t->has_heads;
    case FOCI_TEMPERATURE_PER_HEAD:
        return !has_shared_gain;
    default:
        return false;
    }
}

static float divisor(const foci_temperature *t, int32_t head)
{
    if (!t || (t->heads && !t->heads[head])) return 1.0F;
    return t->kind == FOCI_TEMPERATURE_PER_HEAD ? (float)exp((double)t->lt[head]) : t->t;
}

focal_status foci_export_fold(foci_export *e)
{
    const foci_config *c = &e->model->config;
    if (!c->temperature.is_there) return FOCAL_OK;
    e->keeps_temperature = !can_fold(c);
    if (e->keeps_temperature) return FOCAL_OK;
    e->divisors_of_heads = foci_alloc(e->ctx, (size_t)c->L * (size_t)c->H, sizeof(float));
    if (!e->divisors_of_heads) return FOCAL_ENOMEM;
    for (int32_t n = 0; n < c->L; n++)
        for (int32_t h = 0; h < c->H; h++)
            e->divisors_of_heads[(ptrdiff_t)n * c->H + h] =
                divisor(e->model->weights.layers[n].temperature, h);
    return FOCAL_OK;
}

/* The numbers of a layer that has the temperature: a ramp may not have reached its end. */
static foci_temperature numbers_of(const foci_export *e)
{
    const foci_config *c = &e->model->config;
    for (int32_t n = 0; n < c->L; n++)
        if (e->model->weights.layers[n].temperature)
            return *e->model->weights.layers[n].temperature;
    return (foci_temperature){.t = c->temperature.t};
}

static bool has_value(foci_temperature_kind kind)
{
    return kind == FOCI_TEMPERATURE_CONSTANT || kind == FOCI_TEMPERATURE_LENGTH;
}

static void write_list(foci_writer *file, const char *name, const bool *marks, int32_t count)
{
    char list[FOCI_LIST_BYTES];
    foci_temperature_list(marks, count, list, sizeof list);
    foci_json_put(file, ", ");
    foci_json_put_text(file, foci_text_of(name));
    foci_json_put(file, ": ");
    foci_json_put_text(file, foci_text_of(list));
}

void foci_export_write_temperature(const foci_export *e, foci_writer *file)
{
    const foci_config *c = &e->model->config;
    const foci_temperature_config *t = &c->temperature;
    const foci_temperature numbers = numbers_of(e);
    foci_json_put(file, "{\"kind\": ");
    foci_json_put_text(file, foci_text_of(foci_temperature_kind_name(t->kind)));
    if (has_value(t->kind)) {
        foci_json_put(file, ", \"value\": ");
        foci_json_put_real(file, (double)numbers.t);
    }
    if (t->kind == FOCI_TEMPERATURE_LENGTH) {
        foci_json_put(file, ", \"c\": ");
        foci_json_put_real(file, (double)numbers.c);
        foci_json_put(file, ", \"length\": ");
        foci_json_put_real(file, (double)numbers.length);
    }
    if (t->has_layers) write_list(file, "layers", t->layers, c->L);
    if (t->has_heads) write_list(file, "heads", t->heads, c->H);
    foci_json_put(file, "}");
}

static const char *full_key(const char *prefix, const char *name, char key[KEY_BYTES])
{
    (void)snprintf(key, KEY_BYTES, "%s.attention.temperature.%s", prefix, name);
    return key;
}

focal_status foci_export_put_temperature(const foci_export *e, foci_gguf_writer *writer,
                                         const char *prefix)
{
    char key[KEY_BYTES], list[FOCI_LIST_BYTES];
    const foci_config *c = &e->model->config;
    const foci_temperature_config *t = &c->temperature;
    const foci_temperature numbers = numbers_of(e);
    const char *kind = foci_temperature_kind_name(t->kind);
    FOCAL_TRY(foci_gguf_put_text(writer, full_key(prefix, "kind", key), foci_text_of(kind)));
    if (has_value(t->kind))
        FOCAL_TRY(foci_gguf_put_f32(writer, full_key(prefix, "value", key), numbers.t));
    if (t->kind == FOCI_TEMPERATURE_LENGTH) {
        FOCAL_TRY(foci_gguf_put_f32(writer, full_key(prefix, "c", key), numbers.c));
        FOCAL_TRY(foci_gguf_put_f32(writer, full_key(prefix, "length", key), numbers.length));
    }
    if (t->has_layers) {
        foci_temperature_list(t->layers, c->L, list, sizeof list);
        FOCAL_TRY(foci_gguf_put_text(writer, full_key(prefix, "layers", key), foci_text_of(list)));
    }
    if (!t->has_heads) return FOCAL_OK;
    foci_temperature_list(t->heads, c->H, list, sizeof list);
    return foci_gguf_put_text(writer, full_key(prefix, "heads", key), foci_text_of(list));
}
