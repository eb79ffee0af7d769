/* focal demo: not there yet. */
#include "cli.h"

int cli_demo(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return cli_fail("demo: not implemented yet");
}
