/* focal bench route: not there yet. */
#include "cli.h"

int cli_bench_route(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return cli_fail("bench route: not implemented yet");
}
