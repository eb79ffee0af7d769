/* Options of a subcommand as a table: parsing, checking and the help text come from it. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLI_MAX_LIST = 64, CLI_MAX_TEXTS = 8192 };

typedef struct cli_list {
    int64_t items[CLI_MAX_LIST];
    int32_t count;
} cli_list;

typedef struct cli_texts {
    const char *items[CLI_MAX_TEXTS];
    int32_t count;
} cli_texts;

typedef enum cli_kind {
    CLI_FLAG,   /* bool; takes no value */
    CLI_SWITCH, /* bool; on, off or auto may follow, and off makes it false */
    CLI_INT,    /* int64_t; 8k is 8,192 and 1m 1,048,576 */
    CLI_LIST,   /* cli_list: such numbers, with commas between */
    CLI_NUMBER, /* double */
    CLI_TEXT,   /* const char *, not empty */
    CLI_ONCE,   /* the same, NULL at first; a second would replace the first, and is refused */
    CLI_PROMPT, /* const char *, perhaps empty */
    CLI_TEXTS,  /* cli_texts: each use of the option adds one */
    CLI_CHOICE  /* int32_t: the index of the word in `choices` */
} cli_kind;

typedef struct cli_option {
    const char *name; /* without the dashes */
    char letter;      /* -t; 0: none */
    cli_kind kind;
    void *target;        /* holds the default; left alone when the option is not given */
    const char *value;   /* what the help calls the value */
    const char *help;    /* with the default, where there is one; NULL: not listed */
    double min, max;     /* of numbers, both included */
    const char *choices; /* "f32|bf16" */
    bool *is_given;      /* may be NULL */
} cli_option;

/* An option that would do nothing without one of others ("window|groups"), or beside one. */
typedef struct cli_rule {
    const char *option;
    const char *needs;    /* or NULL */
    const char *excludes; /* or NULL */
} cli_rule;

typedef struct cli_usage {
    const char *command;   /* "focal bench attn" */
    const char *about;     /* a paragraph */
    const char *examples;  /* lines */
    const char *arguments; /* "[TEXT]": what the help calls those that are no options; or NULL */
    cli_texts *taken;      /* those arguments, least to most of them; NULL: there may be none */
    int32_t least, most;
    const cli_option *options;
    size_t option_count;   /* at most 64 */
    const cli_rule *rules; /* rule_count of them; NULL: none */
    size_t rule_count;
} cli_usage;

/* Reads argv[1..]; llama.cpp's names for options are understood. Returns -1 to go on, else the exit
 * code: --help was asked for, or something is wrong and has been said. Behind "--" nothing is an
 * option. */
int cli_parse(const cli_usage *usage, int argc, char **argv);

/* The option that all commands have; 0 stays 0 when it is not given. */
cli_option cli_threads_option(int64_t *threads);

#endif /* CLI_OPTIONS_H */
