/* focal bench model: prompts and decoding of a whole model, in llama-bench's table and notation,
 * beside the least time that the machine's own peaks allow. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "focal/bench.h"
#include "measure.h"
#include "model_file.h"
#include "options.h"
#include "output.h"

enum { READ_BYTES = 256 * 1024 * 1024, NAME_BYTES = 48, PROBES = 5 };

typedef enum report_format { FORMAT_MD, FORMAT_JSON, FORMAT_CSV } report_format;

typedef struct model_options {
    model_choice model;
    cli_list prompts, counts, depths;
    int64_t batch, runs, threads, seed;
    int32_t format;
    bool is_json;
    bool has_profile;
    const char *file; /* NULL: random tokens */
} model_options;

/* One run: the model, its cache, and room for tokens and logits. */
typedef struct bench_run {
    const model_options *o;
    focal_ctx *ctx;
    focal_model *model;
    focal_cache *cache;
    focal_model_info info;
    focal_dtype cache_type;
    int32_t *ids;   /* (batch) */
    focal_ids text; /* of --file, again and again */
    float *logits;
    void *block; /* of the read probe */
    uint64_t state;
    measure_samples peak, read;
} bench_run;

/* What is timed: `prompt` tokens at once, or `count` one after the other, behind `depth`. */
typedef struct bench_test {
    int64_t prompt, count, depth;
    char name[NAME_BYTES];
} bench_test;

/* The token at a place of the text: its own, or a random one. */
static int32_t id_at(bench_run *r, int64_t place)
{
    if (r->text.count > 0) return r->text.ids[place % r->text.count];
    r->state = r->state * 6364136223846793005U + 1442695040888963407U;
    return (int32_t)((r->state >> 33) % (uint64_t)r->info.V);
}

/* `count` tokens behind what the cache holds, `batch` at a time. */
static bool read_tokens(bench_run *r, int64_t count, int64_t batch, bool wants_logits)
{
    for (int64_t done = 0, take; done < count; done += take) {
        take = count - done < batch ? count - done : batch;
        const int32_t place = focal_cache_length(r->cache, 0);
        for (int64_t n = 0; n < take; n++) r->ids[n] = id_at(r, place + n);
        const bool is_wanted = wants_logits && done + take == count;
        const focal_batch_item item = {0, (int32_t)take, r->ids, is_wanted ? 1 : 0};
        const focal_forward_args args = {.item_count = 1, .items = &item, .logits = r->logits};
        const focal_status status = focal_forward(r->model, r->cache, &args);
        if (status == FOCAL_OK) continue;
        (void)cli_fail_ctx(r->ctx, status);
        return false;
    }
    return true;
}

static bool run_once(bench_run *r, const bench_test *t)
{
    if (t->prompt > 0) return read_tokens(r, t->prompt, r->o->batch, true);
    for (int64_t n = 0; n < t->count; n++)
        if (!read_tokens(r, 1, 1, true)) return false;
    return true;
}

static bool go_back(bench_run *r, int64_t depth)
{
    const focal_status status = focal_cache_truncate(r->cache, 0, (int32_t)depth);
    if (status != FOCAL_OK) (void)cli_fail_ctx(r->ctx, status);
    return status == FOCAL_OK;
}

/* The machine's peaks, once more. */
static bool probe(bench_run *r)
{
    double peak, read;
    focal_status status = focal_bench_peak(r->ctx, r->info.precision, &peak);
    if (status == FOCAL_OK) status = focal_bench_read(r->ctx, r->block, READ_BYTES, &read);
    if (status != FOCAL_OK) (void)cli_fail_ctx(r->ctx, status);
    return status == FOCAL_OK && measure_add(&r->peak, peak) && measure_add(&r->read, read);
}

/* Pairs of query and key that one head of all layers sees for `count` tokens behind `depth`. */
static double count_pairs(const focal_model_info *info, double depth, double count)
{
    const double most = (double)info->window + 1.0, rising = fmin(fmax(most - depth, 0.0), count);
    const double all = count * depth + 0.5 * count * (count + 1.0);
    const double local = rising * depth + 0.5 * rising * (rising + 1.0) + (count - rising) * most;
    return (info->L - info->window_layers) * all + info->window_layers * local;
}

/* Of a key and its value in one layer of the cache. */
static double pair_bytes(const bench_run *r)
{
    return 2.0 * r->info.G * r->info.D * (double)focal_dtype_block_bytes(r->cache_type) /
           (double)focal_dtype_block(r->cache_type);
}

