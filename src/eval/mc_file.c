/* Files of multiple choice: a JSON object a line, checked and copied into items. */
#include "eval/mc_file.h"

#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/random.h"
#include "io/input.h"
#include "io/json.h"
#include "text/utf8.h"

enum { READ_BYTES = 1 << 18, NAME_BYTES = 4096, FIRST_ITEMS = 64, STREAM_SAMPLE = 0x6D63 };

typedef struct kept_item {
    focal_mc_item item;
    void *block; /* its texts and their bytes */
} kept_item;

struct focal_mc_set {
    focal_ctx *ctx;
    char *name;
    kept_item *items; /* (capacity) */
    int64_t count, capacity;
    size_t bytes; /* of the lines of all items */
};

focal_status foci_mc_set_new(focal_ctx *ctx, const char *name, focal_mc_set **out)
{
    const size_t bytes = strlen(name) + 1;
    focal_mc_set *set = foci_alloc(ctx, 1, sizeof *set);
    *out = NULL;
    if (!set) return FOCAL_ENOMEM;
    *set = (focal_mc_set){.ctx = ctx};
    set->name = foci_alloc(ctx, bytes, 1);
    if (!set->name) {
        focal_mc_close(set);
        return FOCAL_ENOMEM;
    }
    memcpy(set->name, name, bytes);
    *out = set;
    return FOCAL_OK;
}

void focal_mc_close(focal_mc_set *set)
{
    if (!set) return;
    for (int64_t n = 0; n < set->count; n++) foci_free(set->ctx, set->items[n].block);
    foci_free(set->ctx, set->items);
    foci_free(set->ctx, set->name);
    foci_free(set->ctx, set);
}

int64_t focal_mc_count(const focal_mc_set *set)
{
    return set->count;
}

const focal_mc_item *focal_mc_at(const focal_mc_set *set, int64_t n)
{
    return &set->items[n].item;
}

static focal_status reserve_item(focal_mc_set *set)
{
    if (set->count < set->capacity) return FOCAL_OK;
    const int64_t capacity = set->capacity ? 2 * set->capacity : FIRST_ITEMS;
    kept_item *items = foci_alloc(set->ctx, (size_t)capacity, sizeof *items);
    if (!items) return FOCAL_ENOMEM;
    if (set->count > 0) memcpy(items, set->items, (size_t)set->count * sizeof *items);
    foci_free(set->ctx, set->items);
    set->items = items;
    set->capacity = capacity;
    return FOCAL_OK;
}

/* The members of a line. */
typedef struct members {
    const foci_json *context, *choices, *answer, *id, *task;
} members;

static members members_of(const foci_json *object)
{
    members m = {.context = foci_json_get(object, "context"),
                 .choices = foci_json_get(object, "choices"),
                 .answer = foci_json_get(object, "answer"),
                 .id = foci_json_get(object, "id"),
                 .task = foci_json_get(object, "task")};
    if (!m.context) m.context = foci_json_get(object, "ctx");
    if (!m.answer) m.answer = foci_json_get(object, "gold");
    return m;
}

static bool is_blank(const foci_json *string)
{
    const char *text = foci_json_string(string);
    const size_t bytes = foci_json_length(string);
    for (size_t at = 0, step; at < bytes; at += step)
        if (!foci_is_space(foci_utf8_decode(text + at, bytes - at, &step))) return false;
    return true;
}

static focal_status check_choices(focal_ctx *ctx, const char *what, const members *m)
{
    const int64_t count = foci_json_count(m->choices);
    if (!foci_json_is(m->choices, FOCI_JSON_ARRAY))
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: 'choices' is not there or is no list", what);
    if (count < 2 || count > FOCAL_MC_CHOICES_MOST)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: choices: %lld, at least 2 and at most %d", what,
                         (long long)count, FOCAL_MC_CHOICES_MOST);
    for (int64_t n = 0; n < count; n++) {
        const foci_json *choice = foci_json_at(m->choices, n);
        if (!foci_json_is(choice, FOCI_JSON_STRING))
            return foci_fail(ctx, FOCAL_EFORMAT, "%s: choice %lld is no text", what, (long long)n);
        if (is_blank(choice))
            return foci_fail(ctx, FOCAL_EFORMAT, "%s: choice %lld is empty", what, (long long)n);
    }
    return FOCAL_OK;
}

/* Of two names for one thing a line has one: which counts where they differ would be a guess. */
static focal_status check_names(focal_ctx *ctx, const char *what, const foci_json *object)
{
    static const char *const twins[][2] = {{"context", "ctx"}, {"answer", "gold"}};
    const foci_json *id = foci_json_get(object, "id"), *task = foci_json_get(object, "task");
    for (size_t n = 0; n < FOCAL_COUNT(twins); n++)
        if (foci_json_get(object, twins[n][0]) && foci_json_get(object, twins[n][1]))
            return foci_fail(ctx, FOCAL_EFORMAT, "%s: has both '%s' and '%s'", what, twins[n][0],
                             twins[n][1]);
    if (id && !foci_json_is(id, FOCI_JSON_STRING) && !foci_json_is(id, FOCI_JSON_INT) &&
        !foci_json_is(id, FOCI_JSON_NULL))
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: 'id' is neither text nor whole number", what);
    if (task && !foci_json_is(task, FOCI_JSON_STRING) && !foci_json_is(task, FOCI_JSON_NULL))
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: 'task' is no text", what);
    return FOCAL_OK;
}

