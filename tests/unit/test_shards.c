/* Shards of tokens: what is written is read back over every border, documents are found, every
 * fault of a file has its sentence, and nothing half-written stays. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/shard_file.h"
#include "io/shards.h"
#include "support/folder.h"

enum { MOST = 4000 };

/* Documents of many lengths, their ids, and where each begins. */
typedef struct sample {
    int32_t ids[MOST];
    int64_t begin[MOST + 1];
    int64_t tokens, documents;
} sample;

static void make_sample(sample *s, int32_t vocab)
{
    static const int lengths[] = {1, 2, 37, 1, 500, 3, 128, 64, 1, 1, 999, 20};
    uint32_t state = 7;
    *s = (sample){.tokens = 0};
    for (size_t n = 0; n < 2 * FOCAL_COUNT(lengths); n++) {
        s->begin[s->documents++] = s->tokens;
        for (int k = 0; k < lengths[n % FOCAL_COUNT(lengths)]; k++) {
            state = state * 1664525U + 1013904223U;
            s->ids[s->tokens++] = (int32_t)(state >> 8) % vocab;
        }
    }
    s->ids[5] = vocab - 1;
    s->begin[s->documents] = s->tokens;
}

static focal_status write_sample(focal_ctx *ctx, const char *path, const sample *s, int32_t vocab,
                                 int64_t shard_tokens, int64_t piece)
{
    const foci_shard_options options = {
        .vocab = vocab, .end = 0, .fingerprint = 0x1234, .shard_tokens = shard_tokens};
    foci_shard_writer *w = NULL;
    FOCAL_TRY(foci_shard_writer_open(ctx, path, &options, &w));
    focal_status status = FOCAL_OK;
    for (int64_t d = 0; d < s->documents && status == FOCAL_OK; d++) {
        status = foci_shard_writer_begin(w);
        for (int64_t at = s->begin[d]; at < s->begin[d + 1] && status == FOCAL_OK; at += piece) {
            const int64_t left = s->begin[d + 1] - at;
            status = foci_shard_writer_put(w, s->ids + at, left < piece ? left : piece);
        }
    }
    if (status == FOCAL_OK) return foci_shard_writer_finish(w, NULL);
    foci_shard_writer_abandon(w);
    return status;
}

static void remove_set(const char *path)
{
    char file[256];
    for (int n = 0; n < 5000; n++) {
        (void)snprintf(file, sizeof file, "%s/shard-%05d.tokens", path, n);
        if (unlink(file) != 0) break;
    }
    assert_int_equal(rmdir(path), 0);
}

static void check_sample(focal_ctx *ctx, const char *path, const sample *s, int32_t vocab)
{
    static int32_t got[MOST];
    foci_shards *shards = NULL;
    assert_status(ctx, foci_shards_open(ctx, path, true, &shards), FOCAL_OK);
    const foci_shards_info info = foci_shards_describe(shards);
    assert_int_equal(info.token_count, s->tokens);
    assert_int_equal(info.document_count, s->documents);
    assert_int_equal(info.vocab, vocab);
    assert_int_equal(info.fingerprint, 0x1234);
    static const int64_t windows[][2] = {{0, 1}, {0, 0}, {3, 40}, {130, 700}, {1, 2500}};
    for (size_t n = 0; n < FOCAL_COUNT(windows); n++) {
        assert_status(ctx, foci_shards_read(shards, windows[n][0], windows[n][1], got), FOCAL_OK);
        assert_memory_equal(got, s->ids + windows[n][0], (size_t)windows[n][1] * sizeof *got);
    }
    assert_status(ctx, foci_shards_read(shards, 0, s->tokens, got), FOCAL_OK);
    assert_memory_equal(got, s->ids, (size_t)s->tokens * sizeof *got);
    assert_status(ctx, foci_shards_read(shards, s->tokens, 0, got), FOCAL_OK);
    assert_status(ctx, foci_shards_read(shards, s->tokens, 1, got), FOCAL_EINVAL);
    assert_status(ctx, foci_shards_read(shards, -1, 1, got), FOCAL_EINVAL);
    assert_status(ctx, foci_shards_read(shards, 1, INT64_MAX, got), FOCAL_EINVAL);
    int64_t document = 0;
    for (int64_t token = 0; token < s->tokens; token++) {
        while (s->begin[document + 1] <= token) document++;
        assert_int_equal(foci_shards_document(shards, token), document);
    }
    for (int64_t d = 0; d <= s->documents; d++)
        assert_int_equal(foci_shards_begin(shards, d), s->begin[d]);
    foci_shards_close(shards);
}

