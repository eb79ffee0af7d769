/* Names in braces: what they stand for in the texts of a sweep, and those that stand for nothing.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "train/run_value.h"
#include "train/sweep_state.h"

enum { NAMES_MOST = FOCI_SWEEP_INPUTS + 4 };

/* What stands for the name in braces; NULL: nothing does. */
static const char *meaning_of(const focal_sweep *sweep, foci_text name,
                              const foci_sweep_places *places, char room[FOCI_SWEEP_PATH])
{
    if (foci_text_equal(name, foci_text_of("data"))) {
        const int bytes = snprintf(room, FOCI_SWEEP_PATH, "%s/data", sweep->folder);
        return bytes < FOCI_SWEEP_PATH ? room : NULL;
    }
    for (int32_t n = 0; n < sweep->file.input_count; n++)
        if (foci_text_equal(name, foci_text_of(sweep->given[n].name)))
            return sweep->given[n].path[0] ? sweep->given[n].path : NULL;
    if (!places) return NULL;
    if (foci_text_equal(name, foci_text_of("out"))) return places->out[0] ? places->out : NULL;
    if (places->run[0] && foci_text_equal(name, foci_text_of("run"))) return places->run;
    if (places->run[0] && foci_text_equal(name, foci_text_of("model"))) {
        (void)snprintf(room, FOCI_SWEEP_PATH, "%s/model", places->run);
        return room;
    }
    return NULL;
}

focal_status foci_sweep_fill(focal_sweep *sweep, foci_text text, const foci_sweep_places *places,
                             char out[FOCI_SWEEP_PATH])
{
    size_t used = 0;
    for (size_t n = 0; n < text.bytes; n++) {
        char room[FOCI_SWEEP_PATH];
        const char *end = text.data[n] == '{' ? memchr(text.data + n, '}', text.bytes - n) : NULL;
        const size_t name_bytes = end ? (size_t)(end - text.data) - n - 1 : 0;
        const char *meaning =
            end ? meaning_of(sweep, (foci_text){text.data + n + 1, name_bytes}, places, room)
                : NULL;
        const size_t bytes = meaning ? strlen(meaning) : 1;
        if (used + bytes >= FOCI_SWEEP_PATH)
            return foci_fail(sweep->ctx, FOCAL_EINVAL, "%s: a name is longer than %d bytes",
                             sweep->path, FOCI_SWEEP_PATH - 1);
        memcpy(out + used, meaning ? meaning : text.data + n, bytes);
        used += bytes;
        if (meaning) n += name_bytes + 1;
    }
    out[used] = '\0';
    return FOCAL_OK;
}

static int32_t list_names(const focal_sweep *sweep, const foci_sweep_places *places,
                          const char *names[NAMES_MOST])
{
    int32_t count = 0;
    names[count++] = "data";
    if (places && places->out[0]) names[count++] = "out";
    if (places && places->run[0]) {
        names[count++] = "run";
        names[count++] = "model";
    }
    for (int32_t n = 0; n < sweep->file.input_count; n++) names[count++] = sweep->given[n].name;
    return count;
}

static focal_status check_name(focal_sweep *sweep, const char *place, foci_text name,
                               const foci_sweep_places *places)
{
    const char *names[NAMES_MOST];
    const int32_t count = list_names(sweep, places, names);
    int32_t near = 0;
    for (int32_t n = 0; n < count; n++) {
        if (foci_text_equal(name, foci_text_of(names[n]))) return FOCAL_OK;
        if (foci_run_distance(name, foci_text_of(names[n])) <
            foci_run_distance(name, foci_text_of(names[near])))
            near = n;
    }
    /* A name of which most letters are others is no help. */
    const int distance = foci_run_distance(name, foci_text_of(names[near]));
    const bool is_near = 2 * (size_t)distance <= name.bytes;
    return foci_fail(sweep->ctx, FOCAL_EINVAL, "%s: there is no {%.*s}%s%s%s", place,
                     (int)name.bytes, name.data, is_near ? ", the nearest is {" : "",
                     is_near ? names[near] : "", is_near ? "}" : "");
}

focal_status foci_sweep_check_text(focal_sweep *sweep, const char *place, foci_text text,
                                   const foci_sweep_places *places)
{
    for (size_t n = 0; n < text.bytes; n++) {
        const char *end = text.data[n] == '{' ? memchr(text.data + n, '}', text.bytes - n) : NULL;
        if (!end) continue;
        const foci_text name = {text.data + n + 1, (size_t)(end - text.data) - n - 1};
        if (foci_sweep_is_name(name)) FOCAL_TRY(check_name(sweep, place, name, places));
    }
    return FOCAL_OK;
}
