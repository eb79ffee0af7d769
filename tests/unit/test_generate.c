/* The loop that writes text: its tokens are those of plain calls, whatever the chunks, the cache or
 * the threads; what ends it, what it shows, and what it refuses.
 *
 * The model of tests/golden/models/tiny.gguf goes on with the words of `sentence`, and after " caf"
 * with the two bytes of an accented e. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "focal/generate.h"

enum { MOST_IDS = 256, MOST_TEXT = 4096, MOST_CALLS = 256 };

static const char sentence[] = " quick brown fox jumps over the lazy dog.";

typedef struct rig {
    focal_ctx *ctx;
    focal_model *model;
    focal_cache *cache;
    focal_ids prompt;
    /* What the callbacks saw. */
    int32_t ids[MOST_IDS];
    int64_t id_count;
    char text[MOST_TEXT];
    size_t bytes;
    int64_t done[MOST_CALLS];
    int prompt_calls, token_calls;
    int prompt_stop, token_stop; /* the call that says no; 0: none does */
    focal_generate_result result;
} rig;

static bool on_prompt(void *user, int64_t done, int64_t total)
{
    rig *r = user;
    assert_int_equal(total, r->prompt.count);
    assert_true(r->prompt_calls < MOST_CALLS);
    r->done[r->prompt_calls++] = done;
    return r->prompt_calls != r->prompt_stop;
}

/* Whether the bytes are whole characters: none begins or ends inside of one. */
static bool is_whole(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        const unsigned char c = (unsigned char)text[at];
        const size_t length = c < 0x80 ? 1 : c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 ? 2 : 0;
        if (length == 0 || length > bytes - at) return false;
        for (size_t n = 1; n < length; n++)
            if (((unsigned char)text[at + n] & 0xC0) != 0x80) return false;
        at += length;
    }
    return true;
}

static bool on_token(void *user, int32_t id, const char *text, size_t bytes)
{
    rig *r = user;
    assert_non_null(text);
    assert_true(is_whole(text, bytes));
    assert_true(id >= 0 || bytes > 0); /* the last call has something to say */
    if (id >= 0) {
        assert_true(r->id_count < MOST_IDS);
        r->ids[r->id_count++] = id;
    }
    assert_true(r->bytes + bytes < MOST_TEXT);
    memcpy(r->text + r->bytes, text, bytes);
    r->bytes += bytes;
    r->text[r->bytes] = '\0';
    r->token_calls++;
    return r->token_calls != r->token_stop;
}

static void open_rig(focal_ctx *ctx, rig *r, const char *prompt)
{
    const focal_model_options options = {FOCAL_F32, true};
    *r = (rig){.ctx = ctx};
    assert_status(
        ctx, focal_model_open(ctx, FOCAL_TEST_DIR "/golden/models/tiny.gguf", &options, &r->model),
        FOCAL_OK);
    assert_status(ctx, focal_cache_new(r->model, NULL, &r->cache), FOCAL_OK);
    assert_status(ctx,
                  focal_tokenizer_encode(ctx, focal_model_tokenizer(r->model), prompt,
                                         strlen(prompt), FOCAL_ENCODE_ADD_SPECIAL, &r->prompt),
                  FOCAL_OK);
}

static void close_rig(rig *r)
{
    focal_ids_free(r->ctx, &r->prompt);
    focal_cache_free(r->cache);
    focal_model_close(r->model);
}

/* Writes on from where the cache is; what the callbacks see begins anew. */
static focal_status write_on(rig *r, focal_generate_args args)
{
    r->id_count = 0;
    r->bytes = 0;
    r->text[0] = '\0';
    r->prompt_calls = r->token_calls = 0;
    if (!args.prompt) {
        args.prompt = r->prompt.ids;
        args.prompt_count = r->prompt.count;
    }
    args.on_prompt = on_prompt;
    args.on_token = on_token;
    args.user = r;
    return focal_generate(r->model, r->cache, &args, &r->result);
}

