/* focal report: runs side by side, as a page, as tables or as JSON; adapters, as a page. */
#include <stdio.h>

#include "cli.h"
#include "focal/report.h"
#include "info_adapter.h"
#include "model_file.h"
#include "options.h"
#include "overwrite.h"

static void write_stdout(void *user, const char *text, size_t bytes)
{
    (void)user;
    (void)fwrite(text, 1, bytes, stdout);
}

/* The report names them too, but who reads only the first page should know. */
static void print_note(void *user, const char *sentence)
{
    (void)user;
    (void)fprintf(stderr, "focal: report: %s\n", sentence);
}

static int write_report(const cli_texts *folders, const char *path, focal_report_runs_args *args)
{
    focal_ctx *ctx = NULL;
    int code = cli_open_ctx(1, NULL, &ctx);
    if (code != CLI_DONE) return code;
    args->folders = folders->items;
    args->folder_count = folders->count;
    args->write = write_stdout;
    args->on_note = print_note;
    const focal_status status = focal_report_runs(ctx, path, args);
    if (status != FOCAL_OK)
        code = cli_fail_ctx(ctx, status);
    else if (path)
        (void)fprintf(stderr, "focal: the report is in %s\n", path);
    focal_ctx_close(ctx);
    return code;
}

/* How many of the folders are adapters. */
static int32_t count_adapters(const cli_texts *folders)
{
    int32_t count = 0;
    for (int32_t n = 0; n < folders->count; n++) count += info_is_adapter(folders->items[n]);
    return count;
}

/* The first folder that is none, of several. */
static const char *first_other(const cli_texts *folders)
{
    int32_t n = 0;
    while (n + 1 < folders->count && info_is_adapter(folders->items[n])) n++;
    return folders->items[n];
}

static int write_fits(const cli_texts *folders, const char *path, const char *title)
{
    focal_ctx *ctx = NULL;
    int code = cli_open_ctx(1, NULL, &ctx);
    if (code != CLI_DONE) return code;
    const focal_report_fits_args args = {.folders = folders->items,
                                         .folder_count = folders->count,
                                         .title = title,
                                         .on_note = print_note};
    const focal_status status = focal_report_fits(ctx, path, &args);
    if (status != FOCAL_OK)
        code = cli_fail_ctx(ctx, status);
    else
        (void)fprintf(stderr, "focal: the report is in %s\n", path);
    focal_ctx_close(ctx);
    return code;
}

static int check_output(const char *path, const cli_texts *folders, bool are_adapters)
{
    static const char what[] = "report: -o";
    int code = overwrite_check(what, path, folders->items, folders->count);
    /* focal eval groups makes a measurement anew, here it is read */
    for (int32_t n = 0; code == CLI_DONE && are_adapters && n < folders->count; n++) {
        char measure[CLI_PATH_BYTES];
        const char *const input = measure;
        (void)snprintf(measure, sizeof measure, "%s/measure.json", folders->items[n]);
        code = overwrite_check(what, path, &input, 1);
    }
    return code;
}

int cli_report(int argc, char **argv)
{
    static cli_texts folders, baselines;
    const char *path = NULL, *title = NULL;
    bool is_json = false, is_markdown = false;
    const cli_option options[] = {
        {"output", 'o', CLI_TEXT, &path, "FILE",
         "default report.html; with --json or --md standard output", 0, 0, NULL, NULL},
        {"title", 0, CLI_TEXT, &title, "TEXT",
         "default: the settings that differ, or 'Adapters of' their model", 0, 0, NULL, NULL},
        {"baseline", 0, CLI_TEXTS, &baselines, "ARM",
         "what the others are compared with: an arm's name or key=value, as\n"
         "                              temperature.value=1 (may be repeated: all must hold)",
         0, 0, NULL, NULL},
        {"json", 0, CLI_FLAG, &is_json, NULL, "the numbers as one JSON object", 0, 0, NULL, NULL},
        {"md", 0, CLI_FLAG, &is_markdown, NULL, "the tables as Markdown", 0, 0, NULL, NULL},
    };
    const cli_rule rules[] = {{"json", NULL, "md"}};
    const cli_usage usage = {
        .command = "focal report",
        .about =
            "Compares training runs in one HTML file that needs nothing else: which settings\n"
            "differ, curves, final losses with their spread over seeds, tokens and parameters\n"
            "needed to equal the baseline, measures, and how to make it all again. RUN is a\n"
            "folder of focal train, or of focal sweep: all runs in it. Runs that differ only\n"
            "in their seed are one arm. The baseline is constant temperature 1 where there is\n"
            "an arm that has it, else the first arm.\n"
            "Or compares adapters, the folders of focal fit: loss and speed against the share of\n"
            "pairs that focal eval groups has measured, how the fits went, the sizes of groups\n"
            "and the tokens in them.",
        .examples = "  focal report runs/temperature -o temperature.html\n"
                    "  focal report small large --baseline model.width=256 --md\n"
                    "  focal report fit random window -o adapters.html\n",
        .arguments = "RUN... | ADAPTER...",
        .taken = &folders,
        .least = 1,
        .most = CLI_MAX_TEXTS,
        .options = options,
        .option_count = CLI_COUNT(options),
        .rules = rules,
        .rule_count = CLI_COUNT(rules),
    };
    const int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    const int32_t adapters = count_adapters(&folders);
    if (adapters > 0 && adapters < folders.count)
        return cli_wrong("report: %d of %d folders are adapters, %s is none: training runs and "
                         "adapters have reports of their own",
                         adapters, folders.count, first_other(&folders));
    if (adapters > 0 && (is_json || is_markdown || baselines.count > 0))
        return cli_wrong("report: adapters get a page: --json, --md and --baseline are for "
                         "training runs");
    const int wrong = check_output(path, &folders, adapters > 0);
    if (wrong != CLI_DONE) return wrong;
    if (adapters > 0) return write_fits(&folders, path ? path : "report.html", title);
    focal_report_runs_args args = {.title = title,
                                   .baselines = baselines.items,
                                   .baseline_count = baselines.count,
                                   .format = is_json       ? FOCAL_REPORT_JSON
                                             : is_markdown ? FOCAL_REPORT_MARKDOWN
                                                           : FOCAL_REPORT_HTML};
    if (!path && args.format == FOCAL_REPORT_HTML) path = "report.html";
    return write_report(&folders, path, &args);
}
