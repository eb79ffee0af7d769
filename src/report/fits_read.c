/* Reading an adapter's folder: the adapter must be one; what lies beside it may be missing or
 * damaged, and is noted then. */
#include "report/fits_read.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "focal/adapter.h"
#include "io/file.h"
#include "io/json.h"
#include "io/names.h"

enum { LOG_MOST = 64 << 20, MEASURE_MOST = 64 << 20 };

/* What is no plain text is shown as "?". */
static void copy_plain(char *to, size_t room, const char *from, size_t bytes)
{
    enum { MOST = 64 };
    if (bytes > MOST)
        for (bytes = MOST; bytes > 0 && ((unsigned char)from[bytes] & 0xC0) == 0x80;) bytes--;
    (void)snprintf(to, room, "%.*s", (int)bytes, from);
    if (foci_text_is_plain(foci_text_of(to))) return;
    for (char *c = to; *c; c++)
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7F) *c = '?';
}

/* The last `parts` parts of a path, slashes at its end aside. False: it has no more than that. */
static bool find_end(const char *path, int32_t parts, foci_text *end)
{
    size_t last = strlen(path);
    while (last > 1 && path[last - 1] == '/') last--;
    size_t begin = last;
    while (begin > 0 && (path[begin - 1] != '/' || --parts > 0)) begin--;
    *end = (foci_text){path + begin, last - begin};
    return begin > 0;
}

static void take_folder(const char *path, char folder[FOCI_FIT_NAME])
{
    foci_text end;
    (void)find_end(path, 1, &end);
    copy_plain(folder, FOCI_FIT_NAME, end.data, end.bytes);
}

/* Whether another folder's path ends in as many parts that read the same. Of a path that has no
 * more of them nothing else can be told, so another that has more is left to be the longer one. */
static bool is_another(const char *const *paths, int32_t count, int32_t n, int32_t parts)
{
    foci_text own, other;
    const bool has_more = find_end(paths[n], parts, &own);
    for (int32_t i = 0; i < count; i++) {
        const bool is_longer = find_end(paths[i], parts, &other);
        if (i != n && foci_text_equal(own, other) && (has_more || !is_longer)) return true;
    }
    return false;
}

void foci_fit_name(const char *const *paths, int32_t count, int32_t n, char name[FOCI_FIT_NAME])
{
    enum { MOST = 60 }; /* bytes of a path */
    foci_text end;
    int32_t parts = 1;
    bool is_shared = is_another(paths, count, n, parts);
    while (find_end(paths[n], parts, &end) && is_shared)
        is_shared = is_another(paths, count, n, ++parts);
    const char *cut = "";
    if (end.bytes > MOST) {
        size_t begin = end.bytes - MOST;
        while (begin < end.bytes && ((unsigned char)end.data[begin] & 0xC0) == 0x80) begin++;
        end = (foci_text){end.data + begin, end.bytes - begin};
        cut = "...";
        is_shared = count > 1; /* what was cut off may be all that differs */
    }
    char shown[FOCI_FIT_NAME];
    copy_plain(shown, sizeof shown, end.data, end.bytes);
    if (is_shared)
        (void)snprintf(name, FOCI_FIT_NAME, "%s%.72s #%d", cut, shown, n + 1);
    else
        (void)snprintf(name, FOCI_FIT_NAME, "%s%.72s", cut, shown);
}

static void take_setting(const foci_json *settings, const char *key, char to[FOCI_FIT_NAME])
{
    const char *text = foci_json_string(foci_json_get(settings, key));
    if (text) copy_plain(to, FOCI_FIT_NAME, text, strlen(text));
}

static focal_status take_info(focal_ctx *ctx, const focal_adapter_info *info, foci_fit *fit)
{
    foci_json *settings = NULL;
    FOCAL_TRY(foci_json_parse(ctx, "fit", info->settings, strlen(info->settings), &settings));
    copy_plain(fit->base, FOCI_FIT_NAME, info->base, strlen(info->base));
    copy_plain(fit->version, FOCI_FIT_NAME, info->version, strlen(info->version));
    (void)snprintf(fit->fingerprint, FOCI_FIT_NAME, "%s", info->fingerprint);
    (void)snprintf(fit->checksum, FOCI_FIT_NAME, "%s", info->checksum);
    fit->is_lora = strcmp(info->kind, "lora") == 0;
    fit->is_causal = fit->is_lora || info->is_causal;
    fit->layers = info->layers;
    fit->parameters = info->parameter_count;
    if (fit->is_lora) {
        fit->rank = info->rank;
        copy_plain(fit->targets, FOCI_FIT_NAME, info->targets, strlen(info->targets));
    } else {
        (void)snprintf(fit->mode, FOCI_FIT_NAME, "%s", info->mode);
        (void)snprintf(fit->scope, FOCI_FIT_NAME, "%s", info->scope);
        (void)snprintf(fit->form, FOCI_FIT_NAME, "%s", info->form);
        fit->has_groups = info->layers > 0 && info->top > 0 && strcmp(info->form, "scale") != 0 &&
                          strcmp(info->form, "none") != 0;
        fit->groups = info->groups;
        fit->top = info->top;
        fit->top_fit = info->top_fit;
        fit->window = info->window;
        fit->sinks = info->sinks;
        fit->has_temperatures = info->has_temperatures;
    }
    fit->steps = info->steps;
    take_setting(settings, "groups.method", fit->method);
    take_setting(settings, "groups.gate", fit->gate);
    take_setting(settings, "objective", fit->objective);
    foci_json_free(settings);
    return FOCAL_OK;
}

