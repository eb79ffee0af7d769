/* Weights that are not what the configuration says: one tensor of a good file changed at a time,
 * each refused with the file, the tensor and both shapes; and files cut or bent at every byte. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "focal/model.h"
#include "support/folder.h"
#include "support/memory_model.h"
#include "support/tiny_gguf.h"

typedef struct tensor_fault {
    tiny_edit edit;
    focal_status status;
    const char *sentence; /* behind "bad.gguf: " */
} tensor_fault;

/* clang-format off */
static const tensor_fault llama_faults[] = {
    {{.tensor = NULL}, FOCAL_OK, ""},

    /* Missing: each one that a model needs. */
    {{.tensor = "token_embd.weight", .is_dropped = true}, FOCAL_EFORMAT, "the tensor 'token_embd.weight' is missing"},
    {{.tensor = "output_norm.weight", .is_dropped = true}, FOCAL_EFORMAT, "the tensor 'output_norm.weight' is missing"},
    {{.tensor = "blk.0.attn_norm.weight", .is_dropped = true}, FOCAL_EFORMAT, "the tensor 'blk.0.attn_norm.weight' is missing"},
    {{.tensor = "blk.0.ffn_norm.weight", .is_dropped = true}, FOCAL_EFORMAT, "the tensor 'blk.0.ffn_norm.weight' is missing"},
    {{.tensor = "blk.0.attn_q.weight", .is_dropped = true}, FOCAL_EFORMAT, "the tensor 'blk.0.attn_q.weight' is missing"},
    {{.tensor = "blk.0.attn_k.weight", .is_dropped = true}, FOCAL_EFORMAT, "the tensor 'blk.0.attn_k.weight' is missing"},
    {{.tensor = "blk.0.attn_v.weight", .is_dropped = true}, FOCAL_EFORMAT, "the tensor 'blk.0.attn_v.weight' is missing"},
    {{.tensor = "blk.0.attn_output.weight", .is_dropped = true}, FOCAL_EFORMAT, "the tensor 'blk.0.attn_output.weight' is missing"},
    {{.tensor = "blk.0.ffn_gate.weight", .is_dropped = true}, FOCAL_EFORMAT, "the tensor 'blk.0.ffn_gate.weight' is missing"},
    {{.tensor = "blk.0.ffn_up.weight", .is_dropped = true}, FOCAL_EFORMAT, "the tensor 'blk.0.ffn_up.weight' is missing"},
    {{.tensor = "blk.0.ffn_down.weight", .is_dropped = true}, FOCAL_EFORMAT, "the tensor 'blk.0.ffn_down.weight' is missing"},
    {{.tensor = "blk.0.attn_q.weight", .renamed = "blk.1.attn_q.weight"}, FOCAL_EFORMAT, "the tensor 'blk.0.attn_q.weight' is missing"},
    {{.key = "llama.block_count", .type = KEY_U32, .value = 2}, FOCAL_EFORMAT, "the tensor 'blk.1.attn_norm.weight' is missing"},
    {{.key = "llama.block_count", .type = KEY_U32, .value = 512}, FOCAL_EFORMAT, "the tensor 'blk.1.attn_norm.weight' is missing"},
    {{.key = "general.architecture", .type = KEY_TEXT, .text = "gpt2"}, FOCAL_EFORMAT, "the key 'gpt2.block_count' is missing"},

    /* Shapes: too small, too large, turned round, of another dimension. */
    {{.tensor = "token_embd.weight", .columns = 9}, FOCAL_EFORMAT, "tensor 'token_embd.weight' is 8 x 9, the configuration says 8 x 8"},
    {{.tensor = "token_embd.weight", .columns = 64, .rows = 1}, FOCAL_EFORMAT, "vocabulary 0, it must be 1 to 4194304"},
    {{.tensor = "output_norm.weight", .columns = 7}, FOCAL_EFORMAT, "tensor 'output_norm.weight' is 1 x 7, the configuration says 1 x 8"},
    {{.tensor = "output_norm.weight", .columns = 4, .rows = 2}, FOCAL_EFORMAT, "tensor 'output_norm.weight' is 2 x 4, the configuration says 1 x 8"},
    {{.tensor = "blk.0.attn_norm.weight", .columns = 16}, FOCAL_EFORMAT, "tensor 'blk.0.attn_norm.weight' is 1 x 16, the configuration says 1 x 8"},
    {{.tensor = "blk.0.attn_k.weight", .columns = 8, .rows = 8}, FOCAL_EFORMAT, "tensor 'blk.0.attn_k.weight' is 8 x 8, the configuration says 4 x 8"},
    {{.tensor = "blk.0.attn_k.weight", .columns = 4, .rows = 8}, FOCAL_EFORMAT, "tensor 'blk.0.attn_k.weight' is 8 x 4, the configuration says 4 x 8"},
    {{.tensor = "blk.0.attn_v.weight", .columns = 32, .rows = 1}, FOCAL_EFORMAT, "tensor 'blk.0.attn_v.weight' is 1 x 32, the configuration says 4 x 8"},
    {{.tensor = "blk.0.ffn_down.weight", .columns = 8, .rows = 7}, FOCAL_EFORMAT, "tensor 'blk.0.ffn_down.weight' is 7 x 8, the configuration says 8 x 8"},
    {{.tensor = "output.weight", .columns = 8, .rows = 9}, FOCAL_EFORMAT, "tensor 'output.weight' is 9 x 8, the configuration says 8 x 8"},
    {{.tensor = "blk.0.attn_q.bias", .columns = 7}, FOCAL_EFORMAT, "tensor 'blk.0.attn_q.bias' is 1 x 7, the configuration says 1 x 8"},

    /* What a model has and we would leave out. */
    {{.tensor = "blk.0.attn_sinks.weight", .columns = 2}, FOCAL_EUNSUPPORTED, "1 of its 12 tensors have no place in a llama model"},
    {{.tensor = "blk.0.attn_q_norm.weight", .columns = 4}, FOCAL_EUNSUPPORTED, "1 of its 12 tensors have no place in a llama model"},
    {{.tensor = "blk.0.attn_norm.bias", .columns = 8}, FOCAL_EUNSUPPORTED, "1 of its 12 tensors have no place in a llama model"},
    {{.tensor = "blk.1.attn_norm.weight", .columns = 8}, FOCAL_EUNSUPPORTED, "1 of its 12 tensors have no place in a llama model"},
    {{.tensor = "token_embd.bias", .columns = 8}, FOCAL_EUNSUPPORTED, "1 of its 12 tensors have no place in a llama model"},
    {{.tensor = "position_embd.weight", .columns = 8, .rows = 32}, FOCAL_EUNSUPPORTED, "1 of its 12 tensors have no place in a llama model"},

    /* And what it may have. */
    {{.tensor = "output.weight", .columns = 8, .rows = 8}, FOCAL_OK, ""},
    {{.tensor = "output.bias", .columns = 8}, FOCAL_EUNSUPPORTED, "1 of its 12 tensors have no place in a llama model"},
    {{.tensor = "blk.0.attn_q.bias", .columns = 8}, FOCAL_OK, ""},
    {{.tensor = "blk.0.ffn_down.bias", .columns = 8}, FOCAL_OK, ""},
    {{.tensor = "blk.0.attn_q.weight", .tensor_type = 1}, FOCAL_OK, ""},
    {{.tensor = "output_norm.weight", .tensor_type = 1}, FOCAL_OK, ""},
    {{.tensor = "rope_freqs.weight", .columns = 2}, FOCAL_EFORMAT, "element 0 of 'rope_freqs.weight' is -0.25, it must be above 0"},
    {{.tensor = "rope_freqs.weight", .columns = 1, .first = 2.0F}, FOCAL_EFORMAT, "'rope_freqs.weight' must be 2 numbers in f32"},
    {{.tensor = "rope_freqs.weight", .columns = 2, .rows = 2}, FOCAL_EFORMAT, "'rope_freqs.weight' must be 2 numbers in f32"},
    {{.tensor = "rope_freqs.weight", .columns = 2, .tensor_type = 1}, FOCAL_EFORMAT, "'rope_freqs.weight' must be 2 numbers in f32"},
    {{.tensor = "rope_freqs.weight", .columns = 2, .first = (float)NAN}, FOCAL_EFORMAT, "element 0 of 'rope_freqs.weight' is "},
    {{.tensor = "rope_freqs.weight", .columns = 2, .first = (float)INFINITY}, FOCAL_EFORMAT, "element 0 of 'rope_freqs.weight' is inf, "},
    {{.tensor = "rope_freqs.weight", .columns = 2, .first = 2.0F}, FOCAL_OK, ""},

    /* Numbers that are none, where they would spoil every token. */
    {{.tensor = "output_norm.weight", .first = (float)NAN}, FOCAL_EFORMAT, "element 0 of 'output_norm.weight' is not a number"},
    {{.tensor = "output_norm.weight", .first = (float)INFINITY}, FOCAL_EFORMAT, "element 0 of 'output_norm.weight' is infinite"},
    {{.tensor = "blk.0.ffn_norm.weight", .first = (float)-INFINITY}, FOCAL_EFORMAT, "element 0 of 'blk.0.ffn_norm.weight' is infinite"},
    {{.tensor = "blk.0.attn_q.bias", .columns = 8, .first = (float)NAN}, FOCAL_EFORMAT, "element 0 of 'blk.0.attn_q.bias' is not a number"},
};

