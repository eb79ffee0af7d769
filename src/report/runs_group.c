/* From runs to arms: which settings differ, what an arm is called, what it is compared with. */
#include "report/runs_group.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"

static int key_of(const char *name)
{
    return foci_run_find(foci_text_of(name));
}

const foci_run_folder *foci_arm_run(const foci_runs *runs, const foci_arm *arm, int32_t n)
{
    return runs->runs[runs->order[arm->first + n]];
}

const char *foci_arm_value(const foci_runs *runs, int32_t arm, int key)
{
    return foci_run_folder_value(foci_arm_run(runs, &runs->arms[arm], 0), key);
}

bool foci_is_size_key(foci_axis axis, int key)
{
    const char *name = foci_run_keys[key].name;
    if (axis == FOCI_AXIS_PARAMETERS)
        return strncmp(name, "model.", 6) == 0 && strcmp(name, "model.qk_norm") != 0 &&
               strcmp(name, "model.family") != 0;
    return strcmp(name, "schedule.steps") == 0 || strcmp(name, "schedule.warmup") == 0 ||
           strcmp(name, "schedule.minutes") == 0;
}

static void find_differences(foci_runs *runs)
{
    for (int key = 0; key < FOCI_RUN_KEYS; key++) {
        const char *first = foci_run_folder_value(runs->runs[0], key);
        for (int32_t n = 1; n < runs->run_count && key != key_of("seed"); n++)
            runs->differs[key] |= strcmp(first, foci_run_folder_value(runs->runs[n], key)) != 0;
    }
}

/* Numbers by their size, everything else as text. */
static int compare_values(const char *a, const char *b)
{
    char *a_end, *b_end;
    const double x = strtod(a, &a_end), y = strtod(b, &b_end);
    const bool are_numbers = a_end != a && b_end != b && *a_end == '\0' && *b_end == '\0';
    if (are_numbers && x < y) return -1;
    if (are_numbers && x > y) return 1;
    return strcmp(a, b);
}

/* By the settings that differ; 0: the two are of one arm. */
static int compare_settings(const foci_runs *runs, const foci_run_folder *a,
                            const foci_run_folder *b)
{
    int result = 0;
    for (int key = 0; result == 0 && key < FOCI_RUN_KEYS; key++)
        if (runs->differs[key])
            result = compare_values(foci_run_folder_value(a, key), foci_run_folder_value(b, key));
    return result;
}

/* Settings, seed, finished ones first, and then as they were given. */
static bool stands_before(const foci_runs *runs, const foci_run_folder *a, const foci_run_folder *b)
{
    const int settings = compare_settings(runs, a, b);
    if (settings != 0) return settings < 0;
    if (a->seed != b->seed) return a->seed < b->seed;
    return a->is_finished && !b->is_finished;
}

static void sort_runs(foci_runs *runs)
{
    for (int32_t n = 1; n < runs->run_count; n++) {
        foci_run_folder *run = runs->runs[n];
        int32_t at = n;
        for (; at > 0 && stands_before(runs, run, runs->runs[at - 1]); at--)
            runs->runs[at] = runs->runs[at - 1];
        runs->runs[at] = run;
    }
}

/* Makes an arm of the sorted runs begin .. end - 1: the finished ones, or all when none is; of two
 * with the same seed only the first, since they are one run. */
static void make_arm(foci_runs *runs, int32_t begin, int32_t end, int32_t *used)
{
    foci_arm *arm = &runs->arms[runs->arm_count++];
    memset(arm, 0, sizeof *arm);
    arm->first = *used;
    arm->baseline = -1;
    for (int32_t n = begin; n < end; n++) arm->is_finished |= runs->runs[n]->is_finished;
    for (int32_t n = begin; n < end; n++) {
        const foci_run_folder *run = runs->runs[n];
        const foci_run_folder *last =
            arm->count > 0 ? foci_arm_run(runs, arm, arm->count - 1) : NULL;
        if (arm->is_finished && !run->is_finished) {
            foci_note(&runs->notes, "%s is left out of means and curves: other seeds are finished",
                      run->name);
        } else if (last && last->seed == run->seed) {
            const bool is_equal =
                last->final == run->final || (isnan(last->final) && isnan(run->final));
            foci_note(&runs->notes,
                      "%s has the settings and the seed of %s: left out (%s validation loss, %.6g "
                      "and %.6g)",
                      run->name, last->name, is_equal ? "the same" : "another", run->final,
                      last->final);
        } else {
            runs->order[(*used)++] = n;
            arm->count++;
        }
    }
}

/* Appends as much as fits. */
static void append(char *text, const char *more)
{
    const size_t used = strlen(text);
    (void)snprintf(text + used, FOCI_RUNS_NAME - used, "%s", more);
}

