/* A model that runs with an adapter: which, and how many groups, keys and sinks are seen. */
#include "adapter_options.h"

#include "cli.h"

cli_option adapter_option(adapter_choice *choice, int32_t n)
{
    const cli_option table[ADAPTER_OPTIONS] = {
        {"adapter", 0, CLI_ONCE, &choice->path, "DIR", "groups or LoRA, fitted to the model", 0, 0,
         NULL, NULL},
        {"top", 0, CLI_INT, &choice->top, "K",
         "groups that a token looks into, 0: none; default: the adapter's", 0, 64, NULL,
         &choice->has_top},
        {"window", 0, CLI_INT, &choice->window, "W",
         "keys before its own that a token sees; default: the adapter's", 0, 1 << 27, NULL,
         &choice->has_window},
        {"sinks", 0, CLI_INT, &choice->sinks, "N",
         "first keys that all tokens see; default: the adapter's", 0, 1 << 27, NULL,
         &choice->has_sinks},
        {"adapter-part", 0, CLI_CHOICE, &choice->part, "all|groups|temperatures",
         "what of the adapter runs [all]", 0, 0, "all|groups|temperatures", &choice->has_part},
    };
    return table[n];
}

int adapter_attach(focal_ctx *ctx, const adapter_choice *choice, focal_model *model)
{
    if (!choice->path) {
        if (choice->has_top || choice->has_window || choice->has_sinks || choice->has_part)
            return cli_wrong("--top, --window, --sinks and --adapter-part need --adapter DIR");
        return CLI_DONE;
    }
    const focal_attach_options options = {.top = (int32_t)choice->top,
                                          .window = (int32_t)choice->window,
                                          .sinks = (int32_t)choice->sinks,
                                          .has_window = choice->has_window,
                                          .has_sinks = choice->has_sinks,
                                          .has_no_distant = choice->has_top && choice->top == 0,
                                          .has_no_groups = choice->part == 2,
                                          .has_no_temperatures = choice->part == 1};
    const focal_status status = focal_model_adapt(model, choice->path, &options);
    return status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(ctx, status);
}