static const tensor_fault gpt2_faults[] = {
    {{.tensor = NULL}, FOCAL_OK, ""},
    {{.tensor = "position_embd.weight", .is_dropped = true}, FOCAL_EFORMAT, "the tensor 'position_embd.weight' is missing"},
    {{.tensor = "position_embd.weight", .columns = 8, .rows = 31}, FOCAL_EFORMAT, "tensor 'position_embd.weight' is 31 x 8, the configuration says 32 x 8"},
    {{.tensor = "position_embd.bias", .columns = 32}, FOCAL_EUNSUPPORTED, "1 of its 11 tensors have no place in a gpt2 model"},
    {{.tensor = "blk.0.attn_qkv.weight", .columns = 8, .rows = 16}, FOCAL_EFORMAT, "tensor 'blk.0.attn_qkv.weight' is 16 x 8, the configuration says 24 x 8"},
    {{.tensor = "blk.0.attn_qkv.bias", .columns = 24}, FOCAL_OK, ""},
    {{.tensor = "blk.0.ffn_gate.weight", .columns = 8, .rows = 8}, FOCAL_EUNSUPPORTED, "1 of its 11 tensors have no place in a gpt2 model"},
    {{.tensor = "output_norm.bias", .first = (float)NAN}, FOCAL_EFORMAT, "element 0 of 'output_norm.bias' is not a number"},
    {{.tensor = "output_norm.bias", .columns = 9}, FOCAL_EFORMAT, "tensor 'output_norm.bias' is 1 x 9, the configuration says 1 x 8"},
    {{.key = "gpt2.context_length", .type = KEY_U32, .value = 33}, FOCAL_EFORMAT, "tensor 'position_embd.weight' is 32 x 8, the configuration says 33 x 8"},
};
/* clang-format on */

