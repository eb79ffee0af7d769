/* focal bench attn: attention timed beside the machine's own peak, and checked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn_case.h"
#include "bench_shared.h"
#include "decode_case.h"

enum { MAX_ITEMS = 4, MAX_QUERIES = 16 };

/* The command line. */
typedef struct attn_options {
    bench_options shared;
    cli_list tokens;
    int64_t cache, heads, kv_heads, dim, value_dim, groups, top, window, sinks;
    double softcap, largest_group;
    int32_t dtype, kv_type, mode, scope, layout, gate;
    bool has_tokens, has_kv_type, has_top, has_mode, has_window, has_sinks, has_layout, has_gate;
    bool has_largest_group, is_backward, is_decode, is_versus_dense, is_versus_even;
} attn_options;

/* What one run found; rates and times are medians. */
typedef struct attn_result {
    const char *kernel;
    int64_t pairs;
    size_t memory_bytes;
    double error;
} attn_result;

static const cli_rule rules[] = {
    {"top", .needs = "groups"},
    {"mode", .needs = "groups"},
    {"scope", .needs = "groups"},
    {"sinks", .needs = "window|groups"},
    {"largest-group", .needs = "groups"},
    {"gate", .needs = "groups"},
    {"layout", .needs = "decode"},
    {"versus-dense", .needs = "groups|window"},
    {"versus-even", .needs = "groups"},
    {"backward", .excludes = "decode"},
    {"gate", .excludes = "decode"},
    {"decode", .excludes = "versus-even|largest-group"},
    {"kv-type", .excludes = "backward|gate"},
};

static const char about[] =
    "Times attention on random inputs: the median of short samples, with the machine's\n"
    "multiply-add peak measured between them. gflops counts 4 D operations a pair and head\n"
    "forward and 10 D backward, whatever is recomputed and whatever a gate adds. With\n"
    "groups, making the key set is in the time. error: the largest against the reference\n"
    "kernel on sampled rows, as a share of the row's largest value.";

static const char examples[] =
    "  focal bench attn --tokens 8k --dtype bf16 -t 2\n"
    "  focal bench attn --tokens 8k,32k --groups 16 --top 2 --versus-dense --json\n"
    "  focal bench attn --tokens 4k --dtype f32 --backward\n"
    "  focal bench attn --tokens 4k --groups 16 --top 2 --gate straight --backward\n"
    "  focal bench attn --tokens 32k --groups 16 --top 2 --decode --versus-dense\n";