static focal_status check_context(focal_ctx *ctx, const char *what, const members *m)
{
    const int64_t count = foci_json_count(m->choices), contexts = foci_json_count(m->context);
    if (foci_json_is(m->context, FOCI_JSON_STRING)) return FOCAL_OK;
    if (!foci_json_is(m->context, FOCI_JSON_ARRAY))
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: 'context' is not there or is no text", what);
    if (contexts != count)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: contexts: %lld, choices: %lld", what,
                         (long long)contexts, (long long)count);
    for (int64_t n = 0; n < count; n++)
        if (!foci_json_is(foci_json_at(m->context, n), FOCI_JSON_STRING))
            return foci_fail(ctx, FOCAL_EFORMAT, "%s: context %lld is no text", what, (long long)n);
    return FOCAL_OK;
}

static focal_status check_answer(focal_ctx *ctx, const char *what, const members *m)
{
    const int64_t last = foci_json_count(m->choices) - 1, answer = foci_json_int(m->answer, -1);
    if (!foci_json_is(m->answer, FOCI_JSON_INT))
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: 'answer' is not there or is no whole number",
                         what);
    if (answer < 0 || answer > last)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: answer %lld, choices go from 0 to %lld", what,
                         (long long)answer, (long long)last);
    return FOCAL_OK;
}

/* Copies bytes to *room, which moves on. */
static focal_mc_text copy_text(char **room, const char *text, size_t bytes)
{
    const focal_mc_text copy = {*room, bytes};
    if (bytes > 0) memcpy(*room, text, bytes);
    *room += bytes;
    return copy;
}

static focal_mc_text copy_string(char **room, const foci_json *string)
{
    return copy_text(room, foci_json_string(string), foci_json_length(string));
}

/* Appends the item; its members have been checked. */
static focal_status keep_item(foci_mc_reader *r, const members *m)
{
    focal_mc_set *set = r->set;
    const int64_t count = foci_json_count(m->choices);
    const bool has_contexts = foci_json_is(m->context, FOCI_JSON_ARRAY);
    char number[32] = "";
    if (foci_json_is(m->id, FOCI_JSON_INT))
        (void)snprintf(number, sizeof number, "%lld", (long long)foci_json_int(m->id, 0));
    size_t bytes = foci_json_length(m->context) + foci_json_length(m->id) + strlen(number);
    for (int64_t n = 0; n < count; n++)
        bytes += foci_json_length(foci_json_at(m->choices, n)) +
                 foci_json_length(foci_json_at(m->context, n));
    FOCAL_TRY(reserve_item(set));
    const size_t texts = 2 * (size_t)count * sizeof(focal_mc_text);
    focal_mc_text *choices = foci_alloc(r->ctx, texts + bytes, 1);
    if (!choices) return FOCAL_ENOMEM;
    focal_mc_text *contexts = choices + count;
    char *room = (char *)choices + texts;
    const focal_mc_text context = copy_string(&room, m->context);
    for (int64_t n = 0; n < count; n++) {
        choices[n] = copy_string(&room, foci_json_at(m->choices, n));
        contexts[n] = has_contexts ? copy_string(&room, foci_json_at(m->context, n)) : context;
    }
    const focal_mc_text id =
        *number ? copy_text(&room, number, strlen(number)) : copy_string(&room, m->id);
    set->items[set->count++] =
        (kept_item){{set->name, r->line, id, (int32_t)count, (int32_t)foci_json_int(m->answer, 0),
                     contexts, choices},
                    choices};
    return FOCAL_OK;
}

static bool is_of_task(const members *m, const char *task)
{
    const char *own = foci_json_string(m->task);
    return !task || (own && foci_json_length(m->task) == strlen(task) &&
                     memcmp(own, task, strlen(task)) == 0);
}

static focal_status take_item(foci_mc_reader *r, const foci_json *object, size_t bytes)
{
    char what[NAME_BYTES];
    const members m = members_of(object);
    (void)snprintf(what, sizeof what, "%s: line %lld", r->set->name, (long long)r->line);
    if (!foci_json_is(object, FOCI_JSON_OBJECT))
        return foci_fail(r->ctx, FOCAL_EFORMAT, "%s: is no object", what);
    if (!is_of_task(&m, r->source->task)) return FOCAL_OK;
    FOCAL_TRY(check_names(r->ctx, what, object));
    FOCAL_TRY(check_choices(r->ctx, what, &m));
    FOCAL_TRY(check_context(r->ctx, what, &m));
    FOCAL_TRY(check_answer(r->ctx, what, &m));
    r->set->bytes += bytes;
    if (r->set->bytes > FOCAL_MC_BYTES_MOST)
        return foci_fail(r->ctx, FOCAL_EFORMAT, "%s: more than %d MiB of items", what,
                         FOCAL_MC_BYTES_MOST >> 20);
    FOCAL_TRY(keep_item(r, &m));
    r->is_full = r->source->limit > 0 && r->set->count == r->source->limit;
    return FOCAL_OK;
}