/* Opens bytes as a model and, when that goes well, reads three tokens. */
static focal_status run_bytes(focal_ctx *ctx, const gguf_bytes *b, size_t bytes)
{
    foci_map map = exact_copy(b, bytes);
    foci_gguf *gguf = NULL;
    focal_model model;
    static float logits[1 << 10];
    focal_status status = foci_gguf_from_memory(ctx, "bad.gguf", &map, 1, &gguf);
    if (status == FOCAL_OK) status = memory_model_from_gguf(ctx, gguf, FOCAL_F32, &model);
    if (status == FOCAL_OK) {
        assert_true(memory_model_is_small(&model.config));
        status = memory_model_run(&model, logits);
        memory_model_release(&model);
    }
    foci_gguf_close(gguf);
    exact_free(&map);
    return status;
}

static int check_faults(focal_ctx *ctx, const char *family, const tensor_fault *faults,
                        size_t count)
{
    int wrong = 0;
    for (size_t n = 0; n < count; n++) {
        const tensor_fault *f = &faults[n];
        gguf_bytes b;
        tiny_gguf(&b, family, &f->edit);
        focal_ctx_trim(ctx);
        const int64_t live = memory_live_blocks();
        const focal_status status = run_bytes(ctx, &b, b.count);
        focal_ctx_trim(ctx);
        assert_int_equal(memory_live_blocks(), live);
        const char *message = status == FOCAL_OK ? "bad.gguf: " : focal_ctx_error(ctx);
        const size_t prefix = strlen("bad.gguf: ");
        if (status == f->status && strncmp(message, "bad.gguf: ", prefix) == 0 &&
            strncmp(message + prefix, f->sentence, strlen(f->sentence)) == 0)
            continue;
        print_error("%s, row %zu: status %d, %s\n", family, n, (int)status, message);
        wrong++;
    }
    return wrong;
}