static int parse(attn_options *o, int argc, char **argv)
{
    const double most = INT32_MAX;
    const cli_option own[] = {
        {"tokens", 0, CLI_LIST, &o->tokens, "N[,N...]", "queries of a call; default 8k", 1, most,
         NULL, &o->has_tokens},
        {"cache", 0, CLI_INT, &o->cache, "S", "keys, the queries' own included; default: tokens", 1,
         most, NULL, NULL},
        {"heads", 0, CLI_INT, &o->heads, "H", "query heads; default 9", 1, ATTN_MAX_HEADS, NULL,
         NULL},
        {"kv-heads", 0, CLI_INT, &o->kv_heads, "G",
         "key heads; default H / 3 where that is whole and >= 3, else H", 1, ATTN_MAX_HEADS, NULL,
         NULL},
        {"dim", 0, CLI_INT, &o->dim, "D", "width of a head; default 64", 1, FOCAL_MAX_HEAD_WIDTH,
         NULL, NULL},
        {"value-dim", 0, CLI_INT, &o->value_dim, "D", "width of a value; default: as keys", 1,
         FOCAL_MAX_HEAD_WIDTH, NULL, NULL},
        {"dtype", 0, CLI_CHOICE, &o->dtype, "f32|bf16", "element type; default bf16", 0, 0,
         "f32|bf16", NULL},
        {"kv-type", 0, CLI_CHOICE, &o->kv_type, "q8_0", "keys and values in blocks of q8_0", 0, 0,
         "q8_0", &o->has_kv_type},
        {"groups", 0, CLI_INT, &o->groups, "K", "groups of distant keys, random; default: none", 1,
         FOCAL_MAX_GROUPS, NULL, NULL},
        {"top", 0, CLI_INT, &o->top, "k", "groups a query looks into; default 1", 1,
         FOCAL_MAX_GROUPS, NULL, &o->has_top},
        {"mode", 0, CLI_CHOICE, &o->mode, "MODE", "directed (default) or shared groups", 0, 0,
         "directed|shared", &o->has_mode},
        {"scope", 0, CLI_CHOICE, &o->scope, "SCOPE", "a router for each kv head (default) or layer",
         0, 0, "kv|layer", NULL},
        {"gate", 0, CLI_CHOICE, &o->gate, "KIND",
         "the training form of groups: paper, log or straight", 0, 0, "paper|log|straight",
         &o->has_gate},
        {"window", 0, CLI_INT, &o->window, "W", "keys before the own one; with groups 128", 0, most,
         NULL, &o->has_window},
        {"sinks", 0, CLI_INT, &o->sinks, "N", "first keys that all see; with groups 4", 0, most,
         NULL, &o->has_sinks},
        {"softcap", 0, CLI_NUMBER, &o->softcap, "X", "limit of the scores; default: none", 0, 1e6,
         NULL, NULL},
        {"largest-group", 0, CLI_NUMBER, &o->largest_group, "X", "share of the keys in one group",
         0, 1, NULL, &o->has_largest_group},
        {"backward", 0, CLI_FLAG, &o->is_backward, NULL, "time the gradients alone", 0, 0, NULL,
         NULL},
        {"decode", 0, CLI_FLAG, &o->is_decode, NULL,
         "one query (with --cache: --tokens, default 1) from memory", 0, 0, NULL, NULL},
        {"layout", 0, CLI_CHOICE, &o->layout, "rows|heads",
         "of decode's cache; heads with groups for each kv head", 0, 0, "rows|heads",
         &o->has_layout},
        {"versus-dense", 0, CLI_FLAG, &o->is_versus_dense, NULL, "full attention by turns, speedup",
         0, 0, NULL, NULL},
        {"versus-even", 0, CLI_FLAG, &o->is_versus_even, NULL,
         "even groups by turns, cost of a pair", 0, 0, NULL, NULL},
    };
    cli_option options[CLI_COUNT(own) + BENCH_OPTIONS];
    memcpy(options, own, sizeof own);
    bench_option_rows(&o->shared, options + CLI_COUNT(own));
    const cli_usage usage = {
        .command = "focal bench attn",
        .about = about,
        .examples = examples,
        .options = options,
        .option_count = CLI_COUNT(options),
        .rules = rules,
        .rule_count = CLI_COUNT(rules),
    };
    return cli_parse(&usage, argc, argv);
}

static const char *gate_name(const attn_options *o)
{
    static const char *const names[] = {"paper", "log", "straight"};
    return names[o->gate];
}

/* Groups, and what goes with them; -1 to go on. */
static int check_groups(const attn_options *o)
{
    if (o->groups == 0) return -1;
    if (o->top > o->groups)
        return cli_wrong("bench attn: --top %lld is more than the %lld of --groups",
                         (long long)o->top, (long long)o->groups);
    if (o->largest_group > 0.0 && o->groups == 1)
        return cli_wrong("bench attn: --largest-group needs --groups 2 or more, not 1");
    if (o->has_largest_group && o->largest_group * (double)o->groups < 1.0)
        return cli_wrong("bench attn: --largest-group %g is less than each of %lld groups has",
                         o->largest_group, (long long)o->groups);
    if (o->is_decode && o->mode != 0)
        return cli_wrong("bench attn: --decode takes --mode directed only");
    if (!o->has_gate || o->gate == FOCAL_GATE_STRAIGHT - 1) return -1;
    const char *idle = o->has_top             ? "top"
                       : o->has_mode          ? "mode"
                       : o->has_largest_group ? "largest-group"
                       : o->is_versus_even    ? "versus-even"
                                              : NULL;
    if (!idle) return -1;
    return cli_wrong("bench attn: --%s does nothing with --gate %s, which lets every query see all "
                     "groups",
                     idle, gate_name(o));
}

/* What --decode takes at each length; -1 to go on. */
static int check_decode(const attn_options *o, int64_t tokens)
{
    if (!o->is_decode || o->cache == 0) return -1;
    const bool is_single = o->groups > 0 || (o->has_layout && o->layout == DECODE_HEADS);
    const int64_t most = is_single ? 1 : MAX_QUERIES;
    if (tokens <= most) return -1;
    return cli_wrong("bench attn: --decode with --cache takes at most %lld --tokens%s, not %lld",
                     (long long)most,
                     o->groups > 0 ? " with --groups"
                     : is_single   ? " with --layout heads"
                                   : "",
                     (long long)tokens);
}

