/* Samples by the generation loop: the model in training is a model like any other. */
#include "train/samples.h"

#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "focal/generate.h"
#include "text/utf8.h"

enum { SAMPLE_STREAM = 1 << 21 /* of random numbers: weights and data have others */ };

static const float sample_temperature = 0.8F;

const char *foci_sample_obstacle(const foci_trainable *trainable)
{
    const focal_model *model = trainable->model;
    if (trainable->groups) return "no samples: a model with groups writes none while they learn";
    if (!model->tokenizer) return "no samples: there is no tokenizer.json beside the shards";
    for (int32_t n = 0; n < model->config.L; n++) {
        const foci_temperature *temperature = model->weights.layers[n].temperature;
        if (temperature && temperature->kind == FOCI_TEMPERATURE_LEARNED_PAPER)
            return "no samples: a learned-paper temperature averages over the whole text, so the "
                   "model cannot write";
    }
    return NULL;
}

typedef struct sink {
    focal_ctx *ctx;
    focal_buffer *text;
    focal_status status;
} sink;

static bool on_token(void *user, int32_t id, const char *text, size_t bytes)
{
    sink *to = user;
    (void)id;
    to->status = foci_buffer_put(to->ctx, to->text, text, bytes);
    return to->status == FOCAL_OK;
}

/* An empty prompt is the beginning of a document. */
static focal_status encode_prompt(foci_trainable *t, const foci_run *run, focal_ids *ids)
{
    const focal_tokenizer *tokenizer = t->model->tokenizer;
    FOCAL_TRY(focal_tokenizer_encode(t->ctx, tokenizer, run->samples.prompt,
                                     strlen(run->samples.prompt), FOCAL_ENCODE_ADD_SPECIAL, ids));
    if (ids->count > 0) return FOCAL_OK;
    const int32_t end = focal_tokenizer_document_end(tokenizer);
    const char *text = end >= 0 ? focal_tokenizer_token(tokenizer, end).bytes : "\n";
    const size_t bytes = end >= 0 ? focal_tokenizer_token(tokenizer, end).byte_count : 1;
    return focal_tokenizer_encode(t->ctx, tokenizer, text, bytes, FOCAL_ENCODE_PARSE_SPECIAL, ids);
}

focal_status foci_sample_check(foci_trainable *trainable, const foci_run *run)
{
    focal_ids ids = {0};
    const int32_t context = trainable->model->config.context;
    focal_status status = encode_prompt(trainable, run, &ids);
    if (status == FOCAL_OK && (ids.count < 1 || ids.count > context))
        status = foci_fail(trainable->ctx, FOCAL_EINVAL,
                           "run: samples.prompt has %lld tokens, 1 to %d fit the model",
                           (long long)ids.count, context);
    focal_ids_free(trainable->ctx, &ids);
    return status;
}

static focal_status write_text(foci_trainable *t, const foci_run *run, int64_t step,
                               const focal_ids *ids, sink *to)
{
    focal_cache *cache = NULL;
    FOCAL_TRY(focal_cache_new(t->model, NULL, &cache));
    const uint64_t seed = foci_random_u32((uint64_t)run->seed, SAMPLE_STREAM, (uint64_t)step);
    const focal_generate_args args = {.prompt = ids->ids,
                                      .prompt_count = ids->count,
                                      .max_tokens = run->samples.tokens,
                                      .sampling = {.temperature = sample_temperature, .seed = seed},
                                      .on_token = on_token,
                                      .user = to};
    focal_status status = focal_generate(t->model, cache, &args, NULL);
    if (status == FOCAL_OK) status = to->status;
    focal_cache_free(cache);
    return status;
}

focal_status foci_sample(foci_trainable *trainable, const foci_run *run, int64_t step,
                         focal_buffer *text)
{
    focal_ctx *ctx = trainable->ctx;
    sink to = {ctx, text, FOCAL_OK};
    focal_ids ids = {0};
    focal_status status = encode_prompt(trainable, run, &ids);
    if (status == FOCAL_OK)
        status = foci_buffer_put(ctx, text, run->samples.prompt, strlen(run->samples.prompt));
    if (status == FOCAL_OK) status = write_text(trainable, run, step, &ids, &to);
    if (status == FOCAL_OK) status = foci_buffer_put(ctx, text, "", 1);
    focal_ids_free(ctx, &ids);
    return status;
}
