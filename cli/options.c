/* Options of a subcommand: --name=value, --name value, -t value, -tvalue, flags, --help. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "llama_words.h"

enum { HELP_COLUMN = 30, MAX_NAMES = 64 };

static void print_option(const char *letter, const char *name, const char *value, const char *help)
{
    char left[96];
    (void)snprintf(left, sizeof left, "  %s--%s%s%s", letter, name, value ? " " : "",
                   value ? value : "");
    if (strlen(left) >= HELP_COLUMN - 1)
        printf("%s\n%*s%s\n", left, HELP_COLUMN, "", help);
    else
        printf("%-*s%s\n", HELP_COLUMN, left, help);
}

static void print_help(const cli_usage *usage)
{
    printf("%sUsage:%s %s [options]%s%s\n\n%s\n\n%sOptions:%s\n", cli_bold(), cli_plain(),
           usage->command, usage->arguments ? " " : "", usage->arguments ? usage->arguments : "",
           usage->about, cli_bold(), cli_plain());
    for (size_t n = 0; n < usage->option_count; n++) {
        const cli_option *option = &usage->options[n];
        char letter[8] = "    ";
        if (!option->help) continue;
        if (option->letter) (void)snprintf(letter, sizeof letter, "-%c, ", option->letter);
        print_option(letter, option->name, option->value, option->help);
    }
    print_option("-h, ", "help", NULL, "this text");
    if (usage->examples) printf("\n%sExamples:%s\n%s", cli_bold(), cli_plain(), usage->examples);
}

/* One number, perhaps with k or m behind it, from the front of text; NULL when there is none. */
static const char *read_int(const char *text, int64_t *value)
{
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text) return NULL;
    int64_t factor = 1;
    if (*end == 'k' || *end == 'K') factor = 1024;
    if (*end == 'm' || *end == 'M') factor = 1024LL * 1024;
    if (factor != 1) end++;
    return __builtin_mul_overflow((int64_t)number, factor, value) ? NULL : end;
}

/* The command's name in messages, which all begin with "focal: ". */
static const char *name_of(const cli_usage *usage)
{
    return usage->command + strlen("focal ");
}

static int wrong_range(const cli_usage *usage, const cli_option *option, const char *text)
{
    const char *what = option->kind == CLI_INT ? "a whole number"
                       : option->kind == CLI_LIST
                           ? "one whole number or several with commas between"
                           : "a number";
    if (option->kind != CLI_NUMBER) /* with all its digits */
        return cli_wrong("%s: --%s must be %s, %.0f to %.0f, not '%s'", name_of(usage),
                         option->name, what, option->min, option->max, text);
    return cli_wrong("%s: --%s must be %s, %.15g to %.15g, not '%s'", name_of(usage), option->name,
                     what, option->min, option->max, text);
}

static int set_list(const cli_usage *usage, const cli_option *option, const char *text)
{
    cli_list *list = option->target;
    list->count = 0;
    const char *at = text;
    for (;;) {
        int64_t value;
        const char *end = read_int(at, &value);
        if (!end || (*end != ',' && *end != '\0') || (double)value < option->min ||
            (double)value > option->max)
            return wrong_range(usage, option, text);
        if (list->count == CLI_MAX_LIST)
            return cli_wrong("%s: --%s takes at most %d numbers", name_of(usage), option->name,
                             CLI_MAX_LIST);
        list->items[list->count++] = value;
        if (*end == '\0') return -1;
        at = end + 1;
    }
}

static int set_choice(const cli_usage *usage, const cli_option *option, const char *text)
{
    int32_t index = 0;
    const size_t length = strlen(text);
    for (const char *at = option->choices; at; index++) {
        const char *bar = strchr(at, '|');
        const size_t size = bar ? (size_t)(bar - at) : strlen(at);
        if (size == length && strncmp(at, text, size) == 0) {
            *(int32_t *)option->target = index;
            return -1;
        }
        at = bar ? bar + 1 : NULL;
    }
    return cli_wrong("%s: --%s must be one of %s, not '%s'", name_of(usage), option->name,
                     option->choices, text);
}

/* Whether text is one of the words in a list such as "on|off". */
static bool is_word(const char *text, const char *list)
{
    const size_t length = strlen(text);
    for (const char *at = list; at && length > 0; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strncmp(at, text, length) == 0 && (at[length] == '|' || at[length] == '\0'))
            return true;
    return false;
}

