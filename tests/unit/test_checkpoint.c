/* Checkpoints: what is written comes back, every damaged byte is noticed, failures of the disk and
 * of memory leave the last good file, and the folder keeps what it should. */
#include "support/check.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/folder.h"
#include "train/checkpoint.h"
#include "train/checkpoint_layout.h"
#include "train/crc32c.h"

enum { WEIGHTS = 3 * 5, BLOCKS = 5 };

static size_t write_most; /* bytes that a write takes; 0: as many as the system does */

/* In place of the C library's, for all that is linked here. */
ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    static bool is_interrupted;
    is_interrupted = write_most > 0 && !is_interrupted;
    if (is_interrupted) {
        errno = EINTR;
        return -1;
    }
    const size_t taken = write_most > 0 && n > write_most ? write_most : n;
    return (ssize_t)syscall(SYS_pwrite64, fd, buf, taken, offset);
}

static float weights[WEIGHTS];
static int64_t counters[2];

/* Blocks of every kind of size; the numbers depend on the step. */
static const foci_block *blocks_of(int64_t step)
{
    static const uint16_t halves[33] = {1, 2, 3};
    static const foci_block blocks[BLOCKS] = {
        {"model.weights", FOCI_BLOCK_F32, 2, {3, 5}, weights},
        {"halves", FOCI_BLOCK_BF16, 1, {33}, halves},
        {"empty", FOCI_BLOCK_I32, 3, {4, 0, 2}, NULL},
        {"run", FOCI_BLOCK_U8, 1, {7}, "seed=1\n"},
        {"counters", FOCI_BLOCK_I64, 4, {1, 2, 1, 1}, counters},
    };
    for (int n = 0; n < WEIGHTS; n++) weights[n] = (float)step + 0.25F * (float)n;
    counters[0] = step;
    counters[1] = -step;
    return blocks;
}

static void assert_holds(foci_checkpoint *checkpoint, int64_t step)
{
    const foci_block *blocks = blocks_of(step);
    assert_int_equal(foci_checkpoint_step(checkpoint), step);
    assert_int_equal(foci_checkpoint_count(checkpoint), BLOCKS);
    for (int n = 0; n < BLOCKS; n++) {
        const foci_block *block = foci_checkpoint_at(checkpoint, n);
        assert_ptr_equal(foci_checkpoint_find(checkpoint, blocks[n].name), block);
        assert_string_equal(block->name, blocks[n].name);
        assert_int_equal(block->type, blocks[n].type);
        assert_int_equal(block->dims, blocks[n].dims);
        assert_memory_equal(block->shape, blocks[n].shape, sizeof block->shape);
        assert_int_equal((uintptr_t)block->data % FOCI_CK_ALIGNMENT, 0);
        const size_t bytes = foci_block_bytes(block);
        assert_int_equal(bytes, foci_block_bytes(&blocks[n]));
        if (bytes > 0) assert_memory_equal(block->data, blocks[n].data, bytes);
    }
    assert_null(foci_checkpoint_find(checkpoint, "model.weight"));
}

static void blocks_come_back(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "one");
    foci_checkpoint *checkpoint = NULL;
    for (int64_t step = 7; step < 9; step++) { /* the second replaces the first */
        assert_status(ctx, foci_checkpoint_write(ctx, path, step, blocks_of(step), BLOCKS),
                      FOCAL_OK);
        assert_status(ctx, foci_checkpoint_open(ctx, path, &checkpoint), FOCAL_OK);
        assert_string_equal(foci_checkpoint_path(checkpoint), path);
        assert_holds(checkpoint, step);
        foci_checkpoint_close(checkpoint);
    }
    assert_int_equal(folder_count(&f), 1);
    assert_status(ctx, foci_checkpoint_write(ctx, path, 0, NULL, 0), FOCAL_OK);
    assert_status(ctx, foci_checkpoint_open(ctx, path, &checkpoint), FOCAL_OK);
    assert_int_equal(foci_checkpoint_count(checkpoint), 0);
    foci_checkpoint_close(checkpoint);
    foci_checkpoint_close(NULL);
    folder_remove(&f);
}

