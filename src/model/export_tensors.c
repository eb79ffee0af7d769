/* The tensors of an export: which there are, in what type, and their bytes made one after the
 * other. Most need nothing and are handed out where they lie in the map. */
#include <assert.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "focal/quant.h"
#include "model/export.h"

enum { PIECE_FLOATS = 1 << 20 }; /* converted at a time, in whole rows */

static bool is_float(focal_dtype dtype)
{
    return dtype == FOCAL_F32 || dtype == FOCAL_F16 || dtype == FOCAL_BF16;
}

/* What llama.cpp takes when rows are not whole blocks; the last resort is f16. */
static focal_dtype fallback_of(focal_dtype dtype)
{
    switch (dtype) {
    case FOCAL_Q2_K:
    case FOCAL_Q3_K:
        return FOCAL_IQ4_NL;
    case FOCAL_Q4_K:
        return FOCAL_Q5_0;
    case FOCAL_Q5_K:
        return FOCAL_Q5_1;
    case FOCAL_Q6_K:
        return FOCAL_Q8_0;
    default:
        return FOCAL_F16;
    }
}

static focal_dtype fitting(focal_dtype dtype, int64_t columns)
{
    for (int n = 0; n < 2 && columns % focal_dtype_block(dtype) != 0; n++)
        dtype = fallback_of(dtype);
    return dtype;
}

static focal_status put_item(foci_export *e, const foci_export_item *item)
{
    if (e->item_count == e->item_capacity) {
        const int64_t capacity = e->item_capacity > 0 ? 2 * e->item_capacity : 64;
        foci_export_item *larger = foci_alloc(e->ctx, (size_t)capacity, sizeof *larger);
        if (!larger) return FOCAL_ENOMEM;
        if (e->item_count > 0) memcpy(larger, e->items, (size_t)e->item_count * sizeof *larger);
        foci_free(e->ctx, e->items);
        e->items = larger;
        e->item_capacity = capacity;
    }
    foci_export_item *put = &e->items[e->item_count++];
    *put = *item;
    foci_tensor *t = &put->tensor;
    const int64_t last = t->shape[t->dims - 1], first = t->dims > 1 ? t->shape[0] : 1;
    for (int32_t n = t->dims; n < FOCI_TENSOR_DIMS; n++) t->shape[n] = 1;
    /* Both are within the limits of a configuration, so their product is far from wrapping. */
    t->bytes =
        (size_t)(first * (last / focal_dtype_block(t->dtype))) * focal_dtype_block_bytes(t->dtype);
    e->result.bytes_after += (int64_t)t->bytes;
    return FOCAL_OK;
}

/* A norm's weight, a bias or another row of numbers. */
typedef struct vector {
    const float *data; /* NULL: there is nothing to put */
    int64_t count;
    focal_dtype dtype; /* in the file that it came from */
    bool is_turned;
    float offset;
    const float *divisors;
    int64_t divided;
    bool keeps_floats; /* of temperatures: nobody but focal reads them */
} vector;

static focal_status put_vector(foci_export *e, const char *name, const vector *v)
{
    if (!v->data) return FOCAL_OK;
    focal_dtype dtype = v->dtype;
    foci_export_item item = {.data = v->data,
                             .dtype = FOCAL_F32,
                             .rows = v->is_turned ? v->count : 1,
                             .columns = v->is_turned ? 1 : v->count,
                             .offset = v->offset,
                             .divisors = v->divisors,
                             .divided = v->divided,
                             .divides_columns = !v->is_turned,
                             .is_turned = v->is_turned};
    if (e->to_gguf || v->keeps_floats)
        dtype = FOCAL_F32;
    else if (e->options.has_type)
        dtype = e->options.type;
    else if (!is_float(dtype))
        dtype = FOCAL_BF16;
    item.tensor = (foci_tensor){.dtype = dtype, .dims = 1, .shape = {v->count}};
    memcpy(item.name, name, strlen(name) + 1);
    return put_item(e, &item);
}

/* Of a layer, where its queries are divided; NULL: they stay. */
static const float *divisors_of(const foci_export *e, int32_t layer)
{
    return e->divisors_of_heads && layer >= 0
               ? e->divisors_of_heads + (ptrdiff_t)layer * e->model->config.H
               : NULL;
}

