/* Any text through small tokenizers of each kind: the first byte picks one. Byte-level and
 * byte-fallback ones must give the text back, every id must be one of the vocabulary's, plain text
 * must make no control token, a text in two runs must stream as it decodes whole. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "text/tokenizer.h"

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 600, KINDS = 6 };

/* A vocabulary in the making. */
typedef struct builder {
    char store[MOST][24];
    foci_text tokens[MOST];
    int64_t types[MOST];
    float scores[MOST];
    foci_text merges[MOST];
    char merge_store[MOST][24];
    foci_vocab_source source;
} builder;

static void put(builder *b, const char *text, size_t bytes, focal_token_kind kind, float score)
{
    const int64_t id = b->source.token_count++;
    memcpy(b->store[id], text, bytes);
    b->tokens[id] = (foci_text){b->store[id], bytes};
    b->types[id] = kind;
    b->scores[id] = score;
}

/* The character that byte-level vocabularies write for a byte. */
static size_t level_of(int byte, char *out)
{
    int32_t c = byte;
    const bool prints = (byte > ' ' && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    if (!prints) c = byte <= ' ' ? 0x100 + byte : byte == 0xAD ? 0x143 : 0x121 + byte - 0x7F;
    return foci_utf8_encode(c, out);
}

static void put_merge(builder *b, const char *left, const char *right)
{
    const int64_t n = b->source.merge_count++;
    char joined[24];
    const int length = snprintf(b->merge_store[n], sizeof b->merge_store[n], "%s %s", left, right);
    b->merges[n] = (foci_text){b->merge_store[n], (size_t)length};
    (void)snprintf(joined, sizeof joined, "%s%s", left, right);
    put(b, joined, strlen(joined), FOCAL_TOKEN_NORMAL, 0);
}

static void fill_byte_level(builder *b)
{
    static const char *const merges[][2] = {{"a", "a"},
                                            {"aa", "aa"},
                                            {"t", "h"},
                                            {"th", "e"},
                                            {"\u0120", "the"},
                                            {"\u0120", "a"},
                                            {"1", "2"},
                                            {"\u010A", "\u010A"},
                                            {"\u0120", "\u0120"},
                                            {"\u00C3", "\u00A9"},
                                            {"'", "s"},
                                            {"a", "b"},
                                            {"\u0120\u0120", "\u0120\u0120"},
                                            {"b", "a"},
                                            {"ab", "ab"}};
    put(b, "<|end|>", 7, FOCAL_TOKEN_CONTROL, 0);
    put(b, "<user>", 6, FOCAL_TOKEN_USER, 0);
    for (int byte = 0; byte < 256; byte++) {
        char level[FOCI_UTF8_MOST];
        put(b, level, level_of(byte, level), FOCAL_TOKEN_NORMAL, 0);
    }
    for (size_t n = 0; n < sizeof merges / sizeof merges[0]; n++)
        put_merge(b, merges[n][0], merges[n][1]);
}

static void fill_sentencepiece(builder *b)
{
    static const char *const pieces[] = {
        "a",       "aa",     "aaa",    "aaaa",      "b",       "ab",           "t",      "h", "e",
        "th",      "the",    "\u2581", "\u2581the", "\u2581a", "\u2581\u2581", "\u00E9", "1", "12",
        "a\u2581", "\u4E2D", "\n",     "\n\n"};
    put(b, "<unk>", 5, FOCAL_TOKEN_UNKNOWN, 0);
    put(b, "<s>", 3, FOCAL_TOKEN_CONTROL, 0);
    put(b, "<user>", 6, FOCAL_TOKEN_USER, 0);
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        (void)snprintf(name, sizeof name, "<0x%02X>", byte);
        put(b, name, 6, FOCAL_TOKEN_BYTE, 0);
    }
    for (size_t n = 0; n < sizeof pieces / sizeof pieces[0]; n++)
        put(b, pieces[n], strlen(pieces[n]), FOCAL_TOKEN_NORMAL, -(float)((n * 7) % 23));
}

