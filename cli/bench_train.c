/* focal bench train: steps of training on random tokens, beside the machine's peak. */
#include <stdio.h>
#include <stdlib.h>

#include "bench_shared.h"
#include "focal/bench.h"

typedef struct train_options {
    bench_options shared;
    int64_t layers, width, ffn, vocab, heads, kv_heads, head_dim, length, batch;
    int32_t dtype, recompute, optimiser, temperature;
    double t;
    bool has_profile;
} train_options;

static const char about[] =
    "Times whole steps of training, forward, backward and optimiser, of a Qwen3-type model\n"
    "with random weights on random tokens: tokens a second, and the share of the machine's\n"
    "peak, counting 6 operations a token for each parameter of a product (the head too, looking\n"
    "up embeddings not) and 14 for each element of a pair that attention sees.";

static int parse(train_options *o, int argc, char **argv)
{
    enum { OWN = 15 };
    cli_option options[OWN + BENCH_OPTIONS] = {
        {"layers", 0, CLI_INT, &o->layers, "N", "default 8", 1, 512, NULL, NULL},
        {"width", 0, CLI_INT, &o->width, "N", "of the residual stream; default 512", 1, 65536, NULL,
         NULL},
        {"ffn", 0, CLI_INT, &o->ffn, "N", "hidden width; default 1408", 1, 1 << 20, NULL, NULL},
        {"vocab", 0, CLI_INT, &o->vocab, "N", "default 16384", 1, 1 << 22, NULL, NULL},
        {"heads", 0, CLI_INT, &o->heads, "N", "query heads; default 8", 1, 65536, NULL, NULL},
        {"kv-heads", 0, CLI_INT, &o->kv_heads, "N", "default: as many as query heads", 1, 65536,
         NULL, NULL},
        {"head-dim", 0, CLI_INT, &o->head_dim, "N", "default: width / heads", 1, 256, NULL, NULL},
        {"length", 0, CLI_INT, &o->length, "N", "tokens of a sequence; default 512", 1, 1 << 20,
         NULL, NULL},
        {"batch", 0, CLI_INT, &o->batch, "N", "sequences of a step; default 4", 1, 1 << 20, NULL,
         NULL},
        {"dtype", 0, CLI_CHOICE, &o->dtype, "TYPE", "what products read; default bf16", 0, 0,
         "bf16|f32", NULL},
        {"recompute", 0, CLI_CHOICE, &o->recompute, "LEVEL",
         "what is computed again instead of kept; default none", 0, 0, "none|inputs|block", NULL},
        {"optimiser", 0, CLI_CHOICE, &o->optimiser, "NAME", "default adamw", 0, 0, "adamw|muon",
         NULL},
        {"temperature", 0, CLI_CHOICE, &o->temperature, "KIND",
         "of attention; default none: as everywhere else", 0, 0,
         "none|constant|learned|learned-paper|per-head|length", NULL},
        {"t", 0, CLI_NUMBER, &o->t, "T",
         "the temperature of constant and length, and what per-head begins with; default 0.4", 0.01,
         100, NULL, NULL},
        {"profile", 0, CLI_FLAG, &o->has_profile, NULL, "what each operation took, on stderr", 0, 0,
         NULL, NULL},
    };
    bench_option_rows(&o->shared, options + OWN);
    const cli_usage usage = {
        .command = "focal bench train",
        .about = about,
        .examples = "  focal bench train -t 2\n"
                    "  focal bench train --dtype f32 --recompute block --json\n",
        .options = options,
        .option_count = OWN + BENCH_OPTIONS,
    };
    return cli_parse(&usage, argc, argv);
}

typedef struct train_step {
    focal_ctx *ctx;
    focal_train_bench *bench;
    double loss, first_loss; /* of the newest step, and of the first: the same in every run */
} train_step;

static bool run_step(void *arg)
{
    train_step *step = arg;
    const focal_status status = focal_train_bench_step(step->bench, &step->loss);
    if (status != FOCAL_OK) (void)cli_fail_ctx(step->ctx, status);
    return status == FOCAL_OK;
}

static void print_profile(focal_ctx *ctx, double peak, int64_t steps)
{
    const focal_profile_row *rows;
    const int32_t count = focal_profile_rows(ctx, &rows);
    double whole = 0.0;
    for (int32_t n = 0; n < count; n++) whole += rows[n].seconds;
    (void)fprintf(stderr, "%-26s %8s %10s %7s %10s %7s\n", "operation", "calls", "ms a step",
                  "share", "GFLOP/s", "peak");
    for (int32_t n = 0; n < count; n++) {
        const focal_profile_row *row = &rows[n];
        const double rate = 1e-9 * row->flops / row->seconds;
        (void)fprintf(stderr, "%-26s %8lld %10.2f %6.1f%% ", row->name,
                      (long long)(row->calls / steps), 1e3 * row->seconds / (double)steps,
                      100.0 * row->seconds / whole);
        if (rate > 0.0)
            (void)fprintf(stderr, "%10.1f %5.1f %%\n", rate, 100.0 * rate / peak);
        else
            (void)fprintf(stderr, "%10s %7s\n", "-", "-");
    }
}