static void what_is_written_is_read(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        int32_t vocab;
        int64_t shard_tokens, piece;
    } cases[] = {{300, 0, 1000}, {65536, 100, 7}, {65537, 100, 7}, {257, 13, 3}, {70000, 999, 1}};
    const folder f = folder_new();
    static sample s;
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        make_sample(&s, cases[n].vocab);
        const char *path = folder_file(&f, "set/"); /* the slash must not matter */
        char name[128];
        (void)snprintf(name, sizeof name, "%s", path);
        assert_status(
            ctx, write_sample(ctx, name, &s, cases[n].vocab, cases[n].shard_tokens, cases[n].piece),
            FOCAL_OK);
        check_sample(ctx, name, &s, cases[n].vocab);
        remove_set(name);
    }
    folder_remove(&f);
}

static void wrong_calls_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    foci_shard_writer *w = NULL;
    foci_shard_options options = {.vocab = 10, .end = 3};
    char path[128];
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "set"));
    static const int32_t bad[] = {3, 10}, negative = -1;
    assert_status(ctx, foci_shard_writer_open(ctx, path, &options, &w), FOCAL_OK);
    assert_status(ctx, foci_shard_writer_put(w, bad, 1), FOCAL_EINVAL); /* no document yet */
    assert_status(ctx, foci_shard_writer_begin(w), FOCAL_OK);
    assert_status(ctx, foci_shard_writer_put(w, bad, 2), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "shards: id 10, the vocabulary has 10 tokens");
    assert_status(ctx, foci_shard_writer_put(w, &negative, 1), FOCAL_EINVAL);
    foci_shard_writer_abandon(w);
    assert_int_equal(folder_count(&f), 0);
    assert_status(ctx, foci_shard_writer_open(ctx, path, &options, &w), FOCAL_OK);
    assert_status(ctx, foci_shard_writer_begin(w), FOCAL_OK);
    assert_status(ctx, foci_shard_writer_finish(w, NULL), FOCAL_EINVAL); /* nothing in it */
    assert_int_equal(folder_count(&f), 0);
    options.vocab = 0;
    assert_status(ctx, foci_shard_writer_open(ctx, path, &options, &w), FOCAL_EINVAL);
    options = (foci_shard_options){.vocab = 10, .end = 10};
    assert_status(ctx, foci_shard_writer_open(ctx, path, &options, &w), FOCAL_EINVAL);
    options = (foci_shard_options){.vocab = 10, .end = -1, .shard_tokens = -1};
    assert_status(ctx, foci_shard_writer_open(ctx, path, &options, &w), FOCAL_EINVAL);
    options.shard_tokens = 0;
    write_bytes(folder_file(&f, "other"), "x", 1);
    assert_status(ctx, foci_shard_writer_open(ctx, f.path, &options, &w), FOCAL_EINVAL);
    assert_non_null(strstr(focal_ctx_error(ctx), "is there already and holds 'other'"));
    assert_status(ctx, foci_shard_writer_open(ctx, folder_file(&f, "other"), &options, &w),
                  FOCAL_EIO);
    assert_status(ctx, foci_shard_writer_open(ctx, "/nowhere/at/all", &options, &w), FOCAL_EIO);
    assert_int_equal(folder_count(&f), 1);
    folder_remove(&f);
}

/* Opens a set whose file `index` has been changed; the header's checksum is mended or not. */
typedef struct fault {
    size_t offset;
    uint64_t value;
    int bytes;
    bool mends;
    const char *sentence;
} fault;

