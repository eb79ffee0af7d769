/* Any bytes as a file of multiple choice, whole and in pieces whose size the first byte gives: both
 * are refused with the same sentence, or give the same items, and these are what they promise. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/mc_file.h"

enum { SENTENCE = 512 };

static void require(int is_true, const char *what)
{
    if (is_true) return;
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

/* A set, or NULL and a sentence. */
static focal_mc_set *read_set(focal_ctx *ctx, const char *text, size_t bytes, size_t piece,
                              char *sentence)
{
    const focal_mc_source source = {.path = "items", .limit = 5};
    foci_mc_reader reader = {.ctx = ctx, .source = &source};
    if (foci_mc_set_new(ctx, "items", &reader.set) != FOCAL_OK) abort();
    focal_status status = FOCAL_OK;
    for (size_t at = 0, take; status == FOCAL_OK && at < bytes; at += take) {
        take = bytes - at < piece ? bytes - at : piece;
        status = foci_mc_reader_put(&reader, text + at, take);
    }
    if (status == FOCAL_OK) status = foci_mc_reader_put(&reader, NULL, 0);
    foci_mc_reader_free(&reader);
    if (status == FOCAL_OK) return reader.set;
    (void)snprintf(sentence, SENTENCE, "%s", focal_ctx_error(ctx));
    require(sentence[0] != '\0', "a failure without a sentence");
    focal_mc_close(reader.set);
    return NULL;
}

static int is_equal(focal_mc_text a, focal_mc_text b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

static void compare_items(const focal_mc_item *a, const focal_mc_item *b)
{
    require(a->choice_count >= 2 && a->choice_count <= FOCAL_MC_CHOICES_MOST, "choices");
    require(a->answer >= 0 && a->answer < a->choice_count, "an answer that is no choice");
    require(a->choice_count == b->choice_count && a->answer == b->answer && a->line == b->line &&
                is_equal(a->id, b->id),
            "pieces change an item");
    for (int32_t n = 0; n < a->choice_count; n++) {
        require(a->choices[n].bytes > 0, "an empty choice");
        require(is_equal(a->choices[n], b->choices[n]) && is_equal(a->contexts[n], b->contexts[n]),
                "pieces change a text");
    }
}

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static focal_ctx *ctx; /* opened once */
    const focal_ctx_options options = {.threads = 1};
    char whole_sentence[SENTENCE] = "", sentence[SENTENCE] = "";
    if (!ctx && focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) abort();
    if (size < 2) return 0;
    const char *text = (const char *)data + 1;
    focal_mc_set *whole = read_set(ctx, text, size - 1, size, whole_sentence);
    focal_mc_set *pieces = read_set(ctx, text, size - 1, (size_t)data[0] + 1, sentence);
    require(strcmp(whole_sentence, sentence) == 0, "pieces change what is refused");
    if (whole && pieces) {
        require(focal_mc_count(whole) == focal_mc_count(pieces), "pieces change the count");
        require(focal_mc_count(whole) <= 5, "more items than the limit");
        for (int64_t n = 0; n < focal_mc_count(whole); n++)
            compare_items(focal_mc_at(whole, n), focal_mc_at(pieces, n));
    }
    focal_mc_close(whole);
    focal_mc_close(pieces);
    return 0;
}