/* What `focal fit --paper` makes: raw routers, balanced over whole texts. */
static bool is_paper(const foci_fit *fit)
{
    return !fit->is_causal && strcmp(fit->form, "raw") == 0 && strcmp(fit->mode, "shared") == 0 &&
           strcmp(fit->scope, "layer") == 0 && strcmp(fit->gate, "paper") == 0 &&
           strcmp(fit->objective, "lm") == 0;
}

/* What learns, and was stopped before its first step; some methods have no steps to take. */
static bool is_untrained(const foci_fit *fit)
{
    return fit->steps == 0 && strcmp(fit->method, "none") != 0 &&
           strcmp(fit->method, "random") != 0 && strcmp(fit->method, "start") != 0;
}

/* What a person calls it: what it is first, for charts cut long names; then what is not as usual.
 */
static void make_label(foci_fit *fit)
{
    const bool is_trained = fit->steps > 0;
    const bool is_temperature = strcmp(fit->method, "temperature") == 0;
    const char *what = fit->is_lora                         ? "LoRA"
                       : fit->layers == 0                   ? "temperatures alone"
                       : strcmp(fit->form, "scale") == 0    ? "scale of distant logits"
                       : !fit->has_groups && is_temperature ? "window, temperatures"
                       : !fit->has_groups                   ? "window alone"
                       : strcmp(fit->method, "start") == 0  ? "untrained start"
                       : strcmp(fit->method, "random") == 0 ? "random groups"
                       : is_paper(fit)                      ? "paper's form"
                                                            : "groups";
    const bool is_usual = !fit->has_groups || is_paper(fit);
    char size[32] = "", steps[32] = "";
    if (fit->has_groups) (void)snprintf(size, sizeof size, ", K %d", fit->groups);
    if (fit->is_lora) (void)snprintf(size, sizeof size, ", rank %d", fit->rank);
    if (is_trained) (void)snprintf(steps, sizeof steps, ", %lld steps", (long long)fit->steps);
    const char *gate = is_usual || !is_trained           ? ""
                       : strcmp(fit->gate, "paper") == 0 ? ", paper gate"
                       : strcmp(fit->gate, "log") == 0   ? ", log gate"
                                                         : "";
    const bool is_lm = is_trained && !is_paper(fit) && strcmp(fit->objective, "lm") == 0;
    (void)snprintf(fit->label, sizeof fit->label, "%s%s%s%s%s%s%s%s%s",
                   is_untrained(fit) ? "untrained " : "", what,
                   fit->is_causal ? "" : " (not causal)", size, steps,
                   !is_usual && strcmp(fit->scope, "layer") == 0 ? ", layer scope" : "",
                   !is_usual && strcmp(fit->mode, "shared") == 0 ? ", shared" : "", gate,
                   is_lm ? ", LM loss" : "");
}

/* A file of the folder that may be missing: *data is NULL then, or with a note when it cannot be
 * read. */
static focal_status read_part(focal_ctx *ctx, const foci_fit *fit, const char *name, size_t most,
                              foci_notes *notes, char **data, size_t *bytes)
{
    struct stat there;
    char *path = foci_path_join(ctx, fit->path, strlen(fit->path), name);
    *data = NULL;
    if (!path) return FOCAL_ENOMEM;
    focal_status status = FOCAL_OK;
    if (stat(path, &there) == 0) {
        status = foci_read_file(ctx, path, most, data, bytes);
        if (status != FOCAL_OK && status != FOCAL_ENOMEM) {
            foci_note(notes, "left out: %s", focal_ctx_error(ctx));
            status = FOCAL_OK;
        }
    }
    foci_free(ctx, path);
    return status;
}

/* Whether the numbers are of the files that lie here: an adapter may have been fitted further
 * since, and a measure.json may have come from another folder. False with a note. */
static bool is_own_measure(const foci_fit *fit, const foci_fit_measure *m, foci_notes *notes)
{
    if (*fit->fingerprint && strcmp(m->fingerprint, fit->fingerprint) != 0)
        foci_note(notes,
                  "%s: measure.json is left out: it is of a model with the fingerprint %s, the "
                  "adapter of one with %s",
                  fit->name, m->fingerprint, fit->fingerprint);
    else if (m->K > 0 && m->K != fit->groups)
        foci_note(notes, "%s: measure.json is left out: it is of %d groups, the adapter has %d",
                  fit->name, m->K, fit->groups);
    else if (strcmp(m->adapter_checksum, fit->checksum) != 0)
        foci_note(
            notes,
            "%s: measure.json is left out: it is of an adapter with the checksum %s, the files "
            "that are here now have %s",
            fit->name, m->adapter_checksum, fit->checksum);
    else
        return true;
    return false;
}