static int set_value(const cli_usage *usage, const cli_option *option, const char *text)
{
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)option->target = true;
        return -1;
    case CLI_SWITCH:
        *(bool *)option->target = !is_word(text, "off|0");
        return -1;
    case CLI_PROMPT:
        *(const char **)option->target = text;
        return -1;
    case CLI_LIST:
        return set_list(usage, option, text);
    case CLI_CHOICE:
        return set_choice(usage, option, text);
    case CLI_ONCE:
    case CLI_TEXT:
        if (option->kind == CLI_ONCE && *(const char **)option->target)
            return cli_wrong("%s: --%s only once", name_of(usage), option->name);
        if (!*text) return cli_wrong("%s: --%s must not be empty", name_of(usage), option->name);
        *(const char **)option->target = text;
        return -1;
    case CLI_TEXTS: {
        cli_texts *texts = option->target;
        if (!*text) return cli_wrong("%s: --%s must not be empty", name_of(usage), option->name);
        if (texts->count == CLI_MAX_TEXTS)
            return cli_wrong("%s: --%s at most %d times", name_of(usage), option->name,
                             CLI_MAX_TEXTS);
        texts->items[texts->count++] = text;
        return -1;
    }
    case CLI_INT: {
        int64_t value;
        const char *end = read_int(text, &value);
        if (!end || *end || (double)value < option->min || (double)value > option->max)
            return wrong_range(usage, option, text);
        *(int64_t *)option->target = value;
        return -1;
    }
    case CLI_NUMBER: {
        char *end = NULL;
        errno = 0;
        const double value = strtod(text, &end);
        if (errno != 0 || end == text || *end || !isfinite(value) || value < option->min ||
            value > option->max)
            return wrong_range(usage, option, text);
        *(double *)option->target = value;
        return -1;
    }
    }
    return -1;
}

static int wrong_name(const cli_usage *usage, const char *word)
{
    char name[64];
    const char *names[MAX_NAMES];
    size_t count = 0;
    const size_t length = strcspn(word, "=");
    const char *absence = llama_absence(word, length);
    if (absence) return cli_wrong("%s: no %.*s: %s", name_of(usage), (int)length, word, absence);
    for (size_t n = 0; n < usage->option_count && count < MAX_NAMES - 1; n++)
        if (usage->options[n].help) names[count++] = usage->options[n].name;
    names[count++] = "help";
    (void)snprintf(name, sizeof name, "%.*s", (int)(length < 60 ? length : 60), word);
    const char *near = cli_nearest(name + strspn(name, "-"), names, count);
    if (near)
        return cli_wrong("%s: unknown option '%s'; did you mean --%s?", name_of(usage), name, near);
    return cli_wrong("%s: unknown option '%s'; see %s --help", name_of(usage), name,
                     usage->command);
}

/* The option of a command that llama.cpp has under another name; NULL: the word is none of its. */
static const cli_option *find_synonym(const cli_usage *usage, const char *word, const char **value)
{
    const size_t length = strcspn(word, "=");
    const char *name = llama_synonym(word, length);
    for (size_t n = 0; name && n < usage->option_count; n++) {
        if (strcmp(usage->options[n].name, name) != 0) continue;
        if (word[length] == '=') *value = word + length + 1;
        return &usage->options[n];
    }
    return NULL;
}

/* The option that a word names, and its value when it is in the same word. */
static const cli_option *find_option(const cli_usage *usage, const char *word, const char **value)
{
    *value = NULL;
    const cli_option *synonym = find_synonym(usage, word, value);
    if (synonym) return synonym;
    if (llama_absence(word, strcspn(word, "=")) && strncmp(word, "--", 2) != 0) return NULL;
    for (size_t n = 0; n < usage->option_count; n++) {
        const cli_option *option = &usage->options[n];
        const size_t length = strlen(option->name);
        if (strncmp(word, "--", 2) == 0) {
            if (strncmp(word + 2, option->name, length) != 0) continue;
            if (word[2 + length] == '=') *value = word + 3 + length;
            if (word[2 + length] == '\0' || *value) return option;
        } else if (option->letter && word[1] == option->letter) {
            if (word[2]) *value = word + 2;
            return option;
        }
    }
    return NULL;
}

