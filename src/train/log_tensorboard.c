/* TensorBoard's event files: TFRecord frames around Event messages of Protocol Buffers, of which
 * the few fields that are needed are written here. */
#include "train/log_tensorboard.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/file.h"
#include "train/append_file.h"
#include "train/crc32c.h"

enum {
    HOST_BYTES = 64,
    NAME_BYTES = 160,
    FRAME_HEAD = 12, /* the length and its checksum */
    FRAME_TAIL = 4,
    EVENT_ROOM = 256 /* of everything but tag and text */
};

/* Numbers of the fields, from event.proto, summary.proto and tensor.proto of TensorBoard. */
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_SESSION_LOG = 7,
    SESSION_STATUS = 1,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE = 2,
    VALUE_TENSOR = 8,
    VALUE_METADATA = 9,
    METADATA_PLUGIN = 1,
    PLUGIN_NAME = 1,
    TENSOR_DTYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_STRING = 8,
    SHAPE_DIM = 2,
    DIM_SIZE = 1
};
enum { SESSION_START = 1, DTYPE_STRING = 7 };
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static const char name_head[] = "events.out.tfevents.";

struct foci_events {
    focal_ctx *ctx;
    foci_append file;
};

/* A message being written, into room that is large enough. */
typedef struct message {
    uint8_t *data;
    size_t bytes;
} message;

static void put_varint(message *m, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) m->data[m->bytes++] = (uint8_t)(value | 0x80);
    m->data[m->bytes++] = (uint8_t)value;
}

static void put_fixed(message *m, uint64_t value, int bytes)
{
    for (int n = 0; n < bytes; n++) m->data[m->bytes++] = (uint8_t)(value >> (8 * n));
}

static void put_key(message *m, int field, int wire)
{
    put_varint(m, (uint64_t)field << 3 | (uint64_t)wire);
}

static void put_int(message *m, int field, int64_t value)
{
    put_key(m, field, WIRE_VARINT);
    put_varint(m, (uint64_t)value);
}

static void put_bytes(message *m, int field, const void *data, size_t bytes)
{
    put_key(m, field, WIRE_BYTES);
    put_varint(m, bytes);
    if (bytes > 0) memcpy(m->data + m->bytes, data, bytes);
    m->bytes += bytes;
}

static void put_string(message *m, int field, const char *text)
{
    put_bytes(m, field, text, strlen(text));
}

static void put_double(message *m, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(m, field, WIRE_64);
    put_fixed(m, bits, 8);
}

static void put_float(message *m, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(m, field, WIRE_32);
    put_fixed(m, bits, 4);
}

/* TFRecord's checksum: turned and shifted, so that one of data that holds checksums is sound. */
static uint32_t masked_crc(const focal_ctx *ctx, const void *data, size_t bytes)
{
    const uint32_t crc = foci_crc32c(ctx, 0, data, bytes);
    return (crc >> 15 | crc << 17) + 0xA282EAD8U;
}

/* An event of `step` with one more field: bytes, which may be a message. */
static focal_status put_event(foci_events *events, double now, int64_t step, int field,
                              const void *data, size_t bytes)
{
    focal_ctx *ctx = events->ctx;
    uint8_t *frame = foci_scratch(ctx, bytes + EVENT_ROOM, 1);
    if (!frame) return FOCAL_ENOMEM;
    message event = {frame + FRAME_HEAD, 0};
    put_double(&event, EVENT_WALL_TIME, now);
    if (step != 0) put_int(&event, EVENT_STEP, step);
    put_bytes(&event, field, data, bytes);
    message head = {frame, 0}, tail = {frame + FRAME_HEAD + event.bytes, 0};
    put_fixed(&head, event.bytes, 8);
    put_fixed(&head, masked_crc(ctx, frame, 8), 4);
    put_fixed(&tail, masked_crc(ctx, event.data, event.bytes), 4);
    const focal_status status =
        foci_append_put(&events->file, frame, FRAME_HEAD + event.bytes + FRAME_TAIL);
    foci_scratch_free(ctx, frame);
    return status;
}

/* A summary of one value whose fields behind the tag are given. */
static focal_status put_summary(foci_events *events, double now, int64_t step, const char *tag,
                                const message *fields)
{
    focal_ctx *ctx = events->ctx;
    const size_t room = strlen(tag) + fields->bytes + EVENT_ROOM;
    uint8_t *block = foci_scratch(ctx, 2, room);
    if (!block) return FOCAL_ENOMEM;
    message value = {block, 0}, summary = {block + room, 0};
    put_string(&value, VALUE_TAG, tag);
    memcpy(value.data + value.bytes, fields->data, fields->bytes);
    value.bytes += fields->bytes;
    put_bytes(&summary, SUMMARY_VALUE, value.data, value.bytes);
    const focal_status status =
        put_event(events, now, step, EVENT_SUMMARY, summary.data, summary.bytes);
    foci_scratch_free(ctx, block);
    return status;
}

focal_status foci_events_scalar(foci_events *events, double now, int64_t step, const char *tag,
                                double value)
{
    uint8_t room[8] = {0};
    message fields = {room, 0};
    put_float(&fields, VALUE_SIMPLE, (float)value);
    return put_summary(events, now, step, tag, &fields);
}