/* The same from an empty cache, and it must go well. */
static void generate(rig *r, focal_generate_args args)
{
    assert_status(r->ctx, focal_cache_truncate(r->cache, 0, 0), FOCAL_OK);
    const focal_status status = write_on(r, args);
    if (status != FOCAL_OK) fail_msg("%s", focal_ctx_error(r->ctx));
}

/* What the loop should write when it ignores ends: a pass a token, no end token, and the sampler,
 * by plain calls. */
static void expect_ids(rig *r, const focal_sampling *sampling, int64_t count, int32_t *ids)
{
    static float logits[1 << 12];
    focal_cache *cache = NULL;
    focal_sampler *sampler = NULL;
    const int32_t V = focal_model_describe(r->model).V;
    assert_true(V <= (int32_t)FOCAL_COUNT(logits));
    assert_status(r->ctx, focal_cache_new(r->model, NULL, &cache), FOCAL_OK);
    assert_status(r->ctx, focal_sampler_new(r->ctx, V, sampling, &sampler), FOCAL_OK);
    for (int64_t n = 0; n < r->prompt.count + count - 1; n++) {
        const int32_t id = n < r->prompt.count ? r->prompt.ids[n] : ids[n - r->prompt.count];
        const focal_batch_item item = {0, 1, &id, 1};
        const focal_forward_args args = {.item_count = 1, .items = &item, .logits = logits};
        assert_status(r->ctx, focal_forward(r->model, cache, &args), FOCAL_OK);
        assert_status(r->ctx, focal_sampler_accept(sampler, id), FOCAL_OK);
        if (n + 1 < r->prompt.count) continue;
        for (int32_t v = 0; v < V; v++)
            if (focal_tokenizer_is_end(focal_model_tokenizer(r->model), v)) logits[v] = -INFINITY;
        int32_t *next = &ids[n + 1 - r->prompt.count];
        if (sampling) {
            assert_status(r->ctx, focal_sampler_pick(sampler, logits, next), FOCAL_OK);
        } else { /* not even the sampler: the largest, the first of equals */
            *next = 0;
            for (int32_t v = 1; v < V; v++)
                if (logits[v] > logits[*next]) *next = v;
        }
    }
    focal_sampler_free(sampler);
    focal_cache_free(cache);
}

static void assert_ids(const rig *r, const int32_t *ids, int64_t count)
{
    assert_int_equal(r->id_count, count);
    assert_int_equal(r->result.tokens, count);
    for (int64_t n = 0; n < count; n++)
        if (r->ids[n] != ids[n]) fail_msg("token %lld: %d and %d", (long long)n, r->ids[n], ids[n]);
}

static void greedy_is_pass_and_argmax(void **state)
{
    rig r;
    int32_t ids[40];
    open_rig(*state, &r, "The quick brown");
    expect_ids(&r, NULL, 40, ids);
    generate(&r, (focal_generate_args){.max_tokens = 40, .ignores_end = true});
    assert_ids(&r, ids, 40);
    assert_int_equal(r.result.stop, FOCAL_STOP_COUNT);
    assert_int_equal(r.result.prompt_tokens, r.prompt.count);
    assert_int_equal(focal_cache_length(r.cache, 0), r.prompt.count + 39); /* but the last */
    assert_true(r.result.seconds >= 0.0 && r.result.prompt_seconds >= 0.0);
    close_rig(&r);
}

static void the_prompt_comes_in_chunks(void **state)
{
    rig r;
    int32_t ids[20];
    open_rig(*state, &r, "The lazy dog jumps over the quick brown fox. The");
    const int64_t total = r.prompt.count;
    generate(&r, (focal_generate_args){.max_tokens = 20, .ignores_end = true});
    assert_int_equal(r.prompt_calls, 1);
    memcpy(ids, r.ids, sizeof ids);
    const int32_t chunks[] = {1, 2, 3, 7, (int32_t)total - 1, (int32_t)total, 512, INT32_MAX};
    for (size_t c = 0; c < FOCAL_COUNT(chunks); c++) {
        generate(&r,
                 (focal_generate_args){.max_tokens = 20, .ignores_end = true, .chunk = chunks[c]});
        assert_ids(&r, ids, 20);
        assert_int_equal(r.prompt_calls, (total - 1) / chunks[c] + 1);
        for (int n = 0; n < r.prompt_calls; n++) {
            const int64_t done = ((int64_t)n + 1) * chunks[c];
            assert_int_equal(r.done[n], done < total ? done : total);
        }
    }
    close_rig(&r);
}