/* Whether one of the options in a list such as "window|groups" was given. */
static bool any_given(const cli_usage *usage, uint64_t given, const char *list)
{
    for (size_t n = 0; n < usage->option_count; n++) {
        const char *name = usage->options[n].name;
        const size_t length = strlen(name);
        for (const char *at = list; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
            if (strncmp(at, name, length) == 0 && (at[length] == '|' || at[length] == '\0') &&
                (given >> n & 1U))
                return true;
    }
    return false;
}

/* "window|groups" as "--window or --groups". */
static const char *spell_out(const char *list, char *text, size_t size)
{
    size_t used = 0;
    for (const char *at = list; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        used += (size_t)snprintf(text + used, size - used, "%s--%.*s", used ? " or " : "",
                                 (int)strcspn(at, "|"), at);
    return text;
}

static int check_rules(const cli_usage *usage, uint64_t given)
{
    char others[128];
    for (size_t n = 0; n < usage->rule_count; n++) {
        const cli_rule *rule = &usage->rules[n];
        if (!any_given(usage, given, rule->option)) continue;
        if (rule->needs && !any_given(usage, given, rule->needs))
            return cli_wrong("%s: --%s does nothing without %s", name_of(usage), rule->option,
                             spell_out(rule->needs, others, sizeof others));
        if (rule->excludes && any_given(usage, given, rule->excludes))
            return cli_wrong("%s: --%s does not go together with %s", name_of(usage), rule->option,
                             spell_out(rule->excludes, others, sizeof others));
    }
    return -1;
}

cli_option cli_threads_option(int64_t *threads)
{
    return (cli_option){.name = "threads",
                        .letter = 't',
                        .kind = CLI_INT,
                        .target = threads,
                        .value = "N",
                        .help = "threads; default: OMP_NUM_THREADS or the cores",
                        .min = 1,
                        .max = 1024};
}

/* An argument that is no option. */
static int take_argument(const cli_usage *usage, const char *word)
{
    if (usage->taken && usage->taken->count == CLI_MAX_TEXTS)
        return cli_wrong("%s: more than %d arguments", name_of(usage), CLI_MAX_TEXTS);
    if (usage->taken && usage->most > 1 && usage->taken->count == usage->most)
        return cli_wrong("%s: more than %d arguments", name_of(usage), usage->most);
    if (!usage->taken || usage->taken->count == usage->most)
        return cli_wrong("%s: unexpected argument '%s'; see %s --help", name_of(usage), word,
                         usage->command);
    usage->taken->items[usage->taken->count++] = word;
    return -1;
}

int cli_parse(const cli_usage *usage, int argc, char **argv)
{
    uint64_t given = 0; /* bit n: options[n] was */
    bool has_ended = false;
    for (int n = 1; n < argc; n++) {
        const char *word = argv[n];
        const char *value;
        int code;
        if (!has_ended && strcmp(word, "--") == 0) {
            has_ended = true;
            continue;
        }
        if (has_ended || word[0] != '-' || word[1] == '\0') {
            code = take_argument(usage, word);
            if (code >= 0) return code;
            continue;
        }
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            print_help(usage);
            return CLI_DONE;
        }
        const cli_option *option = find_option(usage, word, &value);
        if (!option) return wrong_name(usage, word);
        if (option->kind == CLI_FLAG && value)
            return cli_wrong("%s: --%s takes no value", name_of(usage), option->name);
        if (option->kind == CLI_SWITCH && !value)
            value = n + 1 < argc && is_word(argv[n + 1], "on|off|auto|1|0") ? argv[++n] : "on";
        if (option->kind != CLI_FLAG && !value) {
            if (n + 1 == argc)
                return cli_wrong("%s: --%s needs a value: --%s %s", name_of(usage), option->name,
                                 option->name, option->value);
            value = argv[++n];
        }
        code = set_value(usage, option, value);
        if (code >= 0) return code;
        if (option->is_given) *option->is_given = true;
        given |= (uint64_t)1 << (option - usage->options);
    }
    if (usage->taken && usage->taken->count < usage->least)
        return cli_wrong("%s: %s %s; see %s --help", name_of(usage), usage->arguments,
                         usage->least == 1 ? "is missing" : "are needed", usage->command);
    return check_rules(usage, given);
}
