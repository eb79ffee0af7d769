/* Arbitrary JSON: parsing may fail, with a sentence on one line; of what it takes, every value is
 * asked for as every type. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"

enum { DEPTH = 512 };

static void require(int is_true, const char *what)
{
    if (is_true) return;
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

/* A value whose members are being visited. */
typedef struct level {
    const foci_json *value;
    int64_t index; /* of the next entry of an array, and how many of an object were met */
    foci_json_member member;
} level;

/* The next value inside, NULL when all were met. */
static const foci_json *next_inside(level *at)
{
    const int64_t index = at->index++;
    if (foci_json_is(at->value, FOCI_JSON_ARRAY)) return foci_json_at(at->value, index);
    if (!foci_json_is(at->value, FOCI_JSON_OBJECT)) return NULL;
    if (!foci_json_next(at->value, &at->member)) {
        require(index == foci_json_count(at->value), "an object with another count");
        return NULL;
    }
    require(strlen(at->member.key) == at->member.key_length, "a key with NUL in it");
    require(foci_json_get(at->value, at->member.key) == at->member.value,
            "a key that is not found");
    return at->member.value;
}

static void check_value(const foci_json *value)
{
    const foci_json_type type = foci_json_kind(value);
    const char *text = foci_json_string(value);
    require((text != NULL) == (type == FOCI_JSON_STRING), "a string of another type");
    if (text) require(text[foci_json_length(value)] == '\0', "a string without an end");
    if (type != FOCI_JSON_INT) require(foci_json_int(value, 7) == 7, "an integer of another type");
    if (type != FOCI_JSON_INT && type != FOCI_JSON_REAL)
        require(foci_json_real(value, 0.5) == 0.5, "a number of another type");
    const double number = foci_json_real(value, 0.0);
    require(number - number == 0.0, "a number that is not finite");
    if (type != FOCI_JSON_BOOL) require(foci_json_bool(value, true), "a bool of another type");
    require(!foci_json_at(value, foci_json_count(value)), "an entry behind the last");
}

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static focal_ctx *ctx; /* opened once: starting threads costs more than a text */
    static level levels[DEPTH + 1];
    const focal_ctx_options options = {.threads = 1};
    if (!ctx && focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) abort();
    foci_json *root = NULL;
    const focal_status status = foci_json_parse(ctx, "text", (const char *)data, size, &root);
    require((status == FOCAL_OK) == (root != NULL), "status and tree disagree");
    if (!root) {
        const char *text = focal_ctx_error(ctx);
        require(*text != '\0', "a failure without a sentence");
        for (; *text; text++) require((unsigned char)*text >= 0x20, "a control character");
        return 0;
    }
    int depth = 0;
    levels[0] = (level){.value = root};
    check_value(root);
    while (depth >= 0) {
        const foci_json *inside = next_inside(&levels[depth]);
        if (!inside) {
            depth--;
            continue;
        }
        check_value(inside);
        require(++depth <= DEPTH, "nested deeper than allowed");
        levels[depth] = (level){.value = inside};
    }
    foci_json_free(root);
    return 0;
}