static void wrong_tensors_are_told(void **state)
{
    int wrong = check_faults(*state, "llama", llama_faults, FOCAL_COUNT(llama_faults));
    wrong += check_faults(*state, "gpt2", gpt2_faults, FOCAL_COUNT(gpt2_faults));
    assert_int_equal(wrong, 0);
}

/* A whole model that ends too early, at every byte. */
static void every_cut_is_told(void **state)
{
    focal_ctx *ctx = *state;
    gguf_bytes b;
    tiny_gguf(&b, "llama", NULL);
    assert_status(ctx, run_bytes(ctx, &b, b.count), FOCAL_OK);
    for (size_t bytes = 0; bytes < b.count; bytes++)
        assert_status(ctx, run_bytes(ctx, &b, bytes), FOCAL_EFORMAT);
}

/* Any one byte may be anything: a sentence, or a pass that ends. */
static void no_byte_crashes_a_model(void **state)
{
    (void)state;
    focal_ctx *ctx = new_ctx(1); /* a thread has nothing to share in so small a model */
    static const uint8_t values[] = {0, 1, 0xFF};
    static const char *const families[] = {"llama", "gpt2"};
    for (size_t f = 0; f < FOCAL_COUNT(families); f++) {
        gguf_bytes b;
        int opened = 0;
        tiny_gguf(&b, families[f], NULL);
        for (size_t at = 0; at < b.count; at++) {
            const uint8_t kept = b.data[at];
            for (size_t n = 0; n < FOCAL_COUNT(values); n++) {
                b.data[at] = values[n];
                const focal_status status = run_bytes(ctx, &b, b.count);
                opened += status == FOCAL_OK;
                if (status != FOCAL_OK) assert_status(ctx, status, status);
            }
            b.data[at] = kept;
        }
        print_message("%s: %d of %zu files opened and ran\n", families[f], opened, 3 * b.count);
        assert_true(opened > 100); /* weights may be anything */
    }
    focal_ctx_close(ctx);
}

/* A Hugging Face file with bytes of its header replaced by as many others. */
static void wrong_safetensors_are_told(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *from, *to;
        focal_status status;
        const char *sentence;
    } rows[] = {
        {"\"model.norm.weight\"", "\"model.nurm.weight\"", FOCAL_EFORMAT,
         "the tensor 'model.norm.weight' is missing"},
        {"\"model.norm.weight\":{\"dtype\":\"F32\"", "\"model.norm.weight\":{\"dtype\":\"I32\"",
         FOCAL_EUNSUPPORTED,
         "tensor 'model.norm.weight' is of type I32, read are F32, F16 and BF16"},
        {"\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[96,32]",
         "\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[32,96]", FOCAL_EFORMAT,
         "tensor 'model.embed_tokens.weight' is 32 x 96, the configuration says 96 x 32"},
        {"\"model.layers.1.mlp.up_proj.weight\"", "\"model.layers.2.mlp.up_proj.weight\"",
         FOCAL_EFORMAT, "the tensor 'model.layers.1.mlp.up_proj.weight' is missing"},
    };
    const folder f = folder_new();
    size_t bytes = 0;
    char *config = read_bytes(FOCAL_TEST_DIR "/golden/models/llama/config.json", &bytes);
    write_bytes(folder_file(&f, "config.json"), config, bytes);
    free(config);
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        focal_model *model = NULL;
        char *data = read_bytes(FOCAL_TEST_DIR "/golden/models/llama/model.safetensors", &bytes);
        char *place = memmem(data, bytes, rows[n].from, strlen(rows[n].from));
        assert_non_null(place);
        assert_int_equal(strlen(rows[n].from), strlen(rows[n].to));
        memcpy(place, rows[n].to, strlen(rows[n].to));
        write_bytes(folder_file(&f, "model.safetensors"), data, bytes);
        free(data);
        assert_status(ctx, focal_model_open(ctx, f.path, NULL, &model), rows[n].status);
        assert_null(model);
        if (!strstr(focal_ctx_error(ctx), "/model.safetensors: ") ||
            !strstr(focal_ctx_error(ctx), rows[n].sentence))
            fail_msg("row %zu: '%s'", n, focal_ctx_error(ctx));
    }
    folder_remove(&f);
}