static int report(const train_options *o, const train_step *step, const measure_samples *ms,
                  const measure_samples *peak)
{
    const focal_train_cost cost = focal_train_bench_cost(step->bench);
    const focal_memory memory = focal_ctx_memory(step->ctx);
    const double seconds = 1e-3 * measure_median(ms), flops = 1e-9 * cost.flops / seconds;
    output_table table = {.is_json = o->shared.is_json};
    output_text(&table, "dtype", o->dtype == 0 ? "bf16" : "f32");
    output_int(&table, "parameters", cost.parameter_count);
    output_int(&table, "tokens", cost.tokens);
    output_int(&table, "threads", focal_ctx_threads(step->ctx));
    output_number(&table, "ms", measure_median(ms), 1);
    output_number(&table, "p90_ms", measure_quantile(ms, 0.9), 1);
    output_number(&table, "tokens_per_second", (double)cost.tokens / seconds, 1);
    output_number(&table, "gflops", flops, 1);
    output_number(&table, "peak_gflops", measure_median(peak), 1);
    output_number(&table, "peak_fraction", flops / measure_median(peak), 3);
    output_number(&table, "loss", step->first_loss, 4);
    output_int(&table, "needed_bytes", (int64_t)(cost.parameter_bytes + cost.activation_bytes));
    output_int(&table, "memory_bytes", (int64_t)memory.peak_bytes);
    output_end(&table);
    return CLI_DONE;
}

static int run(const train_options *o, focal_ctx *ctx)
{
    const focal_train_shape shape = {.layers = (int32_t)o->layers,
                                     .width = (int32_t)o->width,
                                     .ffn = (int32_t)o->ffn,
                                     .vocab = (int32_t)o->vocab,
                                     .heads = (int32_t)o->heads,
                                     .kv_heads = (int32_t)o->kv_heads,
                                     .head_width = (int32_t)o->head_dim,
                                     .length = (int32_t)o->length,
                                     .batch = (int32_t)o->batch,
                                     .dtype = o->dtype == 0 ? FOCAL_BF16 : FOCAL_F32,
                                     .recompute = o->recompute,
                                     .has_muon = o->optimiser == 1,
                                     .temperature = (focal_train_temperature)o->temperature,
                                     .t = (float)o->t,
                                     .seed = (uint64_t)o->shared.seed};
    train_step step = {.ctx = ctx};
    const focal_status status = focal_train_bench_new(ctx, &shape, &step.bench);
    if (status != FOCAL_OK) return cli_fail_ctx(ctx, status);
    bench_peak peak = {ctx, shape.dtype};
    measure_item items[] = {{.run = run_step, .arg = &step},
                            {.probe = bench_probe_peak, .arg = &peak}};
    const measure_plan plan = bench_plan(&o->shared, "train");
    int code = run_step(&step) ? CLI_DONE : CLI_FAILED; /* warm */
    step.first_loss = step.loss;
    if (code == CLI_DONE && o->has_profile && focal_profile_start(ctx) != FOCAL_OK)
        code = cli_fail_ctx(ctx, FOCAL_ENOMEM);
    if (code == CLI_DONE && !measure_run(&plan, items, 2)) code = CLI_FAILED;
    if (code == CLI_DONE) code = report(o, &step, &items[0].samples, &items[1].samples);
    if (code == CLI_DONE && o->has_profile)
        print_profile(ctx, measure_median(&items[1].samples),
                      items[0].samples.count * items[0].calls);
    for (int n = 0; n < 2; n++) measure_free(&items[n].samples);
    focal_train_bench_free(step.bench);
    return code;
}

int cli_bench_train(int argc, char **argv)
{
    train_options o = {.shared = bench_defaults(),
                       .layers = 8,
                       .width = 512,
                       .ffn = 1408,
                       .vocab = 16384,
                       .heads = 8,
                       .length = 512,
                       .batch = 4,
                       .t = 0.4};
    int code = parse(&o, argc, argv);
    if (code >= 0) return code;
    focal_ctx *ctx = NULL;
    code = cli_open_ctx(o.shared.threads, o.shared.kernel, &ctx);
    if (code == CLI_DONE) code = run(&o, ctx);
    focal_ctx_close(ctx);
    return code;
}
