/* Reading and writing run files, line by line. */
#include "train/run_file.h"

#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/file.h"
#include "train/run_line.h"
#include "train/run_value.h"

enum { PLACE_BYTES = 128, NAME_SHOWN = 64 };

/* Where a setting stands, for messages. */
typedef struct place {
    focal_ctx *ctx;
    focal_status status; /* of what is wrong there */
    char text[PLACE_BYTES];
} place;

static int shown(foci_text text)
{
    return (int)(text.bytes < NAME_SHOWN ? text.bytes : NAME_SHOWN);
}

/* `key = value`; *key becomes its number. */
static focal_status read_setting(const place *at, foci_text setting, foci_run *run, int *key)
{
    const char *equals = memchr(setting.data, '=', setting.bytes);
    if (!equals)
        return foci_fail(at->ctx, at->status, "%s: '%.*s' has no '=': a setting is `key = value`",
                         at->text, shown(setting), setting.data);
    const size_t name_bytes = (size_t)(equals - setting.data);
    const foci_text name = foci_line_trim((foci_text){setting.data, name_bytes});
    const foci_text value = foci_line_trim((foci_text){equals + 1, setting.bytes - name_bytes - 1});
    *key = foci_run_find(name);
    if (*key < 0)
        return foci_fail(at->ctx, at->status, "%s: there is no key '%.*s', the nearest is '%s'",
                         at->text, shown(name), name.data,
                         foci_run_keys[foci_run_nearest(name)].name);
    char problem[FOCI_RUN_PROBLEM];
    if (!foci_run_value_read(&foci_run_keys[*key], value, run, problem))
        return foci_fail(at->ctx, at->status, "%s: %s", at->text, problem);
    run->is_given[*key] = true;
    return FOCAL_OK;
}

focal_status foci_run_parse(focal_ctx *ctx, const char *path, foci_text text, foci_run *run)
{
    int64_t lines[FOCI_RUN_KEYS] = {0}; /* where each key stood */
    int64_t number = 0;
    foci_text line;
    while (foci_line_next(&text, &line)) {
        place at = {.ctx = ctx, .status = FOCAL_EFORMAT};
        (void)snprintf(at.text, sizeof at.text, "%.*s:%lld", PLACE_BYTES - 24, path,
                       (long long)++number);
        if (!foci_line_is_plain(line))
            return foci_fail(ctx, FOCAL_EFORMAT, "%s: not plain UTF-8 text", at.text);
        const foci_text setting = foci_line_bare(line);
        if (setting.bytes == 0) continue;
        int key = 0;
        FOCAL_TRY(read_setting(&at, setting, run, &key));
        if (lines[key] > 0)
            return foci_fail(ctx, FOCAL_EFORMAT, "%s: '%s' stands in line %lld already", at.text,
                             foci_run_keys[key].name, (long long)lines[key]);
        lines[key] = number;
    }
    return FOCAL_OK;
}

focal_status foci_run_read(focal_ctx *ctx, const char *path, foci_run *run)
{
    char *data = NULL;
    size_t bytes = 0;
    FOCAL_TRY(foci_read_file(ctx, path, FOCI_RUN_FILE_BYTES, &data, &bytes));
    const focal_status status = foci_run_parse(ctx, path, (foci_text){data, bytes}, run);
    foci_free(ctx, data);
    return status;
}

focal_status foci_run_set_by(focal_ctx *ctx, const char *option, const char *assignment,
                             foci_run *run)
{
    const foci_text setting = foci_text_of(assignment);
    place at = {.ctx = ctx, .status = FOCAL_EINVAL};
    int key = 0;
    (void)snprintf(at.text, sizeof at.text, "%s", option);
    if (!foci_line_is_plain(setting))
        return foci_fail(ctx, FOCAL_EINVAL, "%s: not plain UTF-8 text", option);
    return read_setting(&at, setting, run, &key);
}

focal_status foci_run_set(focal_ctx *ctx, const char *assignment, foci_run *run)
{
    return foci_run_set_by(ctx, "--set", assignment, run);
}

void foci_run_init(foci_run *run)
{
    memset(run, 0, sizeof *run);
    char problem[FOCI_RUN_PROBLEM];
    for (int n = 0; n < FOCI_RUN_KEYS; n++)
        (void)foci_run_value_read(&foci_run_keys[n], foci_text_of(foci_run_keys[n].initial), run,
                                  problem); /* a test reads every default */
}

focal_status foci_run_write(focal_ctx *ctx, const char *path, const foci_run *run)
{
    static const char head[] = "# Every setting of a run of focal (docs/TRAINING.md).\n";
    foci_writer *writer = NULL;
    FOCAL_TRY(foci_writer_open(ctx, path, &writer));
    foci_writer_put(writer, head, sizeof head - 1);
    for (int n = 0; n < FOCI_RUN_KEYS; n++) {
        char value[FOCI_RUN_VALUE];
        foci_run_value(run, n, value);
        foci_writer_put(writer, foci_run_keys[n].name, strlen(foci_run_keys[n].name));
        foci_writer_put(writer, " = ", 3);
        foci_writer_put(writer, value, strlen(value));
        foci_writer_put(writer, "\n", 1);
    }
    return foci_writer_commit(writer);
}