static void copies_are_checked(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "one");
    float copy[WEIGHTS];
    foci_checkpoint *checkpoint = NULL;
    assert_status(ctx, foci_checkpoint_write(ctx, path, 3, blocks_of(3), BLOCKS), FOCAL_OK);
    assert_status(ctx, foci_checkpoint_open(ctx, path, &checkpoint), FOCAL_OK);
    foci_block like = {.name = "model.weights", .type = FOCI_BLOCK_F32, .dims = 2, .shape = {3, 5}};
    assert_status(ctx, foci_checkpoint_copy(checkpoint, &like, copy), FOCAL_OK);
    assert_memory_equal(copy, weights, sizeof copy);
    like.shape[0] = 5;
    like.shape[1] = 3;
    assert_status(ctx, foci_checkpoint_copy(checkpoint, &like, copy), FOCAL_EFORMAT);
    like.shape[0] = 3;
    like.shape[1] = 5;
    like.type = FOCI_BLOCK_I32;
    assert_status(ctx, foci_checkpoint_copy(checkpoint, &like, copy), FOCAL_EFORMAT);
    like.name = "nothing";
    assert_status(ctx, foci_checkpoint_copy(checkpoint, &like, copy), FOCAL_EFORMAT);
    assert_non_null(strstr(focal_ctx_error(ctx), "'nothing'"));
    foci_checkpoint_close(checkpoint);
    folder_remove(&f);
}

/* Every bit of the file counts, and so does every byte of its length. */
static void damage_is_noticed(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "one");
    foci_checkpoint *checkpoint = NULL;
    size_t bytes = 0;
    assert_status(ctx, foci_checkpoint_write(ctx, path, 3, blocks_of(3), BLOCKS), FOCAL_OK);
    uint8_t *image = read_bytes(path, &bytes);
    for (size_t n = 0; n < bytes; n++) {
        image[n] ^= (uint8_t)(1U << n % 8);
        assert_status(ctx, foci_checkpoint_parse(ctx, "f", image, bytes, &checkpoint),
                      FOCAL_EFORMAT);
        assert_null(checkpoint);
        image[n] ^= (uint8_t)(1U << n % 8);
        uint8_t *cut = new_array(n, 1); /* to the byte, for ASan */
        memcpy(cut, image, n);
        assert_status(ctx, foci_checkpoint_parse(ctx, "f", cut, n, &checkpoint), FOCAL_EFORMAT);
        free(cut);
    }
    assert_status(ctx, foci_checkpoint_parse(ctx, "f", image, bytes, &checkpoint), FOCAL_OK);
    foci_checkpoint_close(checkpoint);
    free(image);
    folder_remove(&f);
}

