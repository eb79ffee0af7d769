/* Options of a subcommand as a table: parsing, checking and the help text come from it. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLI_MAX_LIST = 64 };

typedef struct cli_list {
    int64_t items[CLI_MAX_LIST];
    int32_t count;
} cli_list;

typedef enum cli_kind {
    CLI_FLAG,   /* bool; takes no value */
    CLI_INT,    /* int64_t; 8k is 8,192 and 1m 1,048,576 */
    CLI_LIST,   /* cli_list: such numbers, with commas between */
    CLI_NUMBER, /* double */
    CLI_TEXT,   /* const char *, not empty */
    CLI_CHOICE  /* int32_t: the index of the word in `choices` */
} cli_kind;

typedef struct cli_option {
    const char *name; /* without the dashes */
    char letter;      /* -t; 0: none */
    cli_kind kind;
    void *target;        /* holds the default; left alone when the option is not given */
    const char *value;   /* what the help calls the value */
    const char *help;    /* with the default, where there is one */
    double min, max;     /* of numbers, both included */
    const char *choices; /* "f32|bf16" */
    bool *is_given;      /* may be NULL */
} cli_option;

typedef struct cli_usage {
    const char *command;  /* "focal bench attn" */
    const char *about;    /* a paragraph */
    const char *examples; /* lines */
    const cli_option *options;
    size_t option_count;
} cli_usage;

/* Reads argv[1..]. Returns -1 to go on, else the exit code: --help was asked for, or something is
 * wrong and has been said. Arguments that are not options are wrong. */
int cli_parse(const cli_usage *usage, int argc, char **argv);

#endif /* CLI_OPTIONS_H */
