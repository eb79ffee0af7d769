/* focal demo: full attention beside groups on a made-up text, as a table and as a page. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn_case.h"
#include "cli.h"
#include "demo_text.h"
#include "focal/report.h"
#include "measure.h"
#include "options.h"
#include "output.h"

enum {
    HEADS = 9,
    KV_HEADS = 3,
    WINDOW = 128,
    SINKS = 4,
    TOPICS = 24,
    SAMPLES = 5,
    PICTURE_TOKENS = 256,
    PICTURE_GROUPS = 6,
    PICTURE_WINDOW = 16,
    PICTURE_TOP = 2
};

/* What is compared; the first is what the others are measured against. */
static const struct demo_setting {
    const char *name;
    int32_t K, top;
    bool has_window;
} settings[] = {
    {"all earlier keys (dense)", 0, 1, false},  {"window and sinks only", 0, 1, true},
    {"16 groups, looking into 1", 16, 1, true}, {"16 groups, looking into 2", 16, 2, true},
    {"16 groups, looking into 4", 16, 4, true}, {"32 groups, looking into 4", 32, 4, true},
};
enum { SETTING_COUNT = CLI_COUNT(settings), SHOWN_LOADS = 2 };

typedef struct demo_run {
    focal_ctx *ctx;
    demo_text text;
    demo_router routers[2]; /* of 16 and 32 groups */
    attn_tensors tensors;
    attn_job jobs[SETTING_COUNT];
    focal_report_run results[SETTING_COUNT];
    focal_keys_stats stats; /* of the first router of 16 groups */
} demo_run;

static int copy_tensor(const float *from, int64_t count, focal_dtype dtype, void **to)
{
    *to = cli_alloc("the demo's text", (size_t)count, focal_dtype_bytes(dtype));
    if (!*to) return CLI_FAILED;
    if (dtype == FOCAL_F32) memcpy(*to, from, (size_t)count * sizeof *from);
    for (int64_t n = 0; dtype == FOCAL_BF16 && n < count; n++)
        ((uint16_t *)*to)[n] = focal_bf16_from_float(from[n]);
    return CLI_DONE;
}

/* The job of one setting, with the groups that the router gives. */
static int make_job(demo_run *run, int32_t n, focal_dtype dtype)
{
    const struct demo_setting *setting = &settings[n];
    const attn_setup setup = {
        .T = run->text.T,
        .S = run->text.T,
        .H = run->text.H,
        .G = run->text.G,
        .D = run->text.D,
        .Dv = run->text.D,
        .dtype = dtype,
        .has_window = setting->has_window,
        .window = setting->has_window ? WINDOW : 0,
        .sinks = setting->has_window ? SINKS : 0,
        .K = setting->K,
        .top = setting->top,
        .mode = FOCAL_DIRECTED,
        .routers = run->text.G,
    };
    attn_groups groups = {0};
    int code = CLI_DONE;
    if (setting->K > 0)
        code = demo_router_groups(run->ctx, &run->text, &run->routers[setting->K == 32],
                                  setting->top, &groups);
    if (code == CLI_DONE)
        code = attn_job_make(run->ctx, &setup, &run->tensors, &groups, &run->jobs[n]);
    free(groups.query_groups);
    free(groups.key_groups);
    return code;
}

static int prepare(demo_run *run, int32_t T, focal_dtype dtype)
{
    cli_progress("demo: a text of %d tokens", T);
    int code = demo_text_make(T, HEADS, KV_HEADS, TOPICS, 1, &run->text);
    const int64_t rows = (int64_t)T * run->text.D;
    if (code == CLI_DONE) code = copy_tensor(run->text.q, rows * HEADS, dtype, &run->tensors.q);
    if (code == CLI_DONE) code = copy_tensor(run->text.k, rows * KV_HEADS, dtype, &run->tensors.k);
    if (code == CLI_DONE) code = copy_tensor(run->text.v, rows * KV_HEADS, dtype, &run->tensors.v);
    for (int32_t n = 0; code == CLI_DONE && n < 2; n++) {
        cli_progress("demo: a router of %d groups", 16 << n);
        code = demo_router_make(run->ctx, &run->text, 16 << n, KV_HEADS, 7, &run->routers[n]);
    }
    for (int32_t n = 0; code == CLI_DONE && n < SETTING_COUNT; n++) code = make_job(run, n, dtype);
    return code;
}