/* Every setting of the sampler arrives there, and so does the prompt. */
static void sampling_is_the_samplers(void **state)
{
    rig r;
    int32_t ids[30];
    const focal_logit_bias biases[] = {{40, 500.0F}, {41, -INFINITY}};
    const focal_sampling samplings[] = {
        {.seed = 1},
        {.temperature = 20.0F, .seed = 3},
        {.temperature = 20.0F, .seed = 4},
        {.temperature = 30.0F, .top_k = 5, .seed = 5},
        {.temperature = 30.0F, .top_p = 0.4F, .seed = 6},
        {.temperature = 30.0F, .min_p = 0.01F, .seed = 7},
        {.repeat_penalty = 100.0F},
        {.repeat_penalty = 100.0F, .repeat_last = 3},
        {.presence_penalty = 50.0F, .repeat_last = -1},
        {.frequency_penalty = 3.0F},
        {.biases = biases, .bias_count = 2},
    };
    int32_t before[30] = {0};
    open_rig(*state, &r, "The quick brown fox jumps");
    for (size_t n = 0; n < FOCAL_COUNT(samplings); n++) {
        expect_ids(&r, &samplings[n], 30, ids);
        for (int round = 0; round < 2; round++) { /* the same again */
            generate(&r, (focal_generate_args){
                             .max_tokens = 30, .ignores_end = true, .sampling = samplings[n]});
            assert_ids(&r, ids, 30);
        }
        /* Each of them matters: it is not what the one before gave. */
        if (n > 0 && memcmp(ids, before, sizeof ids) == 0) fail_msg("sampling %zu", n);
        memcpy(before, ids, sizeof before);
    }
    for (int n = 0; n < 30; n++) assert_int_equal(ids[n], 40); /* the bias */
    close_rig(&r);
}

typedef struct stop_case {
    const char *stops[3];
    const char *text;
    focal_stop stop;
    int64_t tokens;
} stop_case;