static focal_tokenizer *make(focal_ctx *ctx, int kind)
{
    static const char *const pres[] = {"gpt-2", "llama-bpe", "qwen2", "smollm", "deepseek-v3"};
    focal_tokenizer *tokenizer = NULL;
    builder *b = calloc(1, sizeof *b);
    if (!b) abort();
    b->source = (foci_vocab_source){.what = "fuzz",
                                    .tokens = b->tokens,
                                    .types = b->types,
                                    .scores = b->scores,
                                    .merges = b->merges,
                                    .bos = 0,
                                    .eos = -1,
                                    .eot = -1,
                                    .unk = 0,
                                    .pad = -1,
                                    .add_bos = 0,
                                    .add_eos = 0,
                                    .add_space_prefix = 0};
    if (kind == KINDS - 1)
        fill_sentencepiece(b);
    else
        fill_byte_level(b);
    b->source.model = kind == KINDS - 1 ? (foci_text){"llama", 5} : (foci_text){"gpt2", 4};
    if (kind < KINDS - 1) b->source.pre = (foci_text){pres[kind], strlen(pres[kind])};
    if (foci_tokenizer_from_source(ctx, &b->source, &tokenizer) != FOCAL_OK) {
        (void)fprintf(stderr, "%s\n", focal_ctx_error(ctx));
        abort();
    }
    free(b);
    return tokenizer;
}

/* SentencePiece's own sign for a space comes back as one. */
static bool has_sign(const char *text, size_t bytes)
{
    return memmem(text, bytes, "\xE2\x96\x81", 3) != NULL;
}

static void check_ids(const focal_tokenizer *t, const focal_ids *ids)
{
    for (int64_t n = 0; n < ids->count; n++) {
        if (ids->ids[n] < 0 || ids->ids[n] >= focal_tokenizer_size(t)) abort();
        if (focal_tokenizer_token(t, ids->ids[n]).kind == FOCAL_TOKEN_CONTROL) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static focal_ctx *ctx; /* these two live as long as the process; nothing else is kept */
    static focal_tokenizer *tokenizers[KINDS];
    const focal_ctx_options options = {.threads = 1};
    if (!ctx && focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) abort();
    if (size == 0) return 0;
    const int kind = data[0] % KINDS;
    if (!tokenizers[kind]) tokenizers[kind] = make(ctx, kind);
    const focal_tokenizer *t = tokenizers[kind];
    const char *text = (const char *)data + 1;
    const size_t bytes = size - 1;
    focal_ids ids = {0}, parsed = {0};
    focal_buffer whole = {0}, valid = {0}, streamed = {0};
    focal_text_stream stream = {0};
    size_t left = 0;
    if (focal_tokenizer_encode(ctx, t, text, bytes, 0, &ids) != FOCAL_OK) abort();
    check_ids(t, &ids);
    if (focal_tokenizer_encode(ctx, t, text, bytes, FOCAL_ENCODE_PARSE_SPECIAL, &parsed) !=
        FOCAL_OK)
        abort();
    if (focal_tokenizer_decode(ctx, t, parsed.ids, parsed.count, 0, &whole) != FOCAL_OK) abort();
    whole.bytes = 0;
    if (focal_tokenizer_decode(ctx, t, ids.ids, ids.count, 0, &whole) != FOCAL_OK) abort();
    if (kind < KINDS - 1 || !has_sign(text, bytes)) {
        if (whole.bytes != bytes || (bytes && memcmp(whole.data, text, bytes) != 0)) abort();
    }
    if (foci_repair(ctx, whole.data, whole.bytes, &valid, &left) != FOCAL_OK) abort();
    for (int64_t n = 0; n < ids.count; n++)
        if (focal_text_stream_push(ctx, t, &stream, ids.ids[n], &streamed) != FOCAL_OK) abort();
    if (foci_utf8_valid(streamed.data, streamed.bytes) != streamed.bytes) abort();
    if (streamed.bytes != valid.bytes || (size_t)stream.held_count != left) abort();
    if (valid.bytes && memcmp(streamed.data, valid.data, valid.bytes) != 0) abort();
    focal_ids_free(ctx, &ids);
    focal_ids_free(ctx, &parsed);
    focal_buffer_free(ctx, &whole);
    focal_buffer_free(ctx, &valid);
    focal_buffer_free(ctx, &streamed);
    return 0;
}
