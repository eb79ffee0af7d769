/* focal info: a model or an adapter; or this build and machine, from the tables that calls choose
 * from. */
#include <stdio.h>

#include "cli.h"
#include "info_adapter.h"
#include "info_model.h"
#include "model_file.h"
#include "options.h"

static void print_kernels(focal_ctx *ctx)
{
    focal_kernel_info kernel;
    printf("| operation | kernel | here |\n|---|---|---|\n");
    for (int32_t n = 0; focal_kernel_at(ctx, n, &kernel); n++)
        printf("| %s | %s | %s |\n", kernel.operation, kernel.name,
               kernel.is_picked   ? "chosen"
               : kernel.is_usable ? "yes"
                                  : "no");
}

static void print_build(focal_ctx *ctx, bool is_json)
{
    const char *features = focal_ctx_features(ctx);
    const char *kernel = focal_ctx_kernel(ctx);
    const focal_dtype precision = focal_default_precision(ctx);
    if (is_json) {
        printf("{\"version\": \"%d.%d.%d\", \"features\": \"%s\", \"threads\": %d, "
               "\"precision\": \"%s\", ",
               FOCAL_VERSION_MAJOR, FOCAL_VERSION_MINOR, FOCAL_VERSION_PATCH, features,
               focal_ctx_threads(ctx), focal_dtype_name(precision));
        printf(kernel ? "\"kernel\": \"%s\"}\n" : "\"kernel\": null}\n", kernel);
        return;
    }
    printf("focal %d.%d.%d\n", FOCAL_VERSION_MAJOR, FOCAL_VERSION_MINOR, FOCAL_VERSION_PATCH);
    printf("instruction sets: %s\n", *features ? features : "none that focal has kernels for");
    printf("threads: %d\n", focal_ctx_threads(ctx));
    printf("pinned kernel: %s\n", kernel ? kernel : "none");
    printf("default precision: %s, for the CPU has %s\n", focal_dtype_name(precision),
           precision == FOCAL_BF16 ? "avx2 or more" : "no avx2");
}

static int open_adapter(focal_ctx *ctx, const char *path, focal_adapter **adapter)
{
    const focal_status status = focal_adapter_open(ctx, path, adapter);
    return status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(ctx, status);
}

/* One behind the other, as far as they open. */
static int print_files(focal_ctx *ctx, const cli_texts *names, bool is_json)
{
    int code = CLI_DONE;
    for (int32_t n = 0; n < names->count && code == CLI_DONE; n++) {
        const model_choice choice = {.name = names->items[n]};
        focal_model *model = NULL;
        focal_adapter *adapter = NULL;
        code = info_is_adapter(choice.name) ? open_adapter(ctx, choice.name, &adapter)
                                            : cli_open_model(ctx, &choice, &model);
        if (code != CLI_DONE) break;
        if (n > 0 && !is_json) putchar('\n');
        if (adapter)
            info_print_adapter(adapter, is_json);
        else
            info_print_model(model, is_json);
        focal_adapter_close(adapter);
        focal_model_close(model);
    }
    return code;
}

int cli_info(int argc, char **argv)
{
    bool has_kernels = false, is_json = false;
    int64_t threads = 0;
    cli_texts models = {.count = 0};
    const cli_option options[] = {
        {"kernels", 0, CLI_FLAG, &has_kernels, NULL,
         "the kernels of each operation, fastest first, and the chosen one", 0, 0, NULL, NULL},
        cli_threads_option(&threads),
        {"json", 0, CLI_FLAG, &is_json, NULL, "one JSON object a model or adapter", 0, 0, NULL,
         NULL},
    };
    const cli_rule rules[] = {{"threads", .excludes = "kernels"}, {"json", .excludes = "kernels"}};
    const cli_usage usage = {
        .command = "focal info",
        .about =
            "Shows what a model is: family, shapes, size, tokenizer; or what an adapter is: its\n"
            "groups and what they were fitted to. Without one: the version, the instruction sets\n"
            "and threads that focal uses here, and the kernels that its operations choose from.",
        .examples =
            "  focal info smollm2\n  focal info model.gguf --json\n  focal info --kernels\n",
        .arguments = "[MODEL|ADAPTER...]",
        .taken = &models,
        .most = CLI_MAX_LIST,
        .options = options,
        .option_count = CLI_COUNT(options),
        .rules = rules,
        .rule_count = CLI_COUNT(rules),
    };
    int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    if (has_kernels && models.count > 0)
        return cli_wrong("info: --kernels does not go together with a model");
    focal_ctx *ctx = NULL;
    code = cli_open_ctx(threads, NULL, &ctx);
    if (code != CLI_DONE) return code;
    if (models.count > 0)
        code = print_files(ctx, &models, is_json);
    else if (has_kernels)
        print_kernels(ctx);
    else
        print_build(ctx, is_json);
    focal_ctx_close(ctx);
    return code;
}