static void stop_strings_end_the_text(void **state)
{
    static const stop_case cases[] = {
        {{NULL}, sentence, FOCAL_STOP_END, 10},
        {{" lazy"}, " quick brown fox jumps over the", FOCAL_STOP_TEXT, 7},
        {{"lazy"}, " quick brown fox jumps over the ", FOCAL_STOP_TEXT, 7},
        {{" quick"}, "", FOCAL_STOP_TEXT, 1},                    /* all there is */
        {{"q"}, " ", FOCAL_STOP_TEXT, 1},                        /* inside the first token */
        {{"ck b"}, " qui", FOCAL_STOP_TEXT, 2},                  /* over two tokens */
        {{"own fox jumps ov"}, " quick br", FOCAL_STOP_TEXT, 5}, /* over four */
        {{" quick brown fox jumps over the lazy dog."}, "", FOCAL_STOP_TEXT, 9},
        {{"."}, " quick brown fox jumps over the lazy dog", FOCAL_STOP_TEXT, 9},
        {{"dog."}, " quick brown fox jumps over the lazy ", FOCAL_STOP_TEXT, 9},
        /* Beginnings that come to nothing are shown after all. */
        {{"fox hunts"}, sentence, FOCAL_STOP_END, 10},
        {{"dog.X"}, sentence, FOCAL_STOP_END, 10},
        {{"overt", "jumpsx", "brownie"}, sentence, FOCAL_STOP_END, 10},
        {{"o"}, " quick br", FOCAL_STOP_TEXT, 2},
        {{"oo", "ooo"}, sentence, FOCAL_STOP_END, 10},
        /* Several: the first that is whole, and of those the one that begins first. */
        {{"fox jumps over", "jumps"}, " quick brown fox ", FOCAL_STOP_TEXT, 4},
        {{"fox", "fox jumps"}, " quick brown ", FOCAL_STOP_TEXT, 3},
        {{"x jumps", "jumps", "ps"}, " quick brown fo", FOCAL_STOP_TEXT, 4},
        {{"nothing", "the", "ove"}, " quick brown fox jumps ", FOCAL_STOP_TEXT, 5},
        /* A control token is no text. */
        {{"<|im_end|>"}, sentence, FOCAL_STOP_END, 10},
    };
    rig r;
    open_rig(*state, &r, "The");
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        const stop_case *c = &cases[n];
        int32_t count = 0;
        while (count < 3 && c->stops[count]) count++;
        generate(&r,
                 (focal_generate_args){.max_tokens = -1, .stops = c->stops, .stop_count = count});
        if (strcmp(r.text, c->text) != 0 || r.result.stop != c->stop ||
            r.result.tokens != c->tokens)
            fail_msg("case %zu: '%s', %s, %lld tokens", n, r.text, focal_stop_name(r.result.stop),
                     (long long)r.result.tokens);
        assert_int_equal(r.id_count, c->tokens);
    }
    /* One that nearly came, when the count ends the text. */
    const char *const stop = "fox hunts";
    generate(&r, (focal_generate_args){.max_tokens = 3, .stops = &stop, .stop_count = 1});
    assert_string_equal(r.text, " quick brown fox");
    assert_int_equal(r.result.stop, FOCAL_STOP_COUNT);
    close_rig(&r);
}

static void end_tokens_end_it(void **state)
{
    rig r;
    open_rig(*state, &r, "The quick");
    generate(&r, (focal_generate_args){.max_tokens = -1});
    assert_string_equal(r.text, " brown fox jumps over the lazy dog.");
    assert_int_equal(r.result.stop, FOCAL_STOP_END);
    assert_int_equal(r.result.tokens, 9);
    const int32_t end = r.ids[8];
    assert_true(focal_tokenizer_is_end(focal_model_tokenizer(r.model), end));
    generate(&r, (focal_generate_args){.max_tokens = -1, .shows_special = true});
    assert_string_equal(r.text, " brown fox jumps over the lazy dog.<|im_end|>");
    generate(&r, (focal_generate_args){.max_tokens = 12, .ignores_end = true});
    assert_int_equal(r.result.tokens, 12);
    for (int n = 0; n < 12; n++) /* other ends with it */
        assert_false(focal_tokenizer_is_end(focal_model_tokenizer(r.model), r.ids[n]));
    assert_int_equal(r.result.stop, FOCAL_STOP_COUNT);
    /* The end token as the last that is allowed: the model's end is what is told. */
    generate(&r, (focal_generate_args){.max_tokens = 9});
    assert_int_equal(r.result.stop, FOCAL_STOP_END);
    generate(&r, (focal_generate_args){.max_tokens = 8});
    assert_int_equal(r.result.stop, FOCAL_STOP_COUNT);
    generate(&r, (focal_generate_args){.max_tokens = 0});
    assert_int_equal(r.result.stop, FOCAL_STOP_COUNT);
    assert_int_equal(r.token_calls, 0);
    assert_int_equal(focal_cache_length(r.cache, 0), r.prompt.count);
    close_rig(&r);
}