/* A copy of a file in which the embedding and the head lack their last row. */
static void write_without_last(focal_ctx *ctx, const char *from, const char *to)
{
    foci_gguf *gguf = NULL;
    foci_gguf_writer *writer = NULL;
    assert_status(ctx, foci_gguf_open(ctx, from, &gguf), FOCAL_OK);
    assert_status(ctx, foci_gguf_writer_new(ctx, &writer), FOCAL_OK);
    const int64_t V = foci_gguf_tensor(gguf, "token_embd.weight")->shape[0];
    for (int64_t n = 0; n < foci_gguf_key_count(gguf); n++) {
        char key[FOCI_GGUF_KEY_BYTES + 1];
        const foci_text text = foci_gguf_key(gguf, n);
        (void)snprintf(key, sizeof key, "%.*s", (int)text.bytes, text.data);
        assert_status(ctx, foci_gguf_put_copy(writer, gguf, key), FOCAL_OK);
    }
    for (int64_t n = 0; n < foci_gguf_tensor_count(gguf); n++) {
        foci_tensor tensor = *foci_gguf_tensor_at(gguf, n);
        if (tensor.shape[0] == V) {
            tensor.bytes -= tensor.bytes / (size_t)V;
            tensor.shape[0]--;
        }
        assert_status(ctx, foci_gguf_put_tensor(writer, &tensor), FOCAL_OK);
    }
    assert_status(ctx, foci_gguf_writer_commit(writer, to, NULL, NULL), FOCAL_OK);
    foci_gguf_writer_free(writer);
    foci_gguf_close(gguf);
}

/* A tokenizer may not have more ids than the embedding has rows. */
static void the_vocabulary_fits_the_embedding(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "small.gguf");
    focal_model *model = NULL;
    char expected[256];
    const char *tiny = FOCAL_TEST_DIR "/golden/models/tiny.gguf";
    assert_status(ctx, focal_model_open(ctx, tiny, NULL, &model), FOCAL_OK);
    const int32_t V = focal_model_describe(model).V;
    focal_model_close(model);
    write_without_last(ctx, tiny, path);
    assert_status(ctx, focal_model_open(ctx, path, NULL, &model), FOCAL_EFORMAT);
    (void)snprintf(expected, sizeof expected, "%s: a tokenizer of %d ids, a model of %d", path, V,
                   V - 1);
    assert_string_equal(focal_ctx_error(ctx), expected);
    folder_remove(&f);
}

/* Every allocation of binding fails once. */
static void memory_may_run_out(void **state)
{
    focal_ctx *ctx = *state;
    gguf_bytes b;
    const tiny_edit edit = {.tensor = "rope_freqs.weight", .columns = 2, .first = 2.0F};
    tiny_gguf(&b, "llama", &edit);
    for (int64_t n = 1;; n++) {
        assert_true(n < 1000);
        focal_ctx_trim(ctx);
        const int64_t live = memory_live_blocks();
        memory_fail(n, n % 2 == 0);
        const focal_status status = run_bytes(ctx, &b, b.count);
        const bool was_reached = memory_requests() >= n;
        memory_fail(0, false);
        if (status != FOCAL_OK) assert_status(ctx, status, status);
        focal_ctx_trim(ctx);
        assert_int_equal(memory_live_blocks(), live);
        if (!was_reached) break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wrong_tensors_are_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(every_cut_is_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(no_byte_crashes_a_model, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(wrong_safetensors_are_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(the_vocabulary_fits_the_embedding, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_run_out, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("weights_bad", tests, NULL, NULL);
}