/* The last part of a key where no other key ends so; "temperature" for temperature.value. */
static void short_key(int key, char out[FOCI_RUNS_NAME])
{
    const char *name = foci_run_keys[key].name, *dot = strchr(name, '.');
    (void)snprintf(out, FOCI_RUNS_NAME, "%s", name);
    if (!dot) return;
    if (strcmp(dot, ".value") == 0) {
        out[dot - name] = '\0';
        return;
    }
    for (int other = 0; other < FOCI_RUN_KEYS; other++) {
        const char *end = strchr(foci_run_keys[other].name, '.');
        if (other != key && end && strcmp(end, dot) == 0) return;
    }
    (void)snprintf(out, FOCI_RUNS_NAME, "%s", dot + 1);
}

/* Keys that follow from others where they are not set, so that they need no mention. */
static bool follows_from_others(const foci_runs *runs, int key)
{
    static const char *const pairs[][2] = {{"model.kv_heads", "model.heads"},
                                           {"model.head_dim", "model.width"},
                                           {"temperature.length_n0", "data.length"},
                                           {"schedule.warmup", "schedule.steps"}};
    for (size_t n = 0; n < FOCAL_COUNT(pairs); n++)
        if (strcmp(foci_run_keys[key].name, pairs[n][0]) == 0 && runs->differs[key_of(pairs[n][1])])
            return true;
    return false;
}

void foci_arm_label(const foci_runs *runs, int32_t arm, int axis, char out[FOCI_RUNS_NAME])
{
    out[0] = '\0';
    for (int key = 0; key < FOCI_RUN_KEYS; key++) {
        const bool is_size = axis >= 0 && foci_is_size_key((foci_axis)axis, key);
        if (!runs->differs[key] || is_size || follows_from_others(runs, key)) continue;
        char name[FOCI_RUNS_NAME];
        short_key(key, name);
        if (*out) append(out, ", ");
        append(out, name);
        append(out, "=");
        append(out, foci_arm_value(runs, arm, key));
    }
    if (!*out) append(out, runs->arm_count > 1 ? "the same settings" : "all runs");
    if (!foci_text_is_plain(foci_text_of(out))) /* cut within a character, or a path of bytes */
        for (char *c = out; *c; c++)
            if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7F) *c = '?';
}

/* "t0.4" of the folders t0.4-s1, t0.4-s2, ...; false when they have no such name in common. */
static bool common_name(const foci_runs *runs, const foci_arm *arm, char out[FOCI_RUNS_NAME])
{
    for (int32_t n = 0; n < arm->count; n++) {
        const foci_run_folder *run = foci_arm_run(runs, arm, n);
        char name[FOCI_RUNS_NAME], end[32];
        (void)snprintf(name, sizeof name, "%s", run->name);
        const int end_bytes = snprintf(end, sizeof end, "-s%" PRId64, run->seed);
        const size_t bytes = strlen(name);
        if (bytes > (size_t)end_bytes && strcmp(name + bytes - (size_t)end_bytes, end) == 0)
            name[bytes - (size_t)end_bytes] = '\0';
        else if (arm->count > 1)
            return false;
        if (n == 0)
            (void)snprintf(out, FOCI_RUNS_NAME, "%s", name);
        else if (strcmp(out, name) != 0)
            return false;
    }
    return true;
}

static bool is_name_taken(const foci_runs *runs, int32_t arm)
{
    for (int32_t n = 0; n < runs->arm_count; n++)
        if (n != arm && strcmp(runs->arms[n].name, runs->arms[arm].name) == 0) return true;
    return false;
}

static void name_arms(foci_runs *runs)
{
    bool is_good = true;
    for (int32_t n = 0; is_good && n < runs->arm_count; n++)
        is_good = common_name(runs, &runs->arms[n], runs->arms[n].name) && *runs->arms[n].name;
    for (int32_t n = 0; is_good && n < runs->arm_count; n++) is_good = !is_name_taken(runs, n);
    for (int32_t n = 0; !is_good && n < runs->arm_count; n++)
        foci_arm_label(runs, n, -1, runs->arms[n].name);
    for (int32_t n = 0; n < runs->arm_count; n++) {
        char *name = runs->arms[n].name, number[16];
        (void)snprintf(number, sizeof number, " #%" PRId32, n + 1);
        if (!is_name_taken(runs, n)) continue;
        if (strlen(name) + sizeof number > FOCI_RUNS_NAME)
            name[FOCI_RUNS_NAME - sizeof number] = '\0';
        append(name, number);
    }
}

/* Whether arms are named so, or have the value of "key=value". */
typedef struct condition {
    const char *name;
    int key; /* -1: a name */
    char value[FOCI_RUN_VALUE];
} condition;

static bool holds(const foci_runs *runs, const condition *c, int32_t arm)
{
    if (c->key < 0) return strcmp(runs->arms[arm].name, c->name) == 0;
    return strcmp(foci_arm_value(runs, arm, c->key), c->value) == 0;
}