/* What a hostile file may say with checksums that fit. */
static void fields_are_checked(void **state)
{
    focal_ctx *ctx = *state;
    static const struct fault {
        int at, bytes;
        uint64_t value;
        const char *word;
    } faults[] = {
        {FOCI_CK_FILE_BYTES, 8, 1, "its header says 1"},
        {FOCI_CK_STEP, 8, UINT64_MAX, "step"},
        {FOCI_CK_COUNT, 8, UINT64_MAX, "blocks"},
        {FOCI_CK_COUNT, 8, FOCI_BLOCKS_MOST, "blocks"},
        {FOCI_CK_COUNT, 8, 4, "table"}, /* its checksum is of five */
        {FOCI_CK_HEADER, 1, 0, "no name"},
        {FOCI_CK_HEADER, 1, ' ', "no name"},
        {FOCI_CK_HEADER + 127, 1, 'x', "no name"},
        {FOCI_CK_HEADER + FOCI_CK_TYPE, 4, 5, "unknown type 5"},
        {FOCI_CK_HEADER + FOCI_CK_TYPE, 4, 0xFFFFFFFF, "unknown type"},
        {FOCI_CK_HEADER + FOCI_CK_TYPE, 4, FOCI_BLOCK_BF16, "its shape"},
        {FOCI_CK_HEADER + FOCI_CK_DIMS, 4, 0, "dimensions"},
        {FOCI_CK_HEADER + FOCI_CK_DIMS, 4, 5, "dimensions"},
        {FOCI_CK_HEADER + FOCI_CK_DIMS, 4, 1, "dimension 2"},
        {FOCI_CK_HEADER + FOCI_CK_SHAPE, 8, UINT64_MAX, "dimension 1"},
        {FOCI_CK_HEADER + FOCI_CK_SHAPE, 8, INT64_MAX, "its shape"},
        {FOCI_CK_HEADER + FOCI_CK_SHAPE, 8, 4, "its shape"},
        {FOCI_CK_HEADER + FOCI_CK_OFFSET, 8, 64, "must begin at"},
        {FOCI_CK_HEADER + FOCI_CK_OFFSET, 8, UINT64_MAX, "must begin at"},
        {FOCI_CK_HEADER + FOCI_CK_BYTES, 8, UINT64_MAX, "its shape"},
        {FOCI_CK_HEADER + FOCI_CK_CRC, 4, 12, "damaged"},
        {FOCI_CK_HEADER + FOCI_CK_ZERO, 4, 1, "end in 0"},
        {FOCI_CK_HEADER + 3 * FOCI_CK_RECORD + FOCI_CK_SHAPE, 8, 1 << 20, "its shape"},
    };
    const folder f = folder_new();
    const char *path = folder_file(&f, "one");
    size_t bytes = 0;
    assert_status(ctx, foci_checkpoint_write(ctx, path, 3, blocks_of(3), BLOCKS), FOCAL_OK);
    uint8_t *good = read_bytes(path, &bytes), *image = new_array(bytes, 1);
    for (size_t n = 0; n < FOCAL_COUNT(faults); n++) {
        memcpy(image, good, bytes);
        foci_ck_put(image + faults[n].at, faults[n].bytes, faults[n].value);
        const size_t table = (size_t)BLOCKS * FOCI_CK_RECORD;
        foci_ck_put(image + FOCI_CK_TABLE_CRC, 4,
                    foci_crc32c(ctx, 0, image + FOCI_CK_HEADER, table));
        foci_ck_put(image + FOCI_CK_HEADER_CRC, 4, foci_crc32c(ctx, 0, image, FOCI_CK_HEADER_CRC));
        foci_checkpoint *checkpoint = NULL;
        assert_status(ctx, foci_checkpoint_parse(ctx, "f", image, bytes, &checkpoint),
                      FOCAL_EFORMAT);
        if (!strstr(focal_ctx_error(ctx), faults[n].word))
            fail_msg("'%s' does not say '%s'", focal_ctx_error(ctx), faults[n].word);
    }
    free(good);
    free(image);
    folder_remove(&f);
}

static void wrong_blocks_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    static const int32_t data[4];
    static const foci_block wrong[] = {
        {NULL, FOCI_BLOCK_I32, 1, {1}, data},  {"", FOCI_BLOCK_I32, 1, {1}, data},
        {"a b", FOCI_BLOCK_I32, 1, {1}, data}, {"a", (foci_block_type)9, 1, {1}, data},
        {"a", FOCI_BLOCK_I32, 0, {1}, data},   {"a", FOCI_BLOCK_I32, 5, {1}, data},
        {"a", FOCI_BLOCK_I32, 1, {-1}, data},  {"a", FOCI_BLOCK_I32, 2, {INT64_MAX, 2}, data},
        {"a", FOCI_BLOCK_I32, 1, {1}, NULL},
    };
    const folder f = folder_new();
    const char *path = folder_file(&f, "one");
    for (size_t n = 0; n < FOCAL_COUNT(wrong); n++)
        assert_status(ctx, foci_checkpoint_write(ctx, path, 0, &wrong[n], 1), FOCAL_EINVAL);
    const foci_block twice[] = {{"a", FOCI_BLOCK_I32, 1, {1}, data},
                                {"b", FOCI_BLOCK_I32, 1, {1}, data},
                                {"a", FOCI_BLOCK_I32, 1, {2}, data}};
    assert_status(ctx, foci_checkpoint_write(ctx, path, 0, twice, 3), FOCAL_EINVAL);
    assert_status(ctx, foci_checkpoint_write(ctx, path, -1, twice, 1), FOCAL_EINVAL);
    assert_int_equal(folder_count(&f), 0);
    assert_status(ctx, foci_checkpoint_write(ctx, "/nonexistent/x", 0, twice, 1), FOCAL_EIO);
    folder_remove(&f);
}