/* The mean over queries and heads of the weight that full attention gives to what the job sees:
 * the quotient of the two softmax sums. */
static double mass_share(const attn_job *job, const attn_job *dense)
{
    const int64_t rows = (int64_t)job->setup.T * job->setup.H;
    double sum = 0.0;
    for (int64_t n = 0; n < rows; n++) sum += exp((double)job->lse[n] - (double)dense->lse[n]);
    return sum / (double)rows;
}

static int measure_jobs(demo_run *run)
{
    measure_item items[SETTING_COUNT] = {{0}};
    int64_t pairs[SETTING_COUNT];
    int code = CLI_DONE;
    for (int32_t n = 0; code == CLI_DONE && n < SETTING_COUNT; n++) {
        attn_job *job = &run->jobs[n];
        focal_report_run *result = &run->results[n];
        cli_progress("demo: %s", settings[n].name);
        result->name = settings[n].name;
        items[n] = (measure_item){.run = attn_step_forward, .arg = job};
        code = attn_step_forward(job) ? attn_pairs(job, &pairs[n]) : CLI_FAILED;
        if (code == CLI_DONE) code = attn_error_forward(job, &result->error);
        if (code == CLI_DONE) {
            result->pair_share = (double)pairs[n] / (double)pairs[0];
            result->mass_share = mass_share(job, &run->jobs[0]);
        }
    }
    const measure_plan plan = {.runs = SAMPLES, .label = "demo: timing all settings by turns"};
    if (code == CLI_DONE && !measure_run(&plan, items, SETTING_COUNT)) code = CLI_FAILED;
    for (int32_t n = 0; n < SETTING_COUNT; n++) {
        if (code == CLI_DONE) {
            run->results[n].ms = measure_median(&items[n].samples);
            run->results[n].speedup = run->results[0].ms / run->results[n].ms;
        }
        measure_free(&items[n].samples);
    }
    if (code == CLI_DONE) {
        const focal_status status =
            focal_keyset_stats(run->jobs[SHOWN_LOADS].groups.set, 0, &run->stats);
        if (status != FOCAL_OK) code = cli_fail_ctx(run->ctx, status);
    }
    return code;
}

static void print_results(const demo_run *run, const char *subtitle)
{
    printf("%s\n\n%s%-26s %10s %8s %8s %15s %9s%s\n", subtitle, cli_bold(), "keys each query sees",
           "ms", "speedup", "pairs", "attention kept", "error", cli_plain());
    for (int32_t n = 0; n < SETTING_COUNT; n++) {
        const focal_report_run *result = &run->results[n];
        printf("%-26s %10.1f %7.1fx %7.1f%% %14.1f%% %9.1e\n", result->name, result->ms,
               result->speedup, 100.0 * result->pair_share, 100.0 * result->mass_share,
               result->error);
    }
    printf("\npairs: share of all causal pairs computed; attention kept: how much of the dense\n"
           "softmax weight falls on them; error: against the reference kernel on sampled rows.\n");
    (void)fflush(stdout); /* before what stderr says next */
}