static void every_fault_has_its_sentence(void **state)
{
    focal_ctx *ctx = *state;
    static const fault faults[] = {
        {0, 'x', 1, true, "does not begin with 'focaltok'"},
        {8, 2, 4, true, "version 2"},
        {12, 24, 4, true, "id_bits is 24"},
        {16, 1, 1, false, "checksum of the header"},
        {16, 0, 8, true, "token_count is 0"},
        {16, UINT64_MAX, 8, true, "token_count is 18446744073709551615"},
        {16, 90, 8, true, "by its header"},
        {24, 101, 8, true, "document_count is 101"},
        {24, 0, 8, true, "by its header"},
        {32, 5, 8, true, "begins with token 5"},
        {40, 5, 8, true, "of document 5"},
        {48, 1, 4, true, "is shard 1 of its set"},
        {52, 2, 4, true, "flags is 2"},
        {56, 0, 4, true, "vocab is 0"},
        {60, 300, 4, true, "end is 300"},
        {80, 5, 8, true, "checksum of the documents"},
        {72, 5, 8, true, "checksum of the ids"},
        {88, 1, 1, true, "reserved is 1"},
        {128, 77, 1, true, "checksum of the ids"},
        {128 + 200, 1, 8, true, "checksum of the documents"},
    };
    const folder f = folder_new();
    static sample s;
    make_sample(&s, 300);
    char path[128], file[192];
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "set"));
    assert_status(ctx, write_sample(ctx, path, &s, 300, 100, 50), FOCAL_OK);
    (void)snprintf(file, sizeof file, "%s/shard-00000.tokens", path);
    size_t bytes;
    uint8_t *good = read_bytes(file, &bytes), *bad = new_array(bytes + 8, 1);
    for (size_t n = 0; n < FOCAL_COUNT(faults); n++) {
        foci_shards *shards = NULL;
        foci_shard_header header;
        memcpy(bad, good, bytes);
        memcpy(bad + faults[n].offset, &faults[n].value, (size_t)faults[n].bytes);
        memcpy(&header, bad, sizeof header);
        if (faults[n].mends) header.header_check = foci_shard_header_check(&header);
        memcpy(bad, &header, sizeof header);
        write_bytes(file, bad, bytes);
        const focal_status status = foci_shards_open(ctx, path, true, &shards);
        if (status == FOCAL_OK) fail_msg("fault %zu is not seen", n);
        if (!strstr(focal_ctx_error(ctx), faults[n].sentence))
            fail_msg("fault %zu: '%s' lacks '%s'", n, focal_ctx_error(ctx), faults[n].sentence);
        assert_null(shards);
    }
    for (size_t cut = 0; cut < bytes; cut += cut < 140 ? 1 : 17) { /* truncation */
        foci_shards *shards = NULL;
        write_bytes(file, good, cut);
        assert_status(ctx, foci_shards_open(ctx, path, false, &shards), FOCAL_EFORMAT);
    }
    memcpy(bad, good, bytes);
    write_bytes(file, bad, bytes + 8);
    foci_shards *shards = NULL;
    assert_status(ctx, foci_shards_open(ctx, path, false, &shards), FOCAL_EFORMAT);
    write_bytes(file, good, bytes);
    check_sample(ctx, path, &s, 300);
    /* The last one is missing; two have changed places. */
    char last[192], other[192];
    (void)snprintf(last, sizeof last, "%s/shard-%05d.tokens", path, (int)(s.tokens - 1) / 100);
    (void)snprintf(other, sizeof other, "%s/away", path);
    assert_int_equal(rename(last, other), 0);
    assert_status(ctx, foci_shards_open(ctx, path, false, &shards), FOCAL_EFORMAT);
    assert_non_null(strstr(focal_ctx_error(ctx), "is not the last"));
    assert_int_equal(rename(other, last), 0);
    assert_int_equal(rename(file, other), 0);
    assert_status(ctx, foci_shards_open(ctx, path, false, &shards), FOCAL_EIO);
    assert_int_equal(rename(other, file), 0);
    remove_set(path);
    free(good);
    free(bad);
    folder_remove(&f);
}