static void characters_stay_whole(void **state)
{
    rig r;
    open_rig(*state, &r, "The caf");
    generate(&r, (focal_generate_args){.max_tokens = -1});
    assert_string_equal(r.text, "\xC3\xA9!");
    assert_int_equal(r.result.tokens, 4);
    generate(&r, (focal_generate_args){.max_tokens = 2});
    assert_string_equal(r.text, "\xC3\xA9");
    /* Half of one, at the end: a sign that something is missing. */
    generate(&r, (focal_generate_args){.max_tokens = 1});
    assert_string_equal(r.text, "\xEF\xBF\xBD");
    assert_int_equal(r.token_calls, 2);
    const char *stops[] = {"\xC3\xA9"};
    generate(&r, (focal_generate_args){.max_tokens = -1, .stops = stops, .stop_count = 1});
    assert_string_equal(r.text, "");
    assert_int_equal(r.result.stop, FOCAL_STOP_TEXT);
    /* A stop string of the first byte alone cuts before the character, not inside. */
    stops[0] = "\xC3";
    generate(&r, (focal_generate_args){.max_tokens = -1, .stops = stops, .stop_count = 1});
    assert_string_equal(r.text, "");
    assert_int_equal(r.result.tokens, 2);
    close_rig(&r);
}

static void the_context_ends_it(void **state)
{
    rig r;
    open_rig(*state, &r, "The quick brown");
    const int32_t prompt = (int32_t)r.prompt.count;
    generate(&r,
             (focal_generate_args){.max_tokens = -1, .ignores_end = true, .context = prompt + 5});
    assert_int_equal(r.result.stop, FOCAL_STOP_CONTEXT);
    assert_int_equal(focal_cache_length(r.cache, 0), prompt + 5);
    assert_int_equal(r.result.tokens, 6); /* the last is not read */
    generate(&r, (focal_generate_args){.max_tokens = -1, .context = prompt});
    assert_int_equal(r.result.stop, FOCAL_STOP_CONTEXT);
    assert_int_equal(r.result.tokens, 1);
    /* The model's own, when none is given. */
    generate(&r, (focal_generate_args){.max_tokens = -1,
                                       .ignores_end = true,
                                       .sampling = {.temperature = 50.0F, .seed = 2}});
    assert_int_equal(r.result.stop, FOCAL_STOP_CONTEXT);
    assert_int_equal(focal_cache_length(r.cache, 0), focal_model_describe(r.model).context);
    assert_status(r.ctx, focal_cache_truncate(r.cache, 0, 0), FOCAL_OK);
    assert_status(r.ctx, write_on(&r, (focal_generate_args){.context = prompt - 1}), FOCAL_EINVAL);
    char expected[256];
    (void)snprintf(expected, sizeof expected,
                   "generate: the prompt has %d tokens, the context %d: shorten it or raise -c",
                   prompt, prompt - 1);
    assert_string_equal(focal_ctx_error(r.ctx), expected);
    assert_int_equal(focal_cache_length(r.cache, 0), 0);
    generate(&r, (focal_generate_args){.max_tokens = 1});
    assert_status(r.ctx, write_on(&r, (focal_generate_args){.context = 2 * prompt - 1}),
                  FOCAL_EINVAL);
    (void)snprintf(expected, sizeof expected,
                   "generate: the prompt has %d tokens with what came before, the context %d: "
                   "shorten it or raise -c",
                   2 * prompt, 2 * prompt - 1);
    assert_string_equal(focal_ctx_error(r.ctx), expected);
    close_rig(&r);
}

static void callbacks_may_stop_it(void **state)
{
    rig r;
    open_rig(*state, &r, "The quick brown fox jumps");
    r.prompt_stop = 2;
    generate(&r, (focal_generate_args){.max_tokens = -1, .chunk = 2});
    assert_int_equal(r.result.stop, FOCAL_STOP_CALLER);
    assert_int_equal(r.prompt_calls, 2);
    assert_int_equal(r.token_calls, 0);
    assert_int_equal(r.result.prompt_tokens, 4);
    assert_int_equal(r.result.tokens, 0);
    assert_int_equal(focal_cache_length(r.cache, 0), 4); /* what was read stays */
    r.prompt_stop = 0;
    r.token_stop = 3;
    generate(&r, (focal_generate_args){.max_tokens = -1});
    assert_int_equal(r.result.stop, FOCAL_STOP_CALLER);
    assert_int_equal(r.token_calls, 3);
    assert_int_equal(r.result.tokens, 3);
    assert_string_equal(r.text, " over the lazy");
    assert_int_equal(focal_cache_length(r.cache, 0), r.prompt.count + 2);
    assert_string_equal(focal_stop_name(r.result.stop), "interrupted");
    /* And no callback at all is fine, nor a result. */
    const focal_generate_args bare = {
        .prompt = r.prompt.ids, .prompt_count = r.prompt.count, .max_tokens = 3};
    assert_status(r.ctx, focal_generate(r.model, r.cache, &bare, NULL), FOCAL_OK);
    close_rig(&r);
}

