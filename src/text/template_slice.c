/* x[start:stop:step] of texts, lists and ranges. */
#include "base/error.h"
#include "text/template_chars.h"
#include "text/template_run.h"

/* Python's slice.indices(): where to begin, and how many steps. */
static focal_status slice_range(foci_run *run, const foci_value bounds[3], int64_t length,
                                foci_range *range)
{
    int64_t given[3] = {0, 0, 1};
    for (int n = 0; n < 3; n++) {
        if (bounds[n].kind == FOCI_V_NONE) continue;
        if (bounds[n].kind != FOCI_V_INT && bounds[n].kind != FOCI_V_BOOL)
            return foci_run_fail(run, "a slice's bound is a %s, not an int",
                                 foci_kind_name(bounds[n].kind));
        given[n] = foci_as_int(bounds[n]);
    }
    int64_t step = given[2];
    if (step == 0) return foci_run_fail(run, "a slice's step is zero");
    if (step < -INT64_MAX) step = -INT64_MAX;
    const bool is_back = step < 0;
    const int64_t low = is_back ? -1 : 0, high = is_back ? length - 1 : length;
    int64_t ends[2] = {is_back ? high : low, is_back ? low : high};
    for (int n = 0; n < 2; n++) {
        if (bounds[n].kind == FOCI_V_NONE) continue;
        const int64_t at = given[n] < 0 ? given[n] + length : given[n];
        ends[n] = at < low ? low : at > high ? high : at;
    }
    const int64_t distance = is_back ? ends[0] - ends[1] : ends[1] - ends[0];
    const int64_t stride = is_back ? -step : step;
    const int64_t count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
    *range = (foci_range){ends[0], ends[1], step, count};
    return FOCAL_OK;
}

static focal_status slice_text(foci_run *run, foci_chars text, const foci_range *range,
                               foci_value *out)
{
    const char *at = text.data + foci_char_offset(text, range->start);
    if (range->step == 1 || range->count <= 1) {
        const foci_chars rest = {at, (size_t)(text.data + text.bytes - at)};
        *out = foci_string((foci_chars){at, foci_char_offset(rest, range->count)});
        return FOCAL_OK;
    }
    foci_builder picked = {.store = &run->store};
    for (int64_t n = 0; n < range->count; n++) {
        const char *end = at;
        (void)foci_char_next(&end);
        FOCAL_TRY(foci_builder_add(&picked, at, (size_t)(end - at)));
        if (n + 1 == range->count) break;
        for (int64_t s = 0; s < range->step; s++) (void)foci_char_next(&at);
        for (int64_t s = 0; s > range->step; s--) (void)foci_char_back(&at);
    }
    *out = foci_string(foci_builder_chars(&picked));
    return FOCAL_OK;
}

static focal_status slice_list(foci_run *run, foci_value list, const foci_range *range,
                               foci_value *out)
{
    const foci_value *from = list.as.list.items;
    *out = list;
    if (range->step == 1 || range->count <= 1) {
        out->as.list.items = range->count ? from + range->start : from;
        out->as.list.count = range->count;
        return FOCAL_OK;
    }
    foci_value *items = foci_store_alloc(&run->store, (size_t)range->count, sizeof *items);
    if (!items) return foci_store_failed(&run->store);
    for (int64_t n = 0; n < range->count; n++) items[n] = from[range->start + n * range->step];
    out->as.list.items = items;
    out->as.list.count = range->count;
    return FOCAL_OK;
}

static focal_status slice_of_range(foci_run *run, const foci_range *of, const foci_range *range,
                                   foci_value *out)
{
    foci_range *made = foci_store_alloc(&run->store, 1, sizeof *made);
    if (!made) return foci_store_failed(&run->store);
    int64_t first, last;
    if (__builtin_mul_overflow(range->start, of->step, &first) ||
        __builtin_mul_overflow(range->stop, of->step, &last) ||
        __builtin_add_overflow(first, of->start, &made->start) ||
        __builtin_add_overflow(last, of->start, &made->stop) ||
        __builtin_mul_overflow(range->step, of->step, &made->step))
        return foci_run_fail(run, "a part of a range does not fit 64 bits");
    made->count = range->count;
    *out = (foci_value){.kind = FOCI_V_RANGE, .as.range = made};
    return FOCAL_OK;
}

focal_status foci_slice(foci_run *run, foci_value object, const foci_value bounds[3],
                        foci_value *out)
{
    foci_range range = {0};
    if (object.kind == FOCI_V_UNDEFINED) return foci_fail_undefined(run, object);
    if (object.kind == FOCI_V_STRING) {
        FOCAL_TRY(foci_run_charge(run, (int64_t)object.as.text.bytes));
        FOCAL_TRY(slice_range(run, bounds, foci_char_count(object.as.text), &range));
        return slice_text(run, object.as.text, &range, out);
    }
    if (object.kind == FOCI_V_RANGE) {
        FOCAL_TRY(slice_range(run, bounds, object.as.range->count, &range));
        return slice_of_range(run, object.as.range, &range, out);
    }
    if (!foci_is_list(object))
        return foci_run_fail(run, "a %s cannot be sliced", foci_kind_name(object.kind));
    FOCAL_TRY(slice_range(run, bounds, object.as.list.count, &range));
    FOCAL_TRY(foci_run_charge(run, range.count));
    return slice_list(run, object, &range, out);
}