/* Ids beyond the vocabulary under a checksum that fits. */
static void ids_are_checked_when_read(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    static sample s;
    make_sample(&s, 300);
    char path[128], file[192];
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "set"));
    assert_status(ctx, write_sample(ctx, path, &s, 300, 0, 50), FOCAL_OK);
    (void)snprintf(file, sizeof file, "%s/shard-00000.tokens", path);
    size_t bytes;
    uint8_t *data = read_bytes(file, &bytes);
    foci_shard_header header;
    memcpy(&header, data, sizeof header);
    data[sizeof header + 20] = 0x2C; /* token 10 becomes 300 */
    data[sizeof header + 21] = 0x01;
    const size_t words = (bytes - sizeof header) / 8 - header.document_count;
    header.ids_check = foci_check_words(FOCI_CHECK_BEGIN, data + sizeof header, words);
    header.header_check = foci_shard_header_check(&header);
    memcpy(data, &header, sizeof header);
    write_bytes(file, data, bytes);
    foci_shards *shards = NULL;
    assert_status(ctx, foci_shards_open(ctx, path, true, &shards), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx),
                        "shards: token 10 has id 300, the vocabulary has 300");
    assert_status(ctx, foci_shards_open(ctx, path, false, &shards), FOCAL_OK);
    int32_t ids[12];
    assert_status(ctx, foci_shards_read(shards, 0, 10, ids), FOCAL_OK);
    assert_status(ctx, foci_shards_read(shards, 0, 11, ids), FOCAL_EFORMAT);
    foci_shards_close(shards);
    remove_set(path);
    free(data);
    folder_remove(&f);
}

/* One more than a shard takes: the next begins with it. */
static void documents_of_a_shard_are_limited(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const foci_shard_options options = {.vocab = 10, .end = -1};
    const int32_t id = 7;
    foci_shard_writer *w = NULL;
    foci_shards *shards = NULL;
    foci_shards_info info;
    char path[128];
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "set"));
    assert_status(ctx, foci_shard_writer_open(ctx, path, &options, &w), FOCAL_OK);
    for (int n = 0; n <= FOCI_SHARD_DOCUMENTS; n++) {
        assert_int_equal(foci_shard_writer_begin(w), FOCAL_OK);
        assert_int_equal(foci_shard_writer_put(w, &id, 1), FOCAL_OK);
    }
    assert_status(ctx, foci_shard_writer_finish(w, &info), FOCAL_OK);
    assert_int_equal(info.shard_count, 2);
    assert_status(ctx, foci_shards_open(ctx, path, true, &shards), FOCAL_OK);
    assert_int_equal(foci_shards_describe(shards).document_count, FOCI_SHARD_DOCUMENTS + 1);
    assert_int_equal(foci_shards_document(shards, FOCI_SHARD_DOCUMENTS), FOCI_SHARD_DOCUMENTS);
    foci_shards_close(shards);
    remove_set(path);
    folder_remove(&f);
}

static void failing_memory_leaves_nothing(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    static sample s;
    make_sample(&s, 300);
    char path[128];
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "set"));
    focal_status status = FOCAL_ENOMEM;
    for (int n = 1; status != FOCAL_OK; n++) {
        memory_fail(n, false);
        status = write_sample(ctx, path, &s, 300, 900, 100);
        memory_fail(0, false);
        assert_true(n < 200);
        if (status == FOCAL_OK) break;
        assert_int_equal(status, FOCAL_ENOMEM);
        assert_int_equal(folder_count(&f), 0);
    }
    status = FOCAL_ENOMEM;
    for (int n = 1; status != FOCAL_OK; n++) {
        foci_shards *shards = NULL;
        memory_fail(n, false);
        status = foci_shards_open(ctx, path, true, &shards);
        memory_fail(0, false);
        assert_true(n < 200);
        if (status != FOCAL_OK) assert_int_equal(status, FOCAL_ENOMEM);
        foci_shards_close(shards);
    }
    check_sample(ctx, path, &s, 300);
    remove_set(path);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(wrong_calls_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(every_fault_has_its_sentence, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(ids_are_checked_when_read, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(documents_of_a_shard_are_limited, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(failing_memory_leaves_nothing, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("shards", tests, NULL, NULL);
}