static focal_status put_gain(foci_export *e, const foci_weight_names *names, int32_t layer,
                             const char *part, const foci_gain *gain, int64_t count)
{
    char name[FOCI_WEIGHT_NAME_BYTES];
    if (!gain->weight) return FOCAL_OK;
    /* The two formats differ in whether a norm's weight or that less 1 is stored. */
    const float stored = e->to_gguf || !e->family->has_offset_norms ? 0.0F : 1.0F;
    const float added = e->model->config.norm_offset;
    const float *divisors = part == names->q_norm ? divisors_of(e, layer) : NULL;
    vector weight = {.data = gain->weight,
                     .count = count,
                     .dtype = gain->dtype,
                     .offset = (divisors ? added / divisors[0] : added) - stored,
                     .divisors = divisors};
    weight.divided = divisors ? count : 0;
    const vector bias = {.data = gain->bias, .count = count, .dtype = gain->bias_dtype};
    foci_weight_name(names, layer, part, "weight", name);
    FOCAL_TRY(put_vector(e, name, &weight));
    foci_weight_name(names, layer, part, "bias", name);
    return put_vector(e, name, &bias);
}

static focal_dtype matrix_type(foci_export *e, const foci_linear *linear, bool keeps_floats)
{
    focal_dtype dtype = e->options.has_type ? e->options.type : linear->dtype;
    if (!e->to_gguf) return is_float(dtype) ? dtype : FOCAL_BF16;
    if (keeps_floats) return FOCAL_F32;
    const focal_dtype fits = fitting(dtype, linear->K);
    if (fits != dtype) e->result.fallback_count[fits]++;
    return fits;
}

/* keeps_floats: of learned positions, which llama.cpp adds as float32. */
static focal_status put_linear(foci_export *e, const foci_weight_names *names, int32_t layer,
                               const char *part, const foci_linear *linear, bool keeps_floats)
{
    const foci_config *c = &e->model->config;
    if (!linear->w) return FOCAL_OK;
    assert(!linear->is_interleaved); /* an export opens its own model and does not load it */
    const bool stays = c->rope_style == (e->to_gguf ? e->family->gguf_rope : FOCI_ROPE_HALVES);
    const bool is_turned = !c->has_positions && !stays && (part == names->q || part == names->k);
    /* GPT-2's own files hold its layers (but not its embeddings) transposed. */
    const bool is_transposed = c->family->is_gpt2 && !e->to_gguf && layer >= 0;
    foci_export_item item = {.data = linear->w,
                             .dtype = linear->dtype,
                             .rows = linear->is_transposed ? linear->K : linear->N,
                             .columns = linear->is_transposed ? linear->N : linear->K,
                             .is_turned = is_turned,
                             .is_transposed = is_transposed != linear->is_transposed};
    item.tensor = (foci_tensor){.dtype = matrix_type(e, linear, keeps_floats), .dims = 2};
    item.tensor.shape[0] = is_transposed ? linear->K : linear->N;
    item.tensor.shape[1] = is_transposed ? linear->N : linear->K;
    /* With query-key norm a temperature goes into that: what comes before it would be lost. */
    if (c->qk_norm == FOCI_QK_NONE && (part == names->q || part == names->qkv))
        item.divisors = divisors_of(e, layer);
    if (item.divisors) item.divided = (int64_t)c->H * c->D;
    item.divides_columns = linear->is_transposed;
    const vector bias = {.data = linear->bias,
                         .count = linear->N,
                         .dtype = linear->bias_dtype,
                         .is_turned = is_turned,
                         .divisors = item.divisors,
                         .divided = item.divided};
    foci_weight_name(names, layer, part, "weight", item.name);
    FOCAL_TRY(put_item(e, &item));
    foci_weight_name(names, layer, part, "bias", item.name);
    return put_vector(e, item.name, &bias);
}

/* What was learned of a temperature. */
static focal_status put_temperature(foci_export *e, const foci_weight_names *names, int32_t layer)
{
    const foci_config *c = &e->model->config;
    const foci_temperature *t = e->model->weights.layers[layer].temperature;
    if (!e->keeps_temperature || !t) return FOCAL_OK;
    const struct {
        const char *suffix;
        const float *data;
        int64_t count;
    } parts[] = {{"u", t->u, c->C}, {"a", t->a, 1}, {"lt", t->lt, c->H}};
    for (size_t n = 0; n < FOCAL_COUNT(parts); n++) {
        char name[FOCI_WEIGHT_NAME_BYTES];
        const vector v = {.data = parts[n].data, .count = parts[n].count, .keeps_floats = true};
        foci_weight_name(names, layer, names->temperature, parts[n].suffix, name);
        FOCAL_TRY(put_vector(e, name, &v));
    }
    return FOCAL_OK;
}