/* A conversation goes on from what the cache holds; the tokens are those of reading it all. */
static void a_kept_prefix_changes_nothing(void **state)
{
    rig r;
    int32_t ids[20];
    open_rig(*state, &r, "The lazy dog jumps over the quick brown fox");
    generate(&r, (focal_generate_args){.max_tokens = 20, .ignores_end = true});
    memcpy(ids, r.ids, sizeof ids);
    const int64_t total = r.prompt.count;
    for (int64_t shared = 1; shared < total; shared++) {
        r.prompt.count = shared;
        generate(&r, (focal_generate_args){.max_tokens = 5}); /* another answer, cut away again */
        assert_status(r.ctx, focal_cache_truncate(r.cache, 0, (int32_t)shared), FOCAL_OK);
        r.prompt.count = total - shared; /* for on_prompt */
        assert_status(r.ctx,
                      write_on(&r, (focal_generate_args){.prompt = r.prompt.ids + shared,
                                                         .prompt_count = total - shared,
                                                         .max_tokens = 20,
                                                         .ignores_end = true}),
                      FOCAL_OK);
        assert_ids(&r, ids, 20);
        r.prompt.count = total;
    }
    close_rig(&r);
}

static void sequences_are_apart(void **state)
{
    rig r;
    open_rig(*state, &r, "The quick");
    focal_cache_free(r.cache);
    const focal_cache_options options = {.sequences = 2};
    assert_status(r.ctx, focal_cache_new(r.model, &options, &r.cache), FOCAL_OK);
    generate(&r, (focal_generate_args){.max_tokens = 4});
    const int32_t held = focal_cache_length(r.cache, 0);
    assert_status(r.ctx, write_on(&r, (focal_generate_args){.sequence = 1, .max_tokens = 2}),
                  FOCAL_OK);
    assert_string_equal(r.text, " brown fox");
    assert_int_equal(focal_cache_length(r.cache, 0), held);
    assert_status(r.ctx, write_on(&r, (focal_generate_args){.sequence = 2, .max_tokens = 2}),
                  FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(r.ctx), "forward: sequence 2, the cache has 2");
    close_rig(&r);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    int32_t ids[60];
    for (int32_t threads = 1; threads <= 4; threads++) {
        rig r;
        focal_ctx *ctx = new_ctx(threads);
        open_rig(ctx, &r, "The quick brown fox jumps over");
        generate(&r, (focal_generate_args){.max_tokens = 60,
                                           .ignores_end = true,
                                           .sampling = {.temperature = 30.0F, .seed = 9}});
        if (threads == 1) memcpy(ids, r.ids, sizeof ids);
        assert_ids(&r, ids, 60);
        close_rig(&r);
        focal_ctx_close(ctx);
    }
}

