/* The options --adapter, --top and the like of all commands that run a model. */
#ifndef CLI_ADAPTER_OPTIONS_H
#define CLI_ADAPTER_OPTIONS_H

#include "focal/adapter.h"
#include "options.h"

enum { ADAPTER_OPTIONS = 5 };

typedef struct adapter_choice {
    const char *path; /* NULL: none */
    int64_t top, window, sinks;
    bool has_top, has_window, has_sinks, has_part;
    int32_t part; /* 0: all of it, 1: its groups, 2: its temperatures */
} adapter_choice;

/* The rows of a table of options. */
#define ADAPTER_ROWS(choice)                                                                       \
    adapter_option(choice, 0), adapter_option(choice, 1), adapter_option(choice, 2),               \
        adapter_option(choice, 3), adapter_option(choice, 4)
cli_option adapter_option(adapter_choice *choice, int32_t n);

/* The model runs with the adapter, where one was asked for; else says why not. Returns an exit
 * code. */
int adapter_attach(focal_ctx *ctx, const adapter_choice *choice, focal_model *model);

#endif /* CLI_ADAPTER_OPTIONS_H */