/* What the options say together; -1 to go on. */
static int check(attn_options *o)
{
    if (o->kv_heads == 0)
        o->kv_heads = o->heads % 3 == 0 && o->heads >= 9 ? o->heads / 3 : o->heads;
    if (o->heads % o->kv_heads != 0)
        return cli_wrong("bench attn: --heads %lld must be a multiple of --kv-heads %lld",
                         (long long)o->heads, (long long)o->kv_heads);
    const int32_t block = focal_dtype_block(FOCAL_Q8_0);
    if (o->has_kv_type && (o->dim % block != 0 || o->value_dim % block != 0))
        return cli_wrong("bench attn: --kv-type q8_0 takes widths that are multiples of %d", block);
    const int code = check_groups(o);
    if (code >= 0) return code;
    if (o->groups > 0 && !o->has_window) o->window = 128;
    if (o->groups > 0 && !o->has_sinks) o->sinks = 4;
    if (o->is_decode && o->cache > 0 && !o->has_tokens) o->tokens.items[0] = 1;
    for (int32_t n = 0; n < o->tokens.count; n++) {
        const int64_t tokens = o->tokens.items[n];
        if (o->cache > 0 && tokens > o->cache)
            return cli_wrong("bench attn: %lld --tokens are more than the %lld keys of --cache",
                             (long long)tokens, (long long)o->cache);
        const int decode_code = check_decode(o, tokens);
        if (decode_code >= 0) return decode_code;
    }
    return -1;
}

static attn_setup make_setup(const attn_options *o, int64_t tokens)
{
    const bool is_single = o->is_decode && o->cache == 0;
    return (attn_setup){
        .T = is_single ? 1 : (int32_t)tokens,
        .S = (int32_t)(o->cache > 0 ? o->cache : tokens),
        .H = (int32_t)o->heads,
        .G = (int32_t)o->kv_heads,
        .D = (int32_t)o->dim,
        .Dv = (int32_t)(o->value_dim > 0 ? o->value_dim : o->dim),
        .dtype = o->dtype == 0 ? FOCAL_F32 : FOCAL_BF16,
        .has_q8_keys = o->has_kv_type,
        .has_window = o->has_window || o->groups > 0,
        .window = (int32_t)o->window,
        .sinks = (int32_t)o->sinks,
        .softcap = (float)o->softcap,
        .K = (int32_t)o->groups,
        .top = (int32_t)o->top,
        .mode = o->mode == 0 ? FOCAL_DIRECTED : FOCAL_SHARED,
        .gate = o->has_gate ? (focal_gate_kind)(o->gate + 1) : (focal_gate_kind)0,
        .routers = o->scope == 0 ? (int32_t)o->kv_heads : 1,
        .largest_group = o->largest_group,
        .seed = (uint64_t)o->shared.seed,
    };
}

static attn_setup dense_setup(const attn_setup *setup)
{
    attn_setup dense = *setup;
    dense.has_window = false;
    dense.window = dense.sinks = 0;
    dense.K = 0;
    dense.gate = (focal_gate_kind)0;
    return dense;
}

/* The columns that every kind of run has. items[0] is the contestant, items[1] the peak. */
static void print_common(output_table *table, const attn_options *o, const attn_setup *setup,
                         const attn_result *result, measure_item *items)
{
    output_text(table, "op", o->is_backward ? "backward" : o->is_decode ? "decode" : "forward");
    output_text(table, "kernel", result->kernel);
    output_text(table, "dtype", focal_dtype_name(setup->dtype));
    if (o->shared.is_json || setup->has_q8_keys)
        output_text(table, "kv_type", focal_dtype_name(attn_kv_dtype(setup)));
    output_int(table, "tokens", setup->T);
    output_int(table, "cache", setup->S);
    if (o->shared.is_json) {
        output_int(table, "heads", setup->H);
        output_int(table, "kv_heads", setup->G);
        output_int(table, "dim", setup->D);
        output_int(table, "value_dim", setup->Dv);
        if (setup->has_window) output_int(table, "window", setup->window);
        if (setup->has_window) output_int(table, "sinks", setup->sinks);
        output_int(table, "threads", o->shared.threads);
        output_int(table, "samples", items[0].samples.count);
        output_int(table, "seed", o->shared.seed);
    }
    if (setup->K > 0) {
        output_int(table, "groups", setup->K);
        if (attn_has_sets(setup)) output_int(table, "top", setup->top);
        if (setup->gate) output_text(table, "gate", gate_name(o));
        if (o->shared.is_json) {
            if (attn_has_sets(setup))
                output_text(table, "mode", setup->mode == FOCAL_SHARED ? "shared" : "directed");
            output_text(table, "scope", o->scope == 0 ? "kv" : "layer");
        }
    }
    bench_print_speed(table, &items[0].samples, &items[1].samples,
                      attn_flops(setup, result->pairs, o->is_backward));
    /* of one head; key heads with routers of their own differ, so it is their mean */
    output_int(table, "pairs", (result->pairs + setup->H / 2) / setup->H);
    output_number(table, "error", result->error, -1);
    output_int(table, "memory_bytes", (int64_t)result->memory_bytes);
}

