/* focal bench: the benchmarks, and the yardsticks they divide by. */
#include "focal/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "measure.h"
#include "options.h"
#include "output.h"

enum { READ_BYTES = 256 * 1024 * 1024 };

static const cli_verb benches[] = {
    {"model", "a whole model: prompts and decoding", cli_bench_model},
    {"attn", "attention: forward, backward, decode; dense or over groups", cli_bench_attn},
    {"route", "routing: scores, balance, membership, key sets", cli_bench_route},
    {"train", "steps of training: forward, backward, optimiser", cli_bench_train},
    {"peak", "what the machine can do: multiply-adds and reads", cli_bench_peak},
};

int cli_bench(int argc, char **argv)
{
    return cli_run_verb("focal bench", "focal bench: how fast, and how near to the machine's peak.",
                        benches, CLI_COUNT(benches), argc, argv);
}

/* Takes all three yardsticks by turns, so that a disturbance meets them alike. */
static int probe(focal_ctx *ctx, int64_t runs, const void *block, measure_samples rates[3])
{
    for (int64_t n = 0; n < runs; n++) {
        double rate[3];
        focal_status status = focal_bench_peak(ctx, FOCAL_F32, &rate[0]);
        if (status == FOCAL_OK) status = focal_bench_peak(ctx, FOCAL_BF16, &rate[1]);
        if (status == FOCAL_OK) status = focal_bench_read(ctx, block, READ_BYTES, &rate[2]);
        if (status != FOCAL_OK) return cli_fail_ctx(ctx, status);
        for (int kind = 0; kind < 3; kind++)
            if (!measure_add(&rates[kind], rate[kind])) return CLI_FAILED;
    }
    return CLI_DONE;
}

int cli_bench_peak(int argc, char **argv)
{
    int64_t threads = 0, runs = 15;
    bool is_json = false;
    const cli_option options[] = {
        cli_threads_option(&threads),
        {"runs", 0, CLI_INT, &runs, "N", "samples of each; default 15", 1, 10000, NULL, NULL},
        {"json", 0, CLI_FLAG, &is_json, NULL, "one JSON object", 0, 0, NULL, NULL},
    };
    const cli_usage usage = {
        .command = "focal bench peak",
        .about =
            "Measures the multiply-add peak of float32 and bfloat16 in registers, and a plain\n"
            "read of 256 MiB, on all threads: the medians, in 10^9 a second.",
        .examples = "  focal bench peak -t 2\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    focal_ctx *ctx = NULL;
    measure_samples rates[3] = {{0}};
    char *block = NULL;
    code = cli_open_ctx(threads, NULL, &ctx);
    if (code == CLI_DONE && !(block = cli_alloc("the read probe", READ_BYTES, 1)))
        code = CLI_FAILED;
    if (code == CLI_DONE) {
        memset(block, 1, READ_BYTES); /* untouched pages are all one page of zeros */
        code = probe(ctx, runs, block, rates);
    }
    if (code == CLI_DONE) {
        output_table table = {.is_json = is_json};
        output_int(&table, "threads", focal_ctx_threads(ctx));
        output_number(&table, "f32_gflops", measure_median(&rates[0]), 1);
        output_number(&table, "bf16_gflops", measure_median(&rates[1]), 1);
        output_number(&table, "read_gb_per_s", measure_median(&rates[2]), 1);
        output_end(&table);
    }
    for (int kind = 0; kind < 3; kind++) measure_free(&rates[kind]);
    free(block);
    focal_ctx_close(ctx);
    return code;
}