static focal_status read_measure(focal_ctx *ctx, foci_fit *fit, foci_notes *notes)
{
    char *data;
    size_t bytes = 0;
    FOCAL_TRY(read_part(ctx, fit, "measure.json", MEASURE_MOST, notes, &data, &bytes));
    if (!data) return FOCAL_OK; /* the page says how it is measured */
    focal_status status = foci_fit_measure_parse(ctx, data, bytes, &fit->measure);
    foci_free(ctx, data);
    if (status == FOCAL_EFORMAT) {
        foci_note(notes, "%s: %s", fit->name, focal_ctx_error(ctx));
        status = FOCAL_OK;
    }
    if (fit->measure && !is_own_measure(fit, fit->measure, notes)) {
        foci_fit_measure_free(ctx, fit->measure);
        fit->measure = NULL;
    }
    return status;
}

static focal_status read_log(focal_ctx *ctx, foci_fit *fit, foci_notes *notes)
{
    char *data;
    size_t bytes = 0;
    focal_status status = read_part(ctx, fit, "log.jsonl", LOG_MOST, notes, &data, &bytes);
    foci_fit_log_start(&fit->log);
    for (size_t begin = 0; status == FOCAL_OK && data && begin < bytes;) {
        const char *newline = memchr(data + begin, '\n', bytes - begin);
        const size_t length = newline ? (size_t)(newline - data) - begin : bytes - begin;
        status = foci_fit_log_line(ctx, &fit->log, data + begin, length);
        begin += length + 1;
    }
    foci_fit_log_end(&fit->log);
    foci_free(ctx, data);
    if (fit->log.bad_lines > 0)
        foci_note(notes, "%s: log.jsonl: %lld lines left out that are no steps", fit->name,
                  (long long)fit->log.bad_lines);
    return status;
}

static focal_status find_run_file(focal_ctx *ctx, foci_fit *fit)
{
    char *path = foci_path_join(ctx, fit->path, strlen(fit->path), "run.conf");
    if (!path) return FOCAL_ENOMEM;
    fit->has_run_file = access(path, R_OK) == 0;
    foci_free(ctx, path);
    return FOCAL_OK;
}

static focal_status read_adapter(focal_ctx *ctx, foci_fit *fit, foci_notes *notes, bool *is_read)
{
    focal_adapter *adapter = NULL;
    *is_read = false;
    focal_status status = focal_adapter_open(ctx, fit->path, &adapter);
    if (status == FOCAL_OK) {
        const focal_adapter_info info = focal_adapter_describe(adapter);
        status = take_info(ctx, &info, fit);
        focal_adapter_close(adapter);
    }
    if (status == FOCAL_OK) {
        *is_read = true;
    } else if (status == FOCAL_EFORMAT || status == FOCAL_EIO || status == FOCAL_EUNSUPPORTED) {
        foci_note(notes, "left out: %s", focal_ctx_error(ctx));
        status = FOCAL_OK;
    }
    return status;
}

focal_status foci_fit_read(focal_ctx *ctx, const char *path, const char *name, foci_notes *notes,
                           foci_fit **out)
{
    *out = NULL;
    foci_fit *fit = foci_alloc(ctx, 1, sizeof *fit);
    if (!fit) return FOCAL_ENOMEM;
    memset(fit, 0, sizeof *fit);
    const size_t bytes = strlen(path) + 1;
    bool is_read = false;
    fit->path = foci_alloc(ctx, bytes, 1);
    focal_status status = fit->path ? FOCAL_OK : FOCAL_ENOMEM;
    if (status == FOCAL_OK) {
        memcpy(fit->path, path, bytes);
        for (size_t n = bytes - 1; n > 1 && path[n - 1] == '/'; n--) fit->path[n - 1] = '\0';
        take_folder(path, fit->folder);
        (void)snprintf(fit->name, sizeof fit->name, "%s", name);
        status = read_adapter(ctx, fit, notes, &is_read);
    }
    if (status == FOCAL_OK && is_read) {
        make_label(fit);
        status = find_run_file(ctx, fit);
        if (status == FOCAL_OK) status = read_measure(ctx, fit, notes);
        if (status == FOCAL_OK) status = read_log(ctx, fit, notes);
    }
    if (status == FOCAL_OK && is_read)
        *out = fit;
    else
        foci_fit_free(ctx, fit);
    return status;
}

void foci_fit_free(focal_ctx *ctx, foci_fit *fit)
{
    if (!fit) return;
    foci_free(ctx, fit->path);
    foci_fit_measure_free(ctx, fit->measure);
    foci_free(ctx, fit);
}