static focal_status put_layer(foci_export *e, const foci_weight_names *names, int32_t n)
{
    const foci_config *c = &e->model->config;
    const foci_layer *layer = &e->model->weights.layers[n];
    const bool is_head = c->qk_norm == FOCI_QK_HEAD;
    const int64_t heads = is_head ? 1 : c->H, key_heads = is_head ? 1 : c->G;
    const struct {
        const char *part;
        const foci_gain *gain;
        int64_t count;
    } gains[] = {
        {names->attn_norm, &layer->attn_norm, c->C},
        {names->attn_post, &layer->attn_post, c->C},
        {names->ffn_norm, &layer->ffn_norm, c->C},
        {names->ffn_post, &layer->ffn_post, c->C},
        {names->q_norm, &layer->q_norm, heads * c->D},
        {names->k_norm, &layer->k_norm, key_heads * c->D},
    };
    const struct {
        const char *part;
        const foci_linear *linear;
    } linears[] = {
        {names->qkv, &layer->qkv}, {names->q, &layer->q},       {names->k, &layer->k},
        {names->v, &layer->v},     {names->out, &layer->out},   {names->gate, &layer->gate},
        {names->up, &layer->up},   {names->down, &layer->down},
    };
    for (size_t i = 0; i < FOCAL_COUNT(gains); i++)
        FOCAL_TRY(put_gain(e, names, n, gains[i].part, gains[i].gain, gains[i].count));
    for (size_t i = 0; i < FOCAL_COUNT(linears); i++)
        FOCAL_TRY(put_linear(e, names, n, linears[i].part, linears[i].linear, false));
    return put_temperature(e, names, n);
}

/* As it lies in the map: no other type, order or value. */
static bool is_direct(const foci_export_item *item)
{
    return item->dtype == item->tensor.dtype && !item->is_turned && !item->is_transposed &&
           item->offset == 0.0F && !item->divisors;
}

static focal_status take_buffers(foci_export *e)
{
    size_t written = 0, expanded = 0, floats = PIECE_FLOATS;
    for (int64_t n = 0; n < e->item_count; n++) {
        const foci_export_item *item = &e->items[n];
        if (is_direct(item)) continue;
        const size_t count = (size_t)(item->rows * item->columns);
        const size_t widest = (size_t)foci_max64(item->rows, item->columns);
        if (item->tensor.bytes > written) written = item->tensor.bytes;
        if (item->is_transposed && count > expanded) expanded = count;
        if (widest > floats) floats = widest;
    }
    if (written == 0) return FOCAL_OK;
    e->written = foci_alloc(e->ctx, written, 1);
    e->floats = foci_alloc(e->ctx, floats, sizeof *e->floats);
    if (expanded > 0) e->expanded = foci_alloc(e->ctx, expanded, sizeof *e->expanded);
    return e->written && e->floats && (e->expanded || expanded == 0) ? FOCAL_OK : FOCAL_ENOMEM;
}

focal_status foci_export_plan(foci_export *e)
{
    const foci_config *c = &e->model->config;
    const foci_model_weights *w = &e->model->weights;
    const foci_weight_names names = e->to_gguf ? foci_weight_names_gguf() : foci_weight_names_hf(c);
    FOCAL_TRY(put_linear(e, &names, -1, names.embed, &w->embed, false));
    FOCAL_TRY(put_linear(e, &names, -1, names.positions, &w->positions, true));
    FOCAL_TRY(put_gain(e, &names, -1, names.final_norm, &w->final_norm, c->C));
    if (!w->is_tied) FOCAL_TRY(put_linear(e, &names, -1, names.head, &w->head, false));
    const vector divisors = {.data = e->rope.divisors, .count = c->rope.rotated / 2};
    if (e->to_gguf) FOCAL_TRY(put_vector(e, "rope_freqs.weight", &divisors));
    for (int32_t n = 0; n < c->L; n++) FOCAL_TRY(put_layer(e, &names, n));
    e->result.tensor_count = e->item_count;
    return take_buffers(e);
}

focal_dtype foci_export_main_type(const foci_export *e)
{
    int64_t counts[32] = {0};
    focal_dtype most = FOCAL_F32;
    for (int64_t n = 0; n < e->item_count; n++) {
        const foci_export_item *item = &e->items[n];
        counts[item->tensor.dtype] += item->rows * item->columns;
        if (counts[item->tensor.dtype] > counts[most]) most = item->tensor.dtype;
    }
    return most;
}

/* A piece of an item's rows on its way to float32. */
typedef struct gather_job {
    const foci_export *e;
    const foci_export_item *item;
    const float *expanded; /* (rows, columns) of a matrix that is transposed; else NULL */
    int64_t first;         /* row of the result */
    float *to;
} gather_job;

/* Which row of the data is row n of the result: halves of a head become pairs, or pairs halves.
 * What does not rotate stays. */