/* The least seconds of a test: all products and pairs at the peak, or, a token at a time, all
 * weights and the cache at the speed of a plain read. */
static double least_seconds(const bench_run *r, const bench_test *t)
{
    const focal_model_info *info = &r->info;
    const double count = (double)(t->prompt > 0 ? t->prompt : t->count), depth = (double)t->depth;
    const double heads = t->prompt > 0 ? 1.0 : count; /* rows through the vocabulary */
    const double pairs = count_pairs(info, depth, count);
    const double flops = count * (double)info->layer_flops + heads * (double)info->head_flops +
                         4.0 * info->D * info->H * pairs;
    const double steps = t->prompt > 0 ? 1.0 : count;
    double bytes = steps * (double)info->step_bytes;
    if (t->prompt == 0) bytes += pair_bytes(r) * pairs;
    return fmax(1e-9 * flops / measure_median(&r->peak), 1e-9 * bytes / measure_median(&r->read));
}

static double mean(const measure_samples *s)
{
    if (s->count == 0) return (double)NAN;
    double sum = 0.0;
    for (int64_t n = 0; n < s->count; n++) sum += s->values[n];
    return sum / (double)s->count;
}

static double deviation(const measure_samples *s)
{
    const double middle = mean(s);
    double sum = 0.0;
    if (s->count == 0) return (double)NAN;
    for (int64_t n = 0; n < s->count; n++) sum += (s->values[n] - middle) * (s->values[n] - middle);
    return s->count > 1 ? sqrt(sum / (double)(s->count - 1)) : 0.0;
}

/* The most memory that the process has had so far (VmHWM), the mapped file included; what the read
 * probe needs is no part of the model. Not getrusage: that begins with what the parent had. */
static double peak_rss_mb(void)
{
    char line[256];
    double kb = (double)NAN;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmHWM:", 6) == 0) kb = strtod(line + 6, NULL);
    if (file) (void)fclose(file);
    return (kb - READ_BYTES / 1024.0) / 1024.0;
}

/* The type that most parameters have: what llama-bench names a model by. */
static const char *main_type(const focal_model_info *info)
{
    size_t most = 0;
    for (size_t n = 1; n < CLI_COUNT(info->type_count); n++)
        if (info->type_count[n] > info->type_count[most]) most = n;
    return focal_dtype_name((focal_dtype)most);
}

/* "llama q4_1", and how it runs with an adapter: rows of different runs stand in one table. */
static void describe_model(const bench_run *r, char *to, size_t bytes)
{
    const focal_model_info *info = &r->info;
    const char *adapter = r->o->model.adapter.path ? ", adapter" : "";
    if (info->groups > 0)
        (void)snprintf(to, bytes, "%s %s, %d of %d groups", info->family, main_type(info),
                       info->top, info->groups);
    else
        (void)snprintf(to, bytes, "%s %s%s", info->family, main_type(info), adapter);
}

static void print_row(const bench_run *r, const bench_test *t, const measure_samples *rates)
{
    const double count = (double)(t->prompt > 0 ? t->prompt : t->count);
    const double floor_ts = count / least_seconds(r, t), ts = mean(rates);
    const focal_model_info *info = &r->info;
    const double size = (double)info->weight_bytes / 1048576.0;
    const double params = 1e-6 * (double)info->parameter_count;
    const int threads = focal_ctx_threads(r->ctx);
    if (r->o->format == FORMAT_MD) {
        char speed[NAME_BYTES] = "-", share[NAME_BYTES] = "-", model[2 * NAME_BYTES];
        if (rates->count > 0) {
            (void)snprintf(speed, sizeof speed, "%.2f ± %.2f", ts, deviation(rates));
            (void)snprintf(share, sizeof share, "%.1f %%", 100.0 * ts / floor_ts);
        }
        describe_model(r, model, sizeof model);
        printf("| %s | %.2f MiB | %.2f M | %d | %s | %s | %.2f | %s | %.0f |\n", model, size,
               params, threads, t->name, speed, floor_ts, share, peak_rss_mb());
    } else if (r->o->format == FORMAT_CSV) {
        printf("%s,%s,%s,%d,%s,%.9g,%.9g,%.9g,%.9g,%.9g,%d,%d,%d,%d\n", info->family,
               main_type(info), focal_dtype_name(info->precision), threads, t->name, ts,
               deviation(rates), floor_ts, ts / floor_ts, peak_rss_mb(), info->groups, info->top,
               info->group_window, info->sinks);
    } else {
        output_table table = {.is_json = true};
        output_text(&table, "model", info->family);
        output_text(&table, "type", main_type(info));
        output_text(&table, "precision", focal_dtype_name(info->precision));
        output_text(&table, "cache_type", focal_dtype_name(r->cache_type));
        if (r->o->model.adapter.path) output_text(&table, "adapter", r->o->model.adapter.path);
        output_int(&table, "groups", info->groups);
        output_int(&table, "top", info->top);
        output_int(&table, "window", info->group_window);
        output_int(&table, "sinks", info->sinks);
        output_int(&table, "threads", threads);
        output_text(&table, "test", t->name);
        output_int(&table, "n_prompt", t->prompt);
        output_int(&table, "n_gen", t->count);
        output_int(&table, "n_depth", t->depth);
        output_number(&table, "avg_ts", ts, 2);
        output_number(&table, "stddev_ts", deviation(rates), 2);
        output_number(&table, "floor_ts", floor_ts, 2);
        output_number(&table, "floor_fraction", ts / floor_ts, 3);
        output_number(&table, "peak_gflops", measure_median(&r->peak), 1);
        output_number(&table, "read_gb_per_s", measure_median(&r->read), 1);
        output_number(&table, "peak_rss_mb", peak_rss_mb(), 1);
        output_end(&table);
    }
    (void)fflush(stdout);
}