/* Warm-up of one job, which is also the call whose memory is counted. */
static int warm_up(const attn_options *o, attn_job *job, attn_result *result)
{
    focal_ctx_trim(job->ctx);
    focal_ctx_memory_reset(job->ctx);
    if (!attn_step_forward(job)) return CLI_FAILED;
    if (o->is_backward) {
        focal_ctx_trim(job->ctx);
        focal_ctx_memory_reset(job->ctx);
        if (!attn_step_backward(job)) return CLI_FAILED;
    }
    if (!result) return CLI_DONE;
    result->memory_bytes = focal_ctx_memory(job->ctx).peak_bytes;
    const char *name = focal_attn_kernel_name(job->ctx, &job->args);
    result->kernel = name ? name : "?";
    const int code = attn_pairs(job, &result->pairs);
    if (code != CLI_DONE) return code;
    return o->is_backward ? attn_error_backward(job, &result->error)
                          : attn_error_forward(job, &result->error);
}

static int run_attn(const attn_options *o, focal_ctx *ctx, const attn_setup *setup,
                    output_table *table)
{
    attn_tensors tensors = {0};
    attn_job job = {0}, dense = {0}, even = {0};
    attn_result result = {0};
    measure_item items[MAX_ITEMS] = {{0}};
    bench_peak peak = {ctx, setup->dtype};
    int32_t count = 2;
    bool (*step)(void *) = o->is_backward ? attn_step_backward : attn_step_forward;
    if (!cli_fits_memory(attn_case_bytes(setup, o->is_backward))) return CLI_FAILED;
    int code = attn_tensors_make(setup, o->is_backward, &tensors);
    if (code == CLI_DONE) code = attn_job_make(ctx, setup, &tensors, NULL, &job);
    if (code == CLI_DONE) code = warm_up(o, &job, &result);
    items[0] = (measure_item){.run = step, .arg = &job};
    items[1] = (measure_item){.probe = bench_probe_peak, .arg = &peak};
    if (code == CLI_DONE && o->is_versus_dense) {
        const attn_setup other = dense_setup(setup);
        code = attn_job_make(ctx, &other, &tensors, NULL, &dense);
        if (code == CLI_DONE) code = warm_up(o, &dense, NULL);
        items[count++] = (measure_item){.run = step, .arg = &dense};
    }
    if (code == CLI_DONE && o->is_versus_even) {
        attn_setup other = *setup;
        other.largest_group = 0.0;
        code = attn_job_make(ctx, &other, &tensors, NULL, &even);
        if (code == CLI_DONE) code = warm_up(o, &even, NULL);
        items[count++] = (measure_item){.run = step, .arg = &even};
    }
    char label[64];
    (void)snprintf(label, sizeof label, "bench attn: %d tokens", setup->T);
    const measure_plan plan = bench_plan(&o->shared, label);
    if (code == CLI_DONE && !measure_run(&plan, items, count)) code = CLI_FAILED;
    int64_t even_pairs = 0;
    if (code == CLI_DONE && o->is_versus_even) code = attn_pairs(&even, &even_pairs);
    if (code == CLI_DONE) {
        const double ms = measure_median(&items[0].samples);
        print_common(table, o, setup, &result, items);
        if (o->is_versus_dense) {
            output_number(table, "dense_ms", measure_median(&items[2].samples), 3);
            output_number(table, "speedup", measure_median(&items[2].samples) / ms, 2);
        }
        if (o->is_versus_even) {
            const double even_ms = measure_median(&items[count - 1].samples);
            output_number(table, "even_ms", even_ms, 3);
            output_int(table, "even_pairs", (even_pairs + setup->H / 2) / setup->H);
            /* time beside the time that the pairs alone predict */
            output_number(table, "pair_cost_ratio",
                          ms / even_ms / ((double)result.pairs / (double)even_pairs), 3);
        }
        output_end(table);
    }
    for (int32_t n = 0; n < MAX_ITEMS; n++) measure_free(&items[n].samples);
    attn_job_free(&even);
    attn_job_free(&dense);
    attn_job_free(&job);
    attn_tensors_free(&tensors);
    return code;
}