static int64_t source_row(const foci_export *e, const foci_export_item *item, int64_t n)
{
    const foci_config *c = &e->model->config;
    const int64_t at = n % c->D, half = c->rope.rotated / 2;
    if (!item->is_turned || at >= 2 * half) return n;
    return n - at + (e->to_gguf ? at % 2 * half + at / 2 : at % half * 2 + at / half);
}

static const uint8_t *row_data(const foci_export_item *item, int64_t row)
{
    const size_t blocks = (size_t)(item->columns / focal_dtype_block(item->dtype));
    return (const uint8_t *)item->data +
           (size_t)row * blocks * focal_dtype_block_bytes(item->dtype);
}

/* A row of data, as far as it belongs to heads of the query. */
static void divide_row(const foci_export *e, const foci_export_item *item, int64_t row, float *to)
{
    const int64_t D = e->model->config.D;
    if (item->divides_columns) {
        for (int64_t n = 0; n < item->divided; n++) to[n] /= item->divisors[n / D];
    } else if (row < item->divided) {
        for (int64_t n = 0; n < item->columns; n++) to[n] /= item->divisors[row / D];
    }
}

static void gather_row(void *arg, int64_t index, int32_t thread)
{
    const gather_job *job = arg;
    const foci_export_item *item = job->item;
    (void)thread;
    const int64_t row = job->first + index;
    if (job->expanded) {
        float *to = job->to + index * item->rows;
        for (int64_t n = 0; n < item->rows; n++) to[n] = job->expanded[n * item->columns + row];
        return;
    }
    float *to = job->to + index * item->columns;
    /* Cannot fail: the loader has seen that rows are whole blocks. */
    const int64_t source = source_row(job->e, item, row);
    (void)focal_dequantize(item->dtype, row_data(item, source), item->columns, to);
    if (item->divisors) divide_row(job->e, item, source, to);
    for (int64_t n = 0; item->offset != 0.0F && n < item->columns; n++) to[n] += item->offset;
}

static focal_status report(foci_export *e, size_t bytes)
{
    e->done_bytes += (int64_t)bytes;
    if (!e->options.on_progress ||
        e->options.on_progress(e->options.user, e->done_bytes, e->result.bytes_after))
        return FOCAL_OK;
    return foci_fail(e->ctx, FOCAL_EIO, "export: stopped");
}

static focal_status quantize(foci_export *e, const foci_export_item *item, int64_t rows,
                             int64_t columns, uint8_t *to)
{
    const focal_status status =
        focal_quantize(e->ctx, item->tensor.dtype, e->floats, rows, columns, to);
    if (status != FOCAL_EINVAL) return status;
    return foci_fail(e->ctx, status, "%s: tensor '%s' has a number that %s cannot hold",
                     e->model->path, item->name, focal_dtype_name(item->tensor.dtype));
}

static focal_status convert(foci_export *e, const foci_export_item *item)
{
    const int64_t rows = item->is_transposed ? item->columns : item->rows;
    const int64_t columns = item->is_transposed ? item->rows : item->columns;
    const size_t row_bytes = item->tensor.bytes / (size_t)rows;
    const int64_t step = foci_max64(1, PIECE_FLOATS / columns);
    gather_job job = {.e = e, .item = item, .to = e->floats};
    if (item->is_transposed) {
        job.to = e->expanded;
        foci_parallel(e->ctx, item->rows, gather_row, &job);
        job.to = e->floats;
        job.expanded = e->expanded;
    }
    for (int64_t first = 0; first < rows; first += step) {
        const int64_t count = foci_min64(step, rows - first);
        job.first = first;
        foci_parallel(e->ctx, count, gather_row, &job);
        FOCAL_TRY(quantize(e, item, count, columns, e->written + (size_t)first * row_bytes));
        FOCAL_TRY(report(e, (size_t)count * row_bytes));
    }
    return FOCAL_OK;
}

focal_status foci_export_fill(void *user, int64_t index, const void **data)
{
    foci_export *e = user;
    const foci_export_item *item = &e->items[index];
    const foci_tensor *t = &item->tensor;
    *data = item->data;
    if (is_direct(item)) return report(e, t->bytes);
    *data = e->written;
    if (item->dtype != t->dtype || item->is_transposed || item->offset != 0.0F || item->divisors)
        return convert(e, item);
    const size_t row_bytes = t->bytes / (size_t)item->rows;
    for (int64_t n = 0; n < item->rows; n++) /* rows are whole blocks, so bytes can move */
        memcpy(e->written + (size_t)n * row_bytes, row_data(item, source_row(e, item, n)),
               row_bytes);
    return report(e, t->bytes);
}
