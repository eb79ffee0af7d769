/* A report of runs: arguments checked, folders read, one of three formats written. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "report/runs_page.h"

static focal_status check_args(focal_ctx *ctx, const char *path, const focal_report_runs_args *args)
{
    if (!args) return foci_fail(ctx, FOCAL_EINVAL, "report: no arguments");
    if (path ? !*path : !args->write)
        return foci_fail(ctx, FOCAL_EINVAL, "report: neither a file name nor who takes the text");
    if (args->folder_count < 1 || !args->folders)
        return foci_fail(ctx, FOCAL_EINVAL, "report: a list of %d folders", args->folder_count);
    if (args->baseline_count < 0 || (args->baseline_count > 0 && !args->baselines))
        return foci_fail(ctx, FOCAL_EINVAL, "report: a list of %d baselines", args->baseline_count);
    for (int32_t n = 0; n < args->folder_count; n++)
        if (!args->folders[n] || !*args->folders[n])
            return foci_fail(ctx, FOCAL_EINVAL, "report: folder %d has no name", n);
    for (int32_t n = 0; n < args->baseline_count; n++)
        if (!args->baselines[n] || !*args->baselines[n])
            return foci_fail(ctx, FOCAL_EINVAL, "report: baseline %d is empty", n);
    if ((unsigned)args->format > FOCAL_REPORT_JSON)
        return foci_fail(ctx, FOCAL_EINVAL, "report: there is no format %d", (int)args->format);
    return FOCAL_OK;
}

/* "Runs by temperature.value and model.width", or the one run's name. */
static void make_title(const foci_runs *runs, char *out, size_t room)
{
    enum { NAMED = 3 };
    int count = 0;
    size_t used = (size_t)snprintf(out, room, "%s", runs->run_count > 1 ? "Runs" : "Run ");
    if (runs->run_count == 1) (void)snprintf(out + used, room - used, "%s", runs->runs[0]->name);
    for (int key = 0; key < FOCI_RUN_KEYS && count <= NAMED; key++) {
        if (!runs->differs[key]) continue;
        const char *name = count < NAMED ? foci_run_keys[key].name : "more";
        const char *before = count == 0 ? " by " : ", ";
        used += (size_t)snprintf(out + used, room - used, "%s%s", before, name);
        count++;
    }
    if (count == 0 && runs->run_count > 1) (void)snprintf(out + used, room - used, " by seed");
}

static focal_status write_report(const foci_runs *runs, const char *path,
                                 const focal_report_runs_args *args)
{
    char made[512];
    make_title(runs, made, sizeof made);
    const char *title = args->title ? args->title : made;
    foci_chart_room *room = NULL;
    foci_page page = {0};
    FOCAL_TRY(foci_chart_room_new(runs, &room));
    focal_status status = path ? foci_page_open(runs->ctx, path, &page)
                               : foci_page_stream(runs->ctx, args->write, args->user, &page);
    if (status == FOCAL_OK) {
        if (args->format == FOCAL_REPORT_HTML)
            foci_runs_html(&page, runs, title, room);
        else if (args->format == FOCAL_REPORT_MARKDOWN)
            foci_runs_markdown(&page, runs, title);
        else
            foci_runs_json(&page, runs, title);
        status = foci_page_close(runs->ctx, &page, FOCAL_OK);
    }
    foci_chart_room_free(runs, room);
    return status;
}

focal_status focal_report_runs(focal_ctx *ctx, const char *path, const focal_report_runs_args *args)
{
    FOCAL_TRY(check_args(ctx, path, args));
    /* Numbers are read and written with a point, whatever the program's locale. */
    const locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0) return foci_fail(ctx, FOCAL_ENOMEM, "report: no memory for a locale");
    const locale_t before = uselocale(plain);
    foci_runs *runs = NULL;
    focal_status status = foci_runs_open(ctx, args, &runs);
    if (status == FOCAL_OK) status = write_report(runs, path, args);
    for (int32_t n = 0; status == FOCAL_OK && args->on_note && n < runs->notes.count; n++)
        args->on_note(args->user, runs->notes.text[n]);
    foci_runs_free(runs);
    (void)uselocale(before);
    freelocale(plain);
    return status;
}
