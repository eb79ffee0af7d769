/* The tiny model: two passes over its keys and tensors, the first of which counts. */
#include "support/tiny_gguf.h"

#include "support/check.h"

#include <stdio.h>
#include <string.h>

enum { C = 8, V = 8, F = 8, D = 4, Q = 2 * D, ALIGNMENT = 32, MOST_DATA = 32 };

typedef struct tiny_tensor {
    const char *name;
    uint64_t columns, rows; /* rows 1: a vector */
    uint32_t type;
    float first;
} tiny_tensor;

/* The first stands under "general", the others under the family's name. */
static const struct {
    const char *name;
    uint32_t value;
} keys[] = {
    {".architecture", 0},
    {".block_count", 1},
    {".context_length", 32},
    {".embedding_length", C},
    {".feed_forward_length", F},
    {".attention.head_count", 2},
    {".attention.head_count_kv", 1}, /* GPT-2 has as many as others */
};

static const tiny_tensor llama[] = {
    {"token_embd.weight", C, V, 0, 0},      {"output_norm.weight", C, 1, 0, 0},
    {"blk.0.attn_norm.weight", C, 1, 0, 0}, {"blk.0.ffn_norm.weight", C, 1, 0, 0},
    {"blk.0.attn_q.weight", C, Q, 0, 0},    {"blk.0.attn_k.weight", C, D, 0, 0},
    {"blk.0.attn_v.weight", C, D, 0, 0},    {"blk.0.attn_output.weight", C, C, 0, 0},
    {"blk.0.ffn_gate.weight", C, F, 0, 0},  {"blk.0.ffn_up.weight", C, F, 0, 0},
    {"blk.0.ffn_down.weight", F, C, 0, 0},
};

static const tiny_tensor gpt2[] = {
    {"token_embd.weight", C, V, 0, 0},      {"position_embd.weight", C, 32, 0, 0},
    {"output_norm.weight", C, 1, 0, 0},     {"output_norm.bias", C, 1, 0, 0},
    {"blk.0.attn_norm.weight", C, 1, 0, 0}, {"blk.0.ffn_norm.weight", C, 1, 0, 0},
    {"blk.0.attn_qkv.weight", C, 24, 0, 0}, {"blk.0.attn_output.weight", C, C, 0, 0},
    {"blk.0.ffn_up.weight", C, F, 0, 0},    {"blk.0.ffn_down.weight", F, C, 0, 0},
};

uint64_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void put_edit_key(gguf_bytes *b, const tiny_edit *edit)
{
    if (edit->type == KEY_TEXT)
        put_text_key(b, edit->key, edit->text);
    else
        put_number_key(b, edit->key, edit->type, edit->value);
}

/* Puts the keys; returns how many. */
static uint64_t put_keys(gguf_bytes *b, const char *family, const tiny_edit *edit)
{
    const size_t key_count = FOCAL_COUNT(keys) - (strcmp(family, "gpt2") == 0 ? 1 : 0);
    uint64_t count = 0;
    bool is_met = !edit->key;
    for (size_t n = 0; n < key_count; n++) {
        char name[128];
        (void)snprintf(name, sizeof name, "%s%s", n == 0 ? "general" : family, keys[n].name);
        if (edit->key && strcmp(edit->key, name) == 0) {
            is_met = true;
            if (edit->is_dropped) continue;
            put_edit_key(b, edit);
        } else if (n == 0) {
            put_text_key(b, name, family);
        } else {
            put_number_key(b, name, KEY_U32, keys[n].value);
        }
        count++;
    }
    if (is_met) return count;
    put_edit_key(b, edit);
    return count + 1;
}

static size_t tensor_bytes(const tiny_tensor *t)
{
    return t->columns * t->rows * (t->type == 0 ? 4 : 2);
}

static void put_info(gguf_bytes *b, const tiny_tensor *t, size_t offset)
{
    put_string(b, t->name);
    put_number(b, t->rows > 1 ? 2 : 1, 4);
    put_number(b, t->columns, 8);
    if (t->rows > 1) put_number(b, t->rows, 8);
    put_number(b, t->type, 4);
    put_number(b, offset, 8);
}

static void put_data(gguf_bytes *b, const tiny_tensor *t)
{
    for (uint64_t n = 0; n < t->columns * t->rows; n++) {
        const float value = (float)(n * 7 % 5) / 4.0F - 0.25F;
        const uint64_t bits = bits_of(n == 0 && t->first != 0.0F ? t->first : value);
        put_number(b, t->type == 0 ? bits : 0x3800, t->type == 0 ? 4 : 2);
    }
    put_padding(b, ALIGNMENT);
}

/* The family's tensors as the edit leaves them; returns how many. */
static size_t list_tensors(const char *family, const tiny_edit *edit, tiny_tensor list[MOST_DATA])
{
    const bool is_gpt2 = strcmp(family, "gpt2") == 0;
    const tiny_tensor *base = is_gpt2 ? gpt2 : llama;
    const size_t base_count = is_gpt2 ? FOCAL_COUNT(gpt2) : FOCAL_COUNT(llama);
    bool is_met = !edit->tensor;
    size_t count = 0;
    for (size_t n = 0; n < base_count + 1; n++) {
        tiny_tensor t = {edit->tensor, 1, 1, 0, 0};
        if (n == base_count && is_met) break;
        if (n < base_count) t = base[n];
        if (edit->tensor && strcmp(t.name, edit->tensor) == 0) {
            is_met = true;
            if (edit->is_dropped) continue;
            if (edit->columns) t.columns = edit->columns;
            if (edit->rows) t.rows = edit->rows;
            if (edit->renamed) t.name = edit->renamed;
            t.type = edit->tensor_type;
            t.first = edit->first;
        }
        list[count++] = t;
    }
    return count;
}

void tiny_gguf(gguf_bytes *b, const char *family, const tiny_edit *edit)
{
    static const tiny_edit none = {.key = NULL};
    tiny_tensor list[MOST_DATA];
    if (!edit) edit = &none;
    const size_t count = list_tensors(family, edit, list);
    *b = (gguf_bytes){.count = 0};
    put_header(b, count, 0);
    set_number(b, 16, put_keys(b, family, edit), 8);
    size_t offset = 0;
    for (size_t n = 0; n < count; n++) {
        put_info(b, &list[n], offset);
        offset += (tensor_bytes(&list[n]) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    put_padding(b, ALIGNMENT);
    for (size_t n = 0; n < count; n++) put_data(b, &list[n]);
}
