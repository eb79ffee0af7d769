/* focal info: this build and machine, from the tables that calls choose from. */
#include <stdio.h>

#include "cli.h"
#include "focal/attn.h"
#include "options.h"

/* Every operation with a table of kernels has a row here. */
static const struct kernel_table {
    const char *operation;
    const char *(*at)(focal_ctx *ctx, int32_t index, bool *is_usable);
} kernel_tables[] = {
    {"attn", focal_attn_kernel_at},
};

static void print_kernels(focal_ctx *ctx)
{
    printf("| operation | kernel | here |\n|---|---|---|\n");
    for (size_t n = 0; n < CLI_COUNT(kernel_tables); n++) {
        bool is_usable = false;
        const char *name;
        for (int32_t k = 0; (name = kernel_tables[n].at(ctx, k, &is_usable)); k++)
            printf("| %s | %s | %s |\n", kernel_tables[n].operation, name,
                   is_usable ? "yes" : "no");
    }
}

int cli_info(int argc, char **argv)
{
    bool has_kernels = false;
    int64_t threads = 0;
    const cli_option options[] = {
        {"kernels", 0, CLI_FLAG, &has_kernels, NULL, "the kernels of each operation, fastest first",
         0, 0, NULL, NULL},
        {"threads", 't', CLI_INT, &threads, "N", "threads; default: OMP_NUM_THREADS or the cores",
         1, 1024, NULL, NULL},
    };
    const cli_usage usage = {
        .command = "focal info",
        .about =
            "Shows the version, the instruction sets and threads that focal uses here, and the\n"
            "kernels that its operations choose from.",
        .examples = "  focal info\n  focal info --kernels\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    focal_ctx *ctx = NULL;
    code = cli_open_ctx(threads, NULL, &ctx);
    if (code != CLI_DONE) return code;
    if (has_kernels) {
        print_kernels(ctx);
    } else {
        const char *features = focal_ctx_features(ctx);
        const char *kernel = focal_ctx_kernel(ctx);
        printf("focal %d.%d.%d\n", FOCAL_VERSION_MAJOR, FOCAL_VERSION_MINOR, FOCAL_VERSION_PATCH);
        printf("instruction sets: %s\n", *features ? features : "none that focal has kernels for");
        printf("threads: %d\n", focal_ctx_threads(ctx));
        printf("pinned kernel: %s\n", kernel ? kernel : "none");
    }
    focal_ctx_close(ctx);
    return CLI_DONE;
}
