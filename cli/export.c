/* focal export: a model in the other format, or in another type. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "focal/export.h"
#include "model_file.h"
#include "options.h"
#include "stop.h"
#include "writing.h"

#define TYPES "f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_K to q6_K, iq4_nl"

enum { BAR = 30, LAST_TYPE = FOCAL_IQ4_NL };

static bool on_progress(void *user, int64_t done, int64_t total)
{
    const double spent = writing_seconds() - *(const double *)user;
    const double speed = spent > 0.0 ? (double)done / spent : 0.0;
    const int filled = total > 0 ? (int)(BAR * done / total) : BAR;
    char bar[BAR + 1];
    for (int n = 0; n < BAR; n++) bar[n] = n < filled ? '#' : '.';
    bar[BAR] = '\0';
    if (done < total)
        cli_progress("writing [%s] %.0f of %.0f MB, %.0f MB/s, %.0f s left", bar,
                     1e-6 * (double)done, 1e-6 * (double)total, 1e-6 * speed,
                     speed > 0.0 ? (double)(total - done) / speed : 0.0);
    else
        cli_progress("%s", "");
    return !stop_is_asked();
}

static void print_summary(const focal_export_result *r, double seconds)
{
    (void)fprintf(stderr, "%lld tensors, %.1f MB to %.1f MB in %.2f s", (long long)r->tensor_count,
                  1e-6 * (double)r->bytes_before, 1e-6 * (double)r->bytes_after, seconds);
    bool is_first = true;
    for (int type = 0; type <= LAST_TYPE; type++) {
        if (r->fallback_count[type] == 0) continue;
        (void)fprintf(stderr,
                      is_first ? "; rows that are no whole blocks: %lld as %s" : ", %lld as %s",
                      (long long)r->fallback_count[type], focal_dtype_name((focal_dtype)type));
        is_first = false;
    }
    (void)fputc('\n', stderr);
}

static int run_export(focal_ctx *ctx, const char *in, const char *out,
                      const focal_export_options *given)
{
    focal_export_options options = *given;
    focal_export_result result;
    double started = writing_seconds();
    options.on_progress = on_progress;
    options.user = &started;
    stop_catch(); /* what is half written is removed before the program ends */
    const focal_status status = focal_model_export(ctx, in, out, &options, &result);
    cli_progress("%s", "");
    if (status == FOCAL_OK) {
        print_summary(&result, writing_seconds() - started);
        return CLI_DONE;
    }
    return stop_is_asked() ? stop_code() : cli_fail_ctx(ctx, status);
}

int cli_export(int argc, char **argv)
{
    cli_texts names = {.count = 0};
    const char *type = NULL;
    int64_t threads = 0;
    focal_export_options o = {0};
    const cli_option options[] = {
        {"type", 0, CLI_TEXT, &type, "T", "of the weights; default: each keeps its own", 0, 0, NULL,
         NULL},
        {"force", 0, CLI_FLAG, &o.replaces, NULL, "replace OUT when it is there", 0, 0, NULL, NULL},
        cli_threads_option(&threads),
    };
    const cli_usage usage = {
        .command = "focal export",
        .about =
            "Writes a model as a GGUF file, when OUT ends in .gguf, or else as a Hugging Face\n"
            "directory. IN is what -m takes. T is one of\n" TYPES
            ";\na directory holds the first three.",
        .examples = "  focal export smollm2 smollm2-f16.gguf --type f16\n"
                    "  focal export smollm2 smollm2-directory\n"
                    "  focal export my-model my-model-q4_K.gguf --type q4_K\n",
        .arguments = "IN OUT",
        .taken = &names,
        .least = 2,
        .most = 2,
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    o.has_type = type != NULL;
    if (type && !focal_dtype_parse(type, &o.type))
        return cli_wrong("export: --type '%s' is not one of " TYPES, type);
    char path[CLI_PATH_BYTES];
    focal_ctx *ctx = NULL;
    code = cli_model_path(names.items[0], path, sizeof path);
    if (code == CLI_DONE) code = cli_open_ctx(threads, NULL, &ctx);
    if (code == CLI_DONE) code = run_export(ctx, path, names.items[1], &o);
    focal_ctx_close(ctx);
    return code;
}