focal_status foci_events_text(foci_events *events, double now, int64_t step, const char *tag,
                              const char *text)
{
    focal_ctx *ctx = events->ctx;
    const size_t room = strlen(text) + EVENT_ROOM;
    uint8_t *block = foci_scratch(ctx, 2, room);
    if (!block) return FOCAL_ENOMEM;
    uint8_t dim_room[16] = {0}, shape_room[24] = {0}, plugin_room[16] = {0},
            metadata_room[24] = {0};
    message dim = {dim_room, 0}, shape = {shape_room, 0}, tensor = {block, 0};
    message plugin = {plugin_room, 0}, metadata = {metadata_room, 0}, fields = {block + room, 0};
    put_int(&dim, DIM_SIZE, 1);
    put_bytes(&shape, SHAPE_DIM, dim.data, dim.bytes);
    put_int(&tensor, TENSOR_DTYPE, DTYPE_STRING);
    put_bytes(&tensor, TENSOR_SHAPE, shape.data, shape.bytes);
    put_string(&tensor, TENSOR_STRING, text);
    put_string(&plugin, PLUGIN_NAME, "text");
    put_bytes(&metadata, METADATA_PLUGIN, plugin.data, plugin.bytes);
    put_bytes(&fields, VALUE_TENSOR, tensor.data, tensor.bytes);
    put_bytes(&fields, VALUE_METADATA, metadata.data, metadata.bytes);
    const focal_status status = put_summary(events, now, step, tag, &fields);
    foci_scratch_free(ctx, block);
    return status;
}

/* TensorBoard reads the files of a folder in the order of their names, which begin with the time:
 * one that is later than that of every file there, also when the clock went back. */
static focal_status next_time(focal_ctx *ctx, const char *folder, double now, int64_t *seconds)
{
    DIR *dir = opendir(folder);
    if (!dir) return foci_fail(ctx, FOCAL_EIO, "%s: %s", folder, strerror(errno));
    *seconds = now > 0.0 && now < 9e9 ? (int64_t)now : 0;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (strncmp(entry->d_name, name_head, sizeof name_head - 1) != 0) continue;
        const char *digits = entry->d_name + sizeof name_head - 1;
        char *end = NULL;
        const long long old = strtoll(digits, &end, 10);
        if (end == digits + 10 && old >= *seconds && old < 9999999999) *seconds = old + 1;
    }
    (void)closedir(dir);
    return FOCAL_OK;
}

/* Host names are ours to shorten: only letters that a file's name can have anywhere. */
static void host_name(char out[HOST_BYTES])
{
    if (gethostname(out, HOST_BYTES) != 0) out[0] = '\0';
    out[HOST_BYTES - 1] = '\0';
    for (char *at = out; *at; at++) {
        const bool is_plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                              (*at >= '0' && *at <= '9') || *at == '-';
        if (!is_plain) *at = '_';
    }
}

static focal_status open_file(focal_ctx *ctx, const char *folder, double now, foci_append *file)
{
    int64_t seconds = 0;
    char name[NAME_BYTES], host[HOST_BYTES];
    FOCAL_TRY(next_time(ctx, folder, now, &seconds));
    host_name(host);
    (void)snprintf(name, sizeof name, "%s%010" PRId64 ".%s.%ld.0", name_head, seconds,
                   host[0] ? host : "host", (long)getpid());
    char *path = foci_path_join(ctx, folder, strlen(folder), name);
    if (!path) return FOCAL_ENOMEM;
    const focal_status status = foci_append_open(ctx, path, true, file);
    foci_free(ctx, path);
    return status;
}

focal_status foci_events_open(focal_ctx *ctx, const char *folder, int64_t step, double now,
                              foci_events **out)
{
    static const char version[] = "brain.Event:2";
    *out = NULL;
    foci_events *events = foci_alloc(ctx, 1, sizeof *events);
    if (!events) return FOCAL_ENOMEM;
    *events = (foci_events){.ctx = ctx};
    focal_status status = open_file(ctx, folder, now, &events->file);
    if (status == FOCAL_OK)
        status = put_event(events, now, 0, EVENT_FILE_VERSION, version, sizeof version - 1);
    if (status == FOCAL_OK && step >= 0) {
        /* TensorBoard drops what it has read of this step and those behind it. */
        uint8_t room[8] = {0};
        message session = {room, 0};
        put_int(&session, SESSION_STATUS, SESSION_START);
        status = put_event(events, now, step + 1, EVENT_SESSION_LOG, session.data, session.bytes);
    }
    if (status == FOCAL_OK)
        *out = events;
    else
        foci_events_close(events);
    return status;
}

void foci_events_close(foci_events *events)
{
    if (!events) return;
    foci_append_close(&events->file);
    foci_free(events->ctx, events);
}

const char *foci_events_path(const foci_events *events)
{
    return events->file.path;
}

focal_status foci_events_sync(foci_events *events)
{
    return foci_append_sync(&events->file);
}