static const foci_checkpoint_policy keep_two = {.keep = 2};

static void save(focal_ctx *ctx, const folder *f, int64_t step,
                 const foci_checkpoint_policy *policy)
{
    assert_status(ctx, foci_checkpoint_save(ctx, f->path, step, blocks_of(step), BLOCKS, policy),
                  FOCAL_OK);
}

static bool is_there(const folder *f, int64_t step)
{
    char name[64];
    (void)snprintf(name, sizeof name, "step-%010lld.ckpt", (long long)step);
    return access(folder_file(f, name), F_OK) == 0;
}

static void the_folder_keeps_what_it_should(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    write_bytes(folder_file(&f, "step-0000000009.ckpt.part"), "x", 1);
    write_bytes(folder_file(&f, "step-1.ckpt"), "not ours", 8);
    write_bytes(folder_file(&f, "step-0000000009.ckpt.part2"), "not ours", 8);
    const foci_checkpoint_policy policy = {.keep = 2, .keep_every = 30};
    for (int64_t step = 0; step <= 80; step += 10) save(ctx, &f, step, &policy);
    save(ctx, &f, 80, &policy);
    for (int64_t step = 0; step <= 80; step += 10)
        assert_int_equal(is_there(&f, step), step % 30 == 0 || step >= 70);
    assert_int_equal(folder_count(&f), 5 + 2);
    save(ctx, &f, 75, &keep_two); /* behind a newer one, as after a damaged checkpoint */
    assert_true(is_there(&f, 80) && is_there(&f, 75) && is_there(&f, 70) && !is_there(&f, 60));
    const foci_checkpoint_policy none = {.keep = 0};
    assert_status(ctx, foci_checkpoint_save(ctx, f.path, 1, NULL, 0, &none), FOCAL_EINVAL);
    assert_status(ctx, foci_checkpoint_save(ctx, f.path, -1, NULL, 0, &policy), FOCAL_EINVAL);
    assert_status(ctx, foci_checkpoint_save(ctx, f.path, INT64_MAX, NULL, 0, &policy),
                  FOCAL_EINVAL);
    assert_status(ctx, foci_checkpoint_save(ctx, "/nonexistent", 1, NULL, 0, &policy), FOCAL_EIO);
    folder_remove(&f);
}

static void assert_newest(focal_ctx *ctx, const folder *f, int64_t step, const char *note_word)
{
    char note[FOCI_CHECKPOINT_NOTE];
    foci_checkpoint *checkpoint = NULL;
    assert_status(ctx, foci_checkpoint_newest(ctx, f->path, &checkpoint, note), FOCAL_OK);
    assert_non_null(checkpoint);
    assert_holds(checkpoint, step);
    foci_checkpoint_close(checkpoint);
    if (note_word ? !strstr(note, note_word) : note[0] != '\0') fail_msg("note: '%s'", note);
}

static void the_newest_whole_one_is_found(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    char note[FOCI_CHECKPOINT_NOTE];
    foci_checkpoint *checkpoint = NULL;
    assert_status(ctx, foci_checkpoint_newest(ctx, f.path, &checkpoint, note), FOCAL_OK);
    assert_null(checkpoint);
    assert_string_equal(note, "");
    save(ctx, &f, 1, &(foci_checkpoint_policy){.keep = 9});
    save(ctx, &f, 2, &(foci_checkpoint_policy){.keep = 9});
    save(ctx, &f, 30000000000, &(foci_checkpoint_policy){.keep = 9});
    assert_newest(ctx, &f, 30000000000, NULL);

    size_t bytes = 0;
    uint8_t *image = read_bytes(folder_file(&f, "step-30000000000.ckpt"), &bytes);
    write_bytes(folder_file(&f, "step-30000000000.ckpt"), image, bytes - 1);
    assert_newest(ctx, &f, 2, "step-30000000000.ckpt: the file has");
    write_bytes(folder_file(&f, "step-0000000004.ckpt"), image, bytes); /* of another step */
    write_bytes(folder_file(&f, "step-30000000000.ckpt"), "", 0);
    assert_newest(ctx, &f, 2, "step-30000000000.ckpt: 0 bytes");
    free(image);

    write_bytes(folder_file(&f, "step-0000000001.ckpt"), "x", 1);
    write_bytes(folder_file(&f, "step-0000000002.ckpt"), "x", 1);
    assert_status(ctx, foci_checkpoint_newest(ctx, f.path, &checkpoint, note), FOCAL_EFORMAT);
    assert_null(checkpoint);
    assert_status(ctx, foci_checkpoint_newest(ctx, "/nonexistent", &checkpoint, note), FOCAL_EIO);
    folder_remove(&f);
}