static void bad_calls_are_refused(void **state)
{
    static char long_stop[4098];
    memset(long_stop, 'x', sizeof long_stop - 1);
    const char *const empty = "", *const inside = "\xA9", *const none = NULL,
                      *const lengthy = long_stop;
    const int32_t beyond[] = {1, 1 << 20}, negative[] = {-1};
    const struct {
        focal_generate_args args;
        const char *sentence;
    } cases[] = {
        {{.prompt = beyond, .prompt_count = 0}, "generate: the prompt is empty"},
        {{.prompt = beyond, .prompt_count = -3}, "generate: the prompt is empty"},
        {{.context = -1}, "generate: context -1, chunk 0, max_tokens 0"},
        {{.chunk = -1}, "generate: context 256, chunk -1, max_tokens 0"},
        {{.max_tokens = -2}, "generate: context 256, chunk 0, max_tokens -2"},
        {{.stop_count = 65, .stops = &empty}, "generate: 65 stop strings, at most 64"},
        {{.stop_count = -1}, "generate: -1 stop strings, at most 64"},
        {{.stop_count = 1}, "generate: 1 stop strings, at most 64"},
        {{.stop_count = 1, .stops = &empty}, "generate: a stop string of 0 bytes, 1 to 4096"},
        {{.stop_count = 1, .stops = &none}, "generate: a stop string of 0 bytes, 1 to 4096"},
        {{.stop_count = 1, .stops = &lengthy}, "generate: a stop string of 4097 bytes, 1 to 4096"},
        {{.stop_count = 1, .stops = &inside}, "generate: stop string 0 begins inside a character"},
        {{.sampling = {.temperature = -1.0F}}, "sampler: temperature -1, it must be 0 or more"},
        {{.prompt = beyond, .prompt_count = 2}, NULL},
        {{.prompt = negative, .prompt_count = 1}, NULL},
    };
    rig r;
    open_rig(*state, &r, "The");
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        assert_status(r.ctx, write_on(&r, cases[n].args), FOCAL_EINVAL);
        if (cases[n].sentence) assert_string_equal(focal_ctx_error(r.ctx), cases[n].sentence);
        assert_int_equal(focal_cache_length(r.cache, 0), 0);
        assert_int_equal(r.token_calls, 0);
    }
    assert_string_equal(focal_stop_name((focal_stop)9), "?");
    close_rig(&r);

    focal_model *model = NULL;
    focal_cache *cache = NULL;
    const int32_t id = 1;
    const focal_generate_args args = {.prompt = &id, .prompt_count = 1, .max_tokens = 1};
    assert_status(r.ctx,
                  focal_model_open(r.ctx, FOCAL_TEST_DIR "/golden/models/llama", NULL, &model),
                  FOCAL_OK);
    assert_status(r.ctx, focal_cache_new(model, NULL, &cache), FOCAL_OK);
    assert_status(r.ctx, focal_generate(model, cache, &args, NULL), FOCAL_EUNSUPPORTED);
    assert_string_equal(focal_ctx_error(r.ctx), "generate: the model has no tokenizer");
    focal_cache_free(cache);
    focal_model_close(model);
}

static void memory_may_run_out(void **state)
{
    rig r;
    const char *const stop = "lazy dogs";
    open_rig(*state, &r, "The quick");
    for (int64_t n = 1;; n++) {
        assert_true(n < 1000);
        assert_status(r.ctx, focal_cache_truncate(r.cache, 0, 0), FOCAL_OK);
        focal_ctx_trim(r.ctx);
        const int64_t live = memory_live_blocks();
        memory_fail(n, n % 2 == 0);
        const focal_status status =
            write_on(&r, (focal_generate_args){.max_tokens = -1, .stops = &stop, .stop_count = 1});
        const bool was_reached = memory_requests() >= n;
        memory_fail(0, false);
        if (status != FOCAL_OK) assert_status(r.ctx, status, FOCAL_ENOMEM);
        assert_status(r.ctx, focal_cache_truncate(r.cache, 0, 0), FOCAL_OK);
        focal_ctx_trim(r.ctx);
        assert_true(memory_live_blocks() <= live + 3); /* the cache keeps its three tables */
        if (!was_reached) break;
    }
    assert_string_equal(r.text, " brown fox jumps over the lazy dog.");
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(greedy_is_pass_and_argmax, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(the_prompt_comes_in_chunks, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(sampling_is_the_samplers, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(stop_strings_end_the_text, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(end_tokens_end_it, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(characters_stay_whole, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(the_context_ends_it, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(callbacks_may_stop_it, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_kept_prefix_changes_nothing, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(sequences_are_apart, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(threads_change_nothing, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_calls_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_run_out, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("generate", tests, NULL, NULL);
}