/* One line without its end; blank ones are passed over. */
static focal_status take_line(foci_mc_reader *r, const char *text, size_t bytes)
{
    char what[NAME_BYTES];
    foci_json *root = NULL;
    size_t first = 0;
    r->line++;
    while (first < bytes && (text[first] == ' ' || text[first] == '\t' || text[first] == '\r'))
        first++;
    if (first == bytes) return FOCAL_OK;
    (void)snprintf(what, sizeof what, "%s: JSON of line %lld", r->set->name, (long long)r->line);
    FOCAL_TRY(foci_json_parse(r->ctx, what, text, bytes, &root));
    const focal_status status = take_item(r, root, bytes);
    foci_json_free(root);
    return status;
}

static focal_status take_held(foci_mc_reader *r)
{
    const size_t bytes = r->held.bytes;
    r->held.bytes = 0;
    return take_line(r, r->held.data, bytes);
}

focal_status foci_mc_reader_put(foci_mc_reader *r, const char *text, size_t bytes)
{
    if (bytes == 0 && r->held.bytes > 0 && !r->is_full) return take_held(r);
    while (bytes > 0 && !r->is_full) {
        const char *end = memchr(text, '\n', bytes);
        const size_t take = end ? (size_t)(end - text) : bytes;
        if (r->held.bytes + take > FOCAL_MC_LINE_MOST)
            return foci_fail(r->ctx, FOCAL_EFORMAT, "%s: line %lld has more than %d MiB",
                             r->set->name, (long long)r->line + 1, FOCAL_MC_LINE_MOST >> 20);
        if (end && r->held.bytes == 0) {
            FOCAL_TRY(take_line(r, text, take));
        } else {
            FOCAL_TRY(foci_buffer_put(r->ctx, &r->held, text, take));
            if (!end) return FOCAL_OK;
            FOCAL_TRY(take_held(r));
        }
        text = end + 1;
        bytes -= take + 1;
    }
    return FOCAL_OK;
}

void foci_mc_reader_free(foci_mc_reader *reader)
{
    focal_buffer_free(reader->ctx, &reader->held);
}

static focal_status read_all(foci_mc_reader *r, foci_input *input, char *data)
{
    for (size_t got = 1; got > 0 && !r->is_full;) {
        FOCAL_TRY(foci_input_read(input, data, READ_BYTES, &got));
        FOCAL_TRY(foci_mc_reader_put(r, data, got));
    }
    if (r->set->count > 0) return FOCAL_OK;
    if (r->source->task)
        return foci_fail(r->ctx, FOCAL_EFORMAT, "%s: no item of the task '%.64s' in %lld lines",
                         r->set->name, r->source->task, (long long)r->line);
    return foci_fail(r->ctx, FOCAL_EFORMAT, "%s: no item in %lld lines", r->set->name,
                     (long long)r->line);
}

/* Leaves `sample` of the items: each is taken with the share of places that are left. */
static void draw(focal_mc_set *set, int64_t sample, uint64_t seed)
{
    const int64_t count = set->count;
    set->count = 0;
    for (int64_t n = 0; n < count; n++) {
        const uint32_t left = (uint32_t)(count - n);
        if (foci_random_below(seed, STREAM_SAMPLE, (uint64_t)n, left) < sample - set->count)
            set->items[set->count++] = set->items[n];
        else
            foci_free(set->ctx, set->items[n].block);
    }
}

focal_status focal_mc_open(focal_ctx *ctx, const focal_mc_source *source, focal_mc_set **out)
{
    foci_mc_reader r = {.ctx = ctx, .source = source};
    foci_input *input = NULL;
    *out = NULL;
    if (!source->path || source->limit < 0 || source->sample < 0)
        return foci_fail(ctx, FOCAL_EINVAL, "mc: no file, a limit of %lld or a sample of %lld",
                         (long long)source->limit, (long long)source->sample);
    FOCAL_TRY(foci_input_open(ctx, source->path, &input));
    char *data = foci_alloc(ctx, READ_BYTES, 1);
    focal_status status =
        data ? foci_mc_set_new(ctx, foci_input_name(input), &r.set) : FOCAL_ENOMEM;
    if (status == FOCAL_OK) status = read_all(&r, input, data);
    if (status == FOCAL_OK && source->sample > 0) draw(r.set, source->sample, source->seed);
    if (status != FOCAL_OK) {
        focal_mc_close(r.set);
        r.set = NULL;
    }
    foci_mc_reader_free(&r);
    foci_free(ctx, data);
    foci_input_close(input);
    *out = r.set;
    return status;
}
