/* Arbitrary safetensors files, headers and indexes. The first byte says which the rest is: a whole
 * file; a header, of which the file is made with as much data as two more bytes say; or an index
 * over two good files. Opening may fail, with a sentence on one line; what it takes must be
 * readable to the last byte, and every name must find its tensor. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/safetensors.h"

static void require(int is_true, const char *what)
{
    if (is_true) return;
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

static void check_file(focal_ctx *ctx, focal_status status, foci_safetensors *file)
{
    require((status == FOCAL_OK) == (file != NULL), "status and file disagree");
    if (!file) {
        const char *text = focal_ctx_error(ctx);
        require(*text != '\0', "a failure without a sentence");
        for (; *text; text++) require((unsigned char)*text >= 0x20, "a control character");
        return;
    }
    volatile uint8_t sum = 0;
    for (int64_t n = 0; n < foci_safetensors_tensor_count(file); n++) {
        const foci_tensor *t = foci_safetensors_tensor_at(file, n);
        size_t elements = 1;
        for (int d = 0; d < FOCI_TENSOR_DIMS; d++) elements *= (size_t)t->shape[d];
        require(elements * focal_dtype_bytes(t->dtype) == t->bytes,
                "a size that is not the shape's");
        require((uintptr_t)t->data % focal_dtype_bytes(t->dtype) == 0, "data out of line");
        for (size_t b = 0; b < t->bytes; b++) sum = (uint8_t)(sum + ((const uint8_t *)t->data)[b]);
        require(foci_safetensors_tensor(file, t->name) == t,
                "a name that does not find its tensor");
    }
    for (int64_t n = 0; n < foci_safetensors_other_count(file); n++)
        require(!foci_safetensors_tensor(file, foci_safetensors_other_at(file, n).name),
                "a tensor that cannot be read was handed out");
    foci_safetensors_close(file);
}

static void open_image(focal_ctx *ctx, const uint8_t *data, size_t bytes)
{
    /* In a block of its own: aligned like a map, and ASan sees where it ends. */
    uint8_t *exact = malloc(bytes > 0 ? bytes : 1);
    if (!exact) abort();
    if (bytes > 0) memcpy(exact, data, bytes);
    foci_safetensors *file = NULL;
    const focal_status status = foci_safetensors_parse(ctx, "file", exact, bytes, &file);
    check_file(ctx, status, file);
    free(exact);
}

/* data is two bytes with the size of the data, then the header. */
static void open_header(focal_ctx *ctx, const uint8_t *data, size_t bytes)
{
    if (bytes < 2) return;
    const size_t data_bytes = (size_t)data[0] | (size_t)(data[1] & 15) << 8;
    const size_t length = (bytes - 2 + 7) / 8 * 8;
    uint8_t *image = calloc(8 + length + data_bytes, 1);
    if (!image) abort();
    for (int n = 0; n < 8; n++) image[n] = (uint8_t)((uint64_t)length >> (8 * n));
    memset(image + 8, ' ', length);
    memcpy(image + 8, data + 2, bytes - 2);
    open_image(ctx, image, 8 + length + data_bytes);
    free(image);
}

static char folder[64];

static void write_file(const char *name, const void *data, size_t bytes)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

static void remove_folder(void)
{
    static const char *const names[] = {"1.safetensors", "2.safetensors", "i.index.json"};
    char path[128];
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[n]);
        (void)remove(path);
    }
    (void)rmdir(folder);
}

static void make_folder(void)
{
    static const char one[] =
        "\x38\0\0\0\0\0\0\0"
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}   1234";
    static const char two[] =
        "\x38\0\0\0\0\0\0\0"
        "{\"b\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}   1234";
    (void)strcpy(folder, "/tmp/focal-fuzz-XXXXXX");
    if (!mkdtemp(folder) || atexit(remove_folder) != 0) abort();
    write_file("1.safetensors", one, sizeof one - 1);
    write_file("2.safetensors", two, sizeof two - 1);
}

static void open_index(focal_ctx *ctx, const uint8_t *data, size_t bytes)
{
    if (!folder[0]) make_folder();
    write_file("i.index.json", data, bytes);
    char path[128];
    (void)snprintf(path, sizeof path, "%s/i.index.json", folder);
    foci_safetensors *file = NULL;
    const focal_status status = foci_safetensors_open(ctx, path, &file);
    check_file(ctx, status, file);
}

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static focal_ctx *ctx; /* opened once: starting threads costs more than a file */
    const focal_ctx_options options = {.threads = 1};
    if (!ctx && focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) abort();
    if (size == 0) return 0;
    switch (data[0] % 4) {
    case 0:
        open_image(ctx, data + 1, size - 1);
        break;
    case 1:
        open_index(ctx, data + 1, size - 1);
        break;
    default:
        open_header(ctx, data + 1, size - 1);
        break;
    }
    return 0;
}