/* Where the time of all runs of a test went: each operation's share, and how far it is from its own
 * floor. */
static void print_profile(const bench_run *r, const bench_test *t, double seconds)
{
    const focal_profile_row *rows;
    const int32_t count = focal_profile_rows(r->ctx, &rows);
    const double peak = measure_median(&r->peak), read = measure_median(&r->read);
    double known = 0.0;
    FILE *to = r->o->format == FORMAT_MD ? stdout : stderr;
    (void)fprintf(to, "\n%s: %.1f ms a run, peak %.0f GFLOP/s, read %.1f GB/s\n", t->name,
                  1e3 * seconds / (double)r->o->runs, peak, read);
    (void)fprintf(to, "  %-18s %8s %10s %7s %10s %8s %7s\n", "operation", "calls", "ms a run",
                  "share", "GFLOP/s", "GB/s", "floor");
    for (int32_t n = 0; n < count; n++) {
        const focal_profile_row *row = &rows[n];
        const double flops = 1e-9 * row->flops / row->seconds;
        const double bytes = 1e-9 * row->bytes / row->seconds;
        const double share = fmax(flops / peak, bytes / read);
        known += row->seconds;
        (void)fprintf(to, "  %-18s %8lld %10.3f %6.1f%% %10.1f %8.1f ", row->name,
                      (long long)(row->calls / r->o->runs), 1e3 * row->seconds / (double)r->o->runs,
                      100.0 * row->seconds / seconds, flops, bytes);
        if (share > 0.0)
            (void)fprintf(to, "%5.1f %%\n", 100.0 * share);
        else
            (void)fprintf(to, "%7s\n", "-");
    }
    (void)fprintf(to, "  %-18s %8s %10.3f %6.1f%%\n\n", "the rest", "",
                  1e3 * (seconds - known) / (double)r->o->runs,
                  100.0 * (seconds - known) / seconds);
    (void)fflush(to);
}

/* No run: what the peaks allow, alone. */
static bool run_floor(bench_run *r, const bench_test *t)
{
    const measure_samples none = {0};
    r->peak.count = r->read.count = 0;
    for (int n = 0; n < PROBES; n++)
        if (!probe(r)) return false;
    print_row(r, t, &none);
    return true;
}

/* A warm-up, then the runs, each from the same depth, with a probe between. */
static bool run_test(bench_run *r, const bench_test *t)
{
    if (r->o->runs == 0) return run_floor(r, t);
    measure_samples rates = {0};
    const double count = (double)(t->prompt > 0 ? t->prompt : t->count);
    double total = 0.0;
    bool is_fine = go_back(r, 0) && read_tokens(r, t->depth, r->o->batch, false);
    if (is_fine) is_fine = t->prompt > 0 ? run_once(r, t) : read_tokens(r, 1, 1, true);
    r->peak.count = r->read.count = 0;
    if (is_fine && r->o->has_profile) is_fine = focal_profile_start(r->ctx) == FOCAL_OK;
    for (int64_t n = 0; is_fine && n < r->o->runs; n++) {
        cli_progress("%s: run %lld of %lld", t->name, (long long)n + 1, (long long)r->o->runs);
        is_fine = go_back(r, t->depth) && probe(r);
        const double begin = measure_now();
        is_fine = is_fine && run_once(r, t);
        const double seconds = measure_now() - begin;
        total += seconds;
        is_fine = is_fine && measure_add(&rates, count / seconds);
    }
    focal_profile_stop(r->ctx);
    cli_progress("%s", "");
    if (is_fine) print_row(r, t, &rates);
    if (is_fine && r->o->has_profile) print_profile(r, t, total);
    measure_free(&rates);
    return is_fine;
}