static int write_page(const demo_run *run, const char *path, const char *subtitle)
{
    demo_text text = {0};
    demo_router router = {0};
    attn_groups groups = {0};
    int code = demo_text_make(PICTURE_TOKENS, 1, 1, PICTURE_GROUPS, 3, &text);
    if (code == CLI_DONE) code = demo_router_make(run->ctx, &text, PICTURE_GROUPS, 1, 7, &router);
    if (code == CLI_DONE) code = demo_router_groups(run->ctx, &text, &router, PICTURE_TOP, &groups);
    if (code == CLI_DONE) {
        const focal_report_sets sets = {
            .mode = FOCAL_DIRECTED,
            .T = PICTURE_TOKENS,
            .K = PICTURE_GROUPS,
            .top = PICTURE_TOP,
            .window = PICTURE_WINDOW,
            .sinks = SINKS,
            .query_groups = groups.query_groups,
            .key_groups = groups.key_groups,
        };
        const focal_report_args args = {
            .title = "Attention that looks where it matters",
            .subtitle = subtitle,
            .runs = run->results,
            .run_count = SETTING_COUNT,
            .sets = &sets,
            .loads = run->stats.load,
            .load_count = settings[SHOWN_LOADS].K,
        };
        const focal_status status = focal_report_attention(run->ctx, path, &args);
        code = status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(run->ctx, status);
    }
    free(groups.query_groups);
    free(groups.key_groups);
    demo_router_free(&router);
    demo_text_free(&text);
    return code;
}

int cli_demo(int argc, char **argv)
{
    int64_t tokens = 0, threads = 0;
    const char *path = "focal-demo.html";
    const cli_option options[] = {
        {"output", 'o', CLI_TEXT, &path, "FILE", "the page; default focal-demo.html", 0, 0, NULL,
         NULL},
        {"tokens", 0, CLI_INT, &tokens, "N", "length of the text; default 16k", 2, 1 << 20, NULL,
         NULL},
        cli_threads_option(&threads),
    };
    const cli_usage usage = {
        .command = "focal demo",
        .about = "Runs attention (9 query heads, 3 key heads, width 64) over a made-up text whose\n"
                 "topics come back: dense, and over groups that a router finds. Prints times,\n"
                 "pairs and errors, and writes a page with a picture of the key sets.",
        .examples = "  focal demo\n  focal demo --tokens 32k -t 2 -o keys.html\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    demo_run *run = calloc(1, sizeof *run);
    if (!run) return cli_fail("not enough memory for the demo");
    code = cli_open_ctx(threads, NULL, &run->ctx);
    if (code == CLI_DONE) { /* a path that cannot be written must not cost a minute first */
        const focal_status status = focal_report_check(run->ctx, path);
        if (status != FOCAL_OK) code = cli_fail_ctx(run->ctx, status);
    }
    if (code == CLI_DONE) {
        const char *features = focal_ctx_features(run->ctx);
        const focal_dtype dtype = strstr(features, "avx512bf16") ? FOCAL_BF16 : FOCAL_F32;
        /* The reference kernel alone would need minutes for 16,384 tokens. */
        const int32_t T = tokens > 0 ? (int32_t)tokens : *features ? 16384 : 2048;
        code = prepare(run, T, dtype);
        if (code == CLI_DONE) code = measure_jobs(run);
        char subtitle[256];
        (void)snprintf(subtitle, sizeof subtitle,
                       "%d tokens, %d query heads on %d key heads x %d, %s, %d threads; window %d, "
                       "%d sinks",
                       T, HEADS, KV_HEADS, run->text.D, focal_dtype_name(dtype),
                       focal_ctx_threads(run->ctx), WINDOW, SINKS);
        if (code == CLI_DONE) {
            print_results(run, subtitle);
            code = write_page(run, path, subtitle);
        }
        if (code == CLI_DONE) (void)fprintf(stderr, "focal: the picture is in %s\n", path);
    }
    for (int32_t n = 0; n < SETTING_COUNT; n++) attn_job_free(&run->jobs[n]);
    attn_tensors_free(&run->tensors);
    for (int32_t n = 0; n < 2; n++) demo_router_free(&run->routers[n]);
    demo_text_free(&run->text);
    focal_ctx_close(run->ctx);
    free(run);
    return code;
}