/* The disk is full after n bytes, for n up to the whole file: the limit of a process's files acts
 * like that, short write included. */
static void a_full_disk_leaves_the_last_one(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    struct rlimit before;
    struct stat info;
    save(ctx, &f, 1, &keep_two);
    assert_int_equal(stat(folder_file(&f, "step-0000000001.ckpt"), &info), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 0; limit <= (rlim_t)info.st_size; limit += 13) {
        const struct rlimit small = {limit, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        const focal_status status =
            foci_checkpoint_save(ctx, f.path, 2, blocks_of(2), BLOCKS, &keep_two);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_status(ctx, status, FOCAL_EIO);
        assert_non_null(strstr(focal_ctx_error(ctx), "step-0000000002.ckpt: "));
        assert_int_equal(folder_count(&f), 1);
        assert_newest(ctx, &f, 1, NULL);
    }
    (void)signal(SIGXFSZ, handler);
    save(ctx, &f, 2, &keep_two);
    /* The same step once more, over the file that is there. */
    (void)signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {(rlim_t)info.st_size - 1, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const focal_status status =
        foci_checkpoint_save(ctx, f.path, 2, blocks_of(2), BLOCKS, &keep_two);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_status(ctx, status, FOCAL_EIO);
    assert_newest(ctx, &f, 2, NULL);
    folder_remove(&f);
}

/* A system that takes a few bytes at a time, and is interrupted before the first. */
static void short_writes_go_on(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    write_most = 7;
    const focal_status status =
        foci_checkpoint_save(ctx, f.path, 5, blocks_of(5), BLOCKS, &keep_two);
    write_most = 0;
    assert_status(ctx, status, FOCAL_OK);
    assert_newest(ctx, &f, 5, NULL);
    folder_remove(&f);
}

static void memory_may_fail_anywhere(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    char note[FOCI_CHECKPOINT_NOTE];
    const foci_checkpoint_policy one = {.keep = 1};
    save(ctx, &f, 1, &one);
    for (int64_t n = 1, is_done = 0; !is_done; n++) {
        memory_fail(n, false);
        const focal_status status =
            foci_checkpoint_save(ctx, f.path, 1 + n, blocks_of(1 + n), BLOCKS, &one);
        memory_fail(0, false);
        if (status != FOCAL_OK) assert_status(ctx, status, FOCAL_ENOMEM);
        is_done = status == FOCAL_OK;
        foci_checkpoint *checkpoint = NULL;
        assert_status(ctx, foci_checkpoint_newest(ctx, f.path, &checkpoint, note), FOCAL_OK);
        foci_checkpoint_close(checkpoint);
    }
    const int64_t live = memory_live_blocks();
    for (int64_t n = 1, is_done = 0; !is_done; n++) {
        foci_checkpoint *checkpoint = NULL;
        memory_fail(n, false);
        const focal_status status = foci_checkpoint_newest(ctx, f.path, &checkpoint, note);
        memory_fail(0, false);
        if (status != FOCAL_OK) assert_status(ctx, status, FOCAL_ENOMEM);
        is_done = status == FOCAL_OK;
        foci_checkpoint_close(checkpoint);
        assert_int_equal(memory_live_blocks(), live);
    }
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blocks_come_back, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(copies_are_checked, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(damage_is_noticed, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(fields_are_checked, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(wrong_blocks_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(the_folder_keeps_what_it_should, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(the_newest_whole_one_is_found, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_full_disk_leaves_the_last_one, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(short_writes_go_on, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_fail_anywhere, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, NULL, NULL);
}