/* llama-bench's notation: pp512, tg128, tg128@d8192. */
static bench_test name_test(int64_t prompt, int64_t count, int64_t depth)
{
    bench_test t = {.prompt = prompt, .count = count, .depth = depth};
    char behind[NAME_BYTES / 2] = "";
    if (depth > 0) (void)snprintf(behind, sizeof behind, "@d%lld", (long long)depth);
    (void)snprintf(t.name, sizeof t.name, "%s%lld%s", prompt > 0 ? "pp" : "tg",
                   (long long)(prompt > 0 ? prompt : count), behind);
    return t;
}

static void print_head(const model_options *o)
{
    if (o->format == FORMAT_MD)
        printf("| model | size | params | threads | test | t/s | floor t/s | of floor | peak MB |\n"
               "|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    else if (o->format == FORMAT_CSV)
        printf("model,type,precision,threads,test,avg_ts,stddev_ts,floor_ts,floor_fraction,peak_"
               "rss_mb,groups,top,window,sinks\n");
}

static int64_t largest(const cli_list *list)
{
    int64_t most = 0;
    for (int32_t n = 0; n < list->count; n++)
        if (list->items[n] > most) most = list->items[n];
    return most;
}

/* Whether the cache of the longest test fits into memory. */
static bool fits(const bench_run *r)
{
    const model_options *o = r->o;
    const double longest = fmax((double)largest(&o->prompts), (double)largest(&o->counts));
    const double tokens = (double)largest(&o->depths) + longest;
    return cli_fits_memory(pair_bytes(r) * r->info.L * tokens);
}

static int run_tests(bench_run *r)
{
    const model_options *o = r->o;
    if (!fits(r)) return CLI_FAILED;
    print_head(o);
    for (int32_t d = 0; d < o->depths.count; d++) {
        for (int32_t n = 0; n < o->prompts.count; n++) {
            const bench_test t = name_test(o->prompts.items[n], 0, o->depths.items[d]);
            if (t.prompt > 0 && !run_test(r, &t)) return CLI_FAILED;
        }
        for (int32_t n = 0; n < o->counts.count; n++) {
            const bench_test t = name_test(0, o->counts.items[n], o->depths.items[d]);
            if (t.count > 0 && !run_test(r, &t)) return CLI_FAILED;
        }
    }
    return CLI_DONE;
}

/* What is said matters with groups: random tokens crowd into a few of them. */
static int read_text(bench_run *r)
{
    size_t bytes = 0;
    const focal_tokenizer *tokenizer = focal_model_tokenizer(r->model);
    if (!tokenizer) return cli_fail("the model has no tokenizer: --file cannot be read");
    char *text = cli_read_text(r->o->file, CLI_PROMPT_BYTES, &bytes);
    if (!text) return CLI_FAILED;
    const focal_status status = focal_tokenizer_encode(r->ctx, tokenizer, text, bytes, 0, &r->text);
    free(text);
    if (status != FOCAL_OK) return cli_fail_ctx(r->ctx, status);
    return r->text.count > 0 ? CLI_DONE : cli_fail("%s: no token in it", r->o->file);
}

static int run_bench(focal_ctx *ctx, const model_options *o)
{
    bench_run r = {.o = o, .ctx = ctx, .state = (uint64_t)o->seed};
    int code = cli_open_model(ctx, &o->model, &r.model);
    if (code == CLI_DONE) {
        r.info = focal_model_describe(r.model);
        cli_load_model(r.model, &o->model);
        const focal_cache_options cache = cli_cache_options(&o->model);
        r.cache_type = cache.has_dtype ? cache.dtype : r.info.precision;
        const focal_status status = focal_cache_new(r.model, &cache, &r.cache);
        if (status != FOCAL_OK) code = cli_fail_ctx(ctx, status);
    }
    if (code == CLI_DONE) {
        r.ids = cli_alloc("tokens", (size_t)o->batch, sizeof *r.ids);
        r.logits = cli_alloc("logits", (size_t)r.info.V, sizeof *r.logits);
        r.block = cli_alloc("the read probe", READ_BYTES, 1);
        if (!r.ids || !r.logits || !r.block) code = CLI_FAILED;
    }
    if (code == CLI_DONE && o->file) code = read_text(&r);
    if (code == CLI_DONE) {
        memset(r.block, 1, READ_BYTES); /* untouched pages are all one page of zeros */
        code = run_tests(&r);
    }
    measure_free(&r.peak);
    measure_free(&r.read);
    free(r.block);
    free(r.logits);
    free(r.ids);
    focal_ids_free(ctx, &r.text);
    focal_cache_free(r.cache);
    focal_model_close(r.model);
    return code;
}

static bool has_any(const cli_list *list)
{
    for (int32_t n = 0; n < list->count; n++)
        if (list->items[n] > 0) return true;
    return false;
}

int cli_bench_model(int argc, char **argv)
{
    model_options o = {.prompts = {.items = {512}, .count = 1},
                       .counts = {.items = {128}, .count = 1},
                       .depths = {.items = {0}, .count = 1},
                       .batch = 1024,
                       .runs = 5,
                       .seed = 1};
    const cli_option options[] = {
        cli_model_option(&o.model),
        ADAPTER_ROWS(&o.model.adapter),
        {"n-prompt", 'p', CLI_LIST, &o.prompts, "N[,N...]", "tokens of a prompt [512]; 0: none", 0,
         1 << 27, NULL, NULL},
        {"n-gen", 'n', CLI_LIST, &o.counts, "N[,N...]",
         "tokens written one after the other [128]; 0: none", 0, 1 << 27, NULL, NULL},
        {"n-depth", 'd', CLI_LIST, &o.depths, "N[,N...]", "tokens that are there before [0]", 0,
         1 << 27, NULL, NULL},
        {"batch-size", 'b', CLI_INT, &o.batch, "N", "prompt tokens a pass [1024]", 1, 1 << 20, NULL,
         NULL},
        {"repetitions", 'r', CLI_INT, &o.runs, "N", "runs of each test [5]; 0: the floor alone", 0,
         100000, NULL, NULL},
        {"output", 'o', CLI_CHOICE, &o.format, "md|json|csv", "how results are printed [md]", 0, 0,
         "md|json|csv", NULL},
        {"json", 0, CLI_FLAG, &o.is_json, NULL, "the same as -o json", 0, 0, NULL, NULL},
        {"profile", 0, CLI_FLAG, &o.has_profile, NULL,
         "where the time of each test goes, operation by operation", 0, 0, NULL, NULL},
        {"file", 'f', CLI_TEXT, &o.file, "FILE",
         "tokens of a text, from its beginning; default: random ones", 0, 0, NULL, NULL},
        {"seed", 0, CLI_INT, &o.seed, "N", "of the random tokens [1]", 0, INT32_MAX, NULL, NULL},
        cli_cache_option(&o.model),
        cli_load_option(&o.model),
        cli_precision_option(&o.model),
        cli_threads_option(&o.threads),
    };
    static const cli_rule rules[] = {{"json", .excludes = "output"}};
    const cli_usage usage = {
        .command = "focal bench model",
        .about =
            "Times a model on random tokens or a text, in llama-bench's notation: pp512 is a "
            "prompt of\n"
            "512 tokens, tg128 are 128 tokens written one by one, @d4096 means behind 4096\n"
            "others. The floor is what the machine's own peaks, measured between the runs,\n"
            "would allow for the model's products, its attention and its bytes; with groups it\n"
            "stays that of attention over all keys.",
        .examples = "  focal bench model -m smollm2 -p 512,2048,8192 -n 128 -t 2\n"
                    "  focal bench model -m smollm2 -p 0 -n 128 -d 0,8192 --profile\n",
        .options = options,
        .option_count = CLI_COUNT(options),
        .rules = rules,
        .rule_count = CLI_COUNT(rules),
    };
    int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    if (o.is_json) o.format = FORMAT_JSON;
    if (!has_any(&o.prompts) && !has_any(&o.counts))
        return cli_wrong("bench model: nothing to time: -p and -n are both 0");
    if (o.runs == 0 && o.has_profile)
        return cli_wrong("bench model: --profile needs runs, and -r is 0");
    focal_ctx *ctx = NULL;
    code = cli_open_ctx(o.threads, NULL, &ctx);
    if (code != CLI_DONE) return code;
    code = run_bench(ctx, &o);
    focal_ctx_close(ctx);
    return code;
}