static int warm_up_decode(decode_job *job, attn_result *result)
{
    focal_ctx_trim(job->ctx);
    focal_ctx_memory_reset(job->ctx);
    if (!decode_step(job)) return CLI_FAILED;
    if (!result) return CLI_DONE;
    result->memory_bytes = focal_ctx_memory(job->ctx).peak_bytes;
    const char *name = focal_attn_kernel_name(job->ctx, &job->args);
    result->kernel = name ? name : "?";
    const int code = decode_pairs(job, &result->pairs);
    return code == CLI_DONE ? decode_error(job, &result->error) : code;
}

static int run_decode(const attn_options *o, focal_ctx *ctx, const attn_setup *setup,
                      output_table *table)
{
    decode_caches caches = {0};
    decode_job *jobs = calloc(2, sizeof *jobs); /* large: the lists of sequences */
    attn_result result = {0};
    measure_item items[MAX_ITEMS] = {{0}};
    bench_peak peak = {ctx, setup->dtype};
    const decode_layout layout = o->has_layout                        ? (decode_layout)o->layout
                                 : setup->K > 0 && setup->routers > 1 ? DECODE_HEADS
                                                                      : DECODE_ROWS;
    if (!jobs) return cli_fail("not enough memory for the jobs");
    const double share = setup->K > 0 ? (double)setup->top / setup->K : 1.0;
    int code = decode_caches_make(ctx, setup, share, &caches);
    if (code == CLI_DONE) code = decode_job_make(ctx, setup, &caches, layout, &jobs[0]);
    if (code == CLI_DONE) code = warm_up_decode(&jobs[0], &result);
    items[0] = (measure_item){.run = decode_step, .arg = &jobs[0]};
    items[1] = (measure_item){.probe = bench_probe_peak, .arg = &peak};
    items[2] = (measure_item){.probe = decode_read_probe, .arg = &caches};
    if (code == CLI_DONE && o->is_versus_dense) {
        const attn_setup other = dense_setup(setup);
        code = decode_job_make(ctx, &other, &caches, DECODE_ROWS, &jobs[1]);
        if (code == CLI_DONE) code = warm_up_decode(&jobs[1], NULL);
        items[3] = (measure_item){.run = decode_step, .arg = &jobs[1]};
    }
    const measure_plan plan = bench_plan(&o->shared, "bench attn: decode");
    if (code == CLI_DONE && !measure_run(&plan, items, o->is_versus_dense ? 4 : 3))
        code = CLI_FAILED;
    if (code == CLI_DONE) {
        const double ms = measure_median(&items[0].samples);
        const double read = measure_median(&items[2].samples);
        const double rows = (double)result.pairs / setup->H * setup->G / setup->T;
        const double bytes = rows * (double)attn_kv_bytes(setup, setup->D + setup->Dv);
        print_common(table, o, setup, &result, items);
        output_number(table, "gb_per_s", 1e-6 * bytes / ms, 1);
        output_number(table, "read_gb_per_s", read, 1);
        output_number(table, "read_fraction", 1e-6 * bytes / ms / read, 3);
        if (o->is_versus_dense) {
            output_number(table, "dense_ms", measure_median(&items[3].samples), 3);
            output_number(table, "speedup", measure_median(&items[3].samples) / ms, 2);
        }
        output_end(table);
    }
    for (int32_t n = 0; n < MAX_ITEMS; n++) measure_free(&items[n].samples);
    decode_job_free(&jobs[1]);
    decode_job_free(&jobs[0]);
    free(jobs);
    decode_caches_free(&caches);
    return code;
}

int cli_bench_attn(int argc, char **argv)
{
    attn_options o = {
        .shared = bench_defaults(),
        .tokens = {.items = {8192}, .count = 1},
        .heads = 9,
        .dim = 64,
        .top = 1,
        .dtype = 1,
    };
    int code = parse(&o, argc, argv);
    if (code < 0) code = check(&o);
    if (code >= 0) return code;
    focal_ctx *ctx = NULL;
    code = cli_open_ctx(o.shared.threads, o.shared.kernel, &ctx);
    if (code != CLI_DONE) return code;
    o.shared.threads = focal_ctx_threads(ctx);
    output_table table = {.is_json = o.shared.is_json};
    for (int32_t n = 0; code == CLI_DONE && n < o.tokens.count; n++) {
        const attn_setup setup = make_setup(&o, o.tokens.items[n]);
        code =
            o.is_decode ? run_decode(&o, ctx, &setup, &table) : run_attn(&o, ctx, &setup, &table);
    }
    focal_ctx_close(ctx);
    return code;
}