static focal_status parse_condition(foci_runs *runs, const char *text, condition *c)
{
    *c = (condition){.name = text, .key = -1};
    for (int32_t n = 0; n < runs->arm_count; n++)
        if (strcmp(runs->arms[n].name, text) == 0) return FOCAL_OK;
    const char *equals = strchr(text, '=');
    if (!equals)
        return foci_fail(runs->ctx, FOCAL_EINVAL,
                         "report: no arm is named '%.200s' (the baseline is one of them, as '%s', "
                         "or key=value)",
                         text, runs->arms[0].name);
    foci_run *settings = foci_alloc(runs->ctx, 1, sizeof *settings);
    if (!settings) return FOCAL_ENOMEM;
    foci_run_init(settings); /* the value as it is written in run files: 1 for 1.0 */
    const focal_status status = foci_run_set_by(runs->ctx, "report: --baseline", text, settings);
    if (status == FOCAL_OK) {
        size_t bytes = (size_t)(equals - text);
        while (bytes > 0 && text[bytes - 1] == ' ') bytes--;
        c->key = foci_run_find((foci_text){text, bytes});
        if (c->key >= 0) foci_run_value(settings, c->key, c->value);
    }
    foci_free(runs->ctx, settings);
    return status;
}

/* Arms that fulfil all conditions are baselines. */
static focal_status mark_baselines(foci_runs *runs, const char *const *texts, int32_t count)
{
    for (int32_t arm = 0; arm < runs->arm_count; arm++) runs->arms[arm].baseline = arm;
    condition *c = foci_alloc(runs->ctx, 1, sizeof *c);
    focal_status status = c ? FOCAL_OK : FOCAL_ENOMEM;
    for (int32_t n = 0; status == FOCAL_OK && n < count; n++) {
        status = parse_condition(runs, texts[n], c);
        for (int32_t arm = 0; status == FOCAL_OK && arm < runs->arm_count; arm++)
            if (!holds(runs, c, arm)) runs->arms[arm].baseline = -1;
    }
    foci_free(runs->ctx, c);
    return status;
}

/* The baseline with the fewest settings that differ, the first of those. */
static int32_t nearest_baseline(const foci_runs *runs, int32_t arm)
{
    int32_t nearest = -1;
    int fewest = FOCI_RUN_KEYS + 1;
    for (int32_t n = 0; n < runs->arm_count; n++) {
        int count = 0;
        if (runs->arms[n].baseline != n) continue;
        for (int key = 0; key < FOCI_RUN_KEYS; key++)
            count += runs->differs[key] &&
                     strcmp(foci_arm_value(runs, arm, key), foci_arm_value(runs, n, key)) != 0;
        if (count >= fewest) continue;
        fewest = count;
        nearest = n;
    }
    return nearest;
}

static int32_t count_baselines(const foci_runs *runs)
{
    int32_t count = 0;
    for (int32_t n = 0; n < runs->arm_count; n++) count += runs->arms[n].baseline == n;
    return count;
}

static focal_status find_baselines(foci_runs *runs, const focal_report_runs_args *args)
{
    static const char *const plain[] = {"temperature.kind=constant", "temperature.value=1"};
    if (args->baseline_count > 0) {
        FOCAL_TRY(mark_baselines(runs, args->baselines, args->baseline_count));
        if (count_baselines(runs) == 0)
            return foci_fail(runs->ctx, FOCAL_EINVAL,
                             "report: no run is what --baseline asks for (%.200s%s)",
                             args->baselines[0], args->baseline_count > 1 ? ", ..." : "");
    } else {
        /* Standard attention where there is some, else the first arm. */
        FOCAL_TRY(mark_baselines(runs, plain, FOCAL_COUNT(plain)));
        const int32_t found = count_baselines(runs);
        if (found == 0 || found == runs->arm_count)
            for (int32_t n = 0; n < runs->arm_count; n++) runs->arms[n].baseline = n == 0 ? 0 : -1;
    }
    for (int32_t n = 0; n < runs->arm_count; n++)
        if (runs->arms[n].baseline != n) runs->arms[n].baseline = nearest_baseline(runs, n);
    if (runs->arm_count == 1) runs->arms[0].baseline = -1;
    return FOCAL_OK;
}

focal_status foci_runs_group(foci_runs *runs, const focal_report_runs_args *args)
{
    find_differences(runs);
    sort_runs(runs);
    int32_t arm_count = 1, used = 0, begin = 0;
    for (int32_t n = 1; n < runs->run_count; n++)
        arm_count += compare_settings(runs, runs->runs[n - 1], runs->runs[n]) != 0;
    runs->order = foci_alloc(runs->ctx, (size_t)runs->run_count, sizeof *runs->order);
    runs->arms = foci_alloc(runs->ctx, (size_t)arm_count, sizeof *runs->arms);
    if (!runs->order || !runs->arms) return FOCAL_ENOMEM;
    for (int32_t n = 1; n <= runs->run_count; n++) {
        if (n < runs->run_count && compare_settings(runs, runs->runs[begin], runs->runs[n]) == 0)
            continue;
        make_arm(runs, begin, n, &used);
        begin = n;
    }
    name_arms(runs);
    return find_baselines(runs, args);
}
