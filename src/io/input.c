/* A file descriptor, a buffer, and perhaps an expander behind it. */
#include "io/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/expander.h"

enum { BUFFER_BYTES = 1 << 18 };

static const foci_expander *const expanders[] = {&foci_expand_gzip, &foci_expand_xz,
                                                 &foci_expand_zstd};

struct foci_input {
    focal_ctx *ctx;
    const char *name;
    int fd;
    const foci_expander *expander; /* NULL: plain */
    void *state;
    bool is_between; /* of streams: the input may end */
    bool has_ended;
    int64_t position;
    size_t at, filled;
    uint8_t buffer[BUFFER_BYTES];
};

void foci_input_close(foci_input *input)
{
    if (!input) return;
    if (input->expander) input->expander->close(input->state);
    if (input->fd > STDIN_FILENO) close(input->fd);
    foci_free(input->ctx, input);
}

/* More bytes behind those that are buffered, which move to the front. */
static focal_status fill(foci_input *input)
{
    memmove(input->buffer, input->buffer + input->at, input->filled - input->at);
    input->filled -= input->at;
    input->at = 0;
    while (!input->has_ended) {
        const ssize_t got =
            read(input->fd, input->buffer + input->filled, BUFFER_BYTES - input->filled);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return foci_fail(input->ctx, FOCAL_EIO, "%s: %s", input->name, strerror(errno));
        input->has_ended = got == 0;
        input->filled += (size_t)got;
        input->position += got;
        return FOCAL_OK;
    }
    return FOCAL_OK;
}

static focal_status choose_expander(foci_input *input)
{
    size_t longest = 0;
    for (size_t n = 0; n < FOCAL_COUNT(expanders); n++)
        if (expanders[n]->magic_bytes > longest) longest = expanders[n]->magic_bytes;
    while (input->filled < longest && !input->has_ended) FOCAL_TRY(fill(input));
    for (size_t n = 0; n < FOCAL_COUNT(expanders); n++) {
        const foci_expander *one = expanders[n];
        if (input->filled < one->magic_bytes ||
            memcmp(input->buffer, one->magic, one->magic_bytes) != 0)
            continue;
        FOCAL_TRY(one->open(input->ctx, input->name, &input->state));
        input->expander = one;
    }
    return FOCAL_OK;
}

focal_status foci_input_open(focal_ctx *ctx, const char *path, foci_input **out)
{
    *out = NULL;
    const bool is_stdin = strcmp(path, "-") == 0;
    struct stat info;
    foci_input *input = foci_alloc(ctx, 1, sizeof *input);
    if (!input) return FOCAL_ENOMEM;
    memset(input, 0, offsetof(foci_input, buffer));
    input->ctx = ctx;
    input->name = is_stdin ? "standard input" : path;
    input->fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    focal_status status = FOCAL_OK;
    if (input->fd < 0 || fstat(input->fd, &info) != 0)
        status = foci_fail(ctx, FOCAL_EIO, "%s: %s", input->name, strerror(errno));
    else if (S_ISDIR(info.st_mode))
        status = foci_fail(ctx, FOCAL_EIO, "%s: is a folder; name the files in it", input->name);
    if (status == FOCAL_OK) status = choose_expander(input);
    if (status != FOCAL_OK) {
        foci_input_close(input);
        return status;
    }
    *out = input;
    return FOCAL_OK;
}

static focal_status read_plain(foci_input *input, char *data, size_t room, size_t *got)
{
    if (input->at == input->filled) FOCAL_TRY(fill(input));
    const size_t there = input->filled - input->at;
    *got = there < room ? there : room;
    memcpy(data, input->buffer + input->at, *got);
    input->at += *got;
    return FOCAL_OK;
}

focal_status foci_input_read(foci_input *input, char *data, size_t room, size_t *got)
{
    *got = 0;
    if (!input->expander) return read_plain(input, data, room, got);
    while (*got == 0) {
        if (input->at == input->filled && !input->has_ended) FOCAL_TRY(fill(input));
        if (input->at == input->filled && input->has_ended && input->is_between) return FOCAL_OK;
        foci_expand_spans spans = {input->buffer + input->at, input->filled - input->at,
                                   (uint8_t *)data, room};
        FOCAL_TRY(input->expander->step(input->state, &spans, &input->is_between));
        *got = room - spans.out_bytes;
        const bool took_nothing = spans.in_bytes == input->filled - input->at;
        input->at = input->filled - spans.in_bytes;
        if (*got > 0 || !took_nothing || input->is_between) continue;
        if (input->has_ended || spans.in_bytes > 0)
            return foci_fail(input->ctx, FOCAL_EFORMAT, "%s: the %s data end in the middle",
                             input->name, input->expander->name);
    }
    return FOCAL_OK;
}

const char *foci_input_name(const foci_input *input)
{
    return input->name;
}

int64_t foci_input_position(const foci_input *input)
{
    return input->position;
}

int64_t foci_input_size(const char *path)
{
    struct stat info;
    if (strcmp(path, "-") == 0 || stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return 0;
    return (int64_t)info.st_size;
}
