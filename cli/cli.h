/* What the subcommands share: their table entry, exit codes and the ways to say that something
 * went wrong. Results go to stdout, everything else to stderr. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "focal/base.h"

#define CLI_COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_WRONG = 2, CLI_INTERRUPTED = 130 };

/* A verb of the program, or a second word behind one; argv[0] is its own name. run returns an
 * exit code. */
typedef struct cli_verb {
    const char *name;
    const char *summary; /* one line of the list of verbs */
    int (*run)(int argc, char **argv);
} cli_verb;

int cli_bench(int argc, char **argv);
int cli_bench_attn(int argc, char **argv);
int cli_bench_model(int argc, char **argv);
int cli_bench_peak(int argc, char **argv);
int cli_bench_route(int argc, char **argv);
int cli_bench_train(int argc, char **argv);
int cli_chat(int argc, char **argv);
int cli_demo(int argc, char **argv);
int cli_eval(int argc, char **argv);
int cli_eval_copy(int argc, char **argv);
int cli_eval_groups(int argc, char **argv);
int cli_eval_mc(int argc, char **argv);
int cli_eval_ppl(int argc, char **argv);
int cli_eval_recall(int argc, char **argv);
int cli_export(int argc, char **argv);
int cli_fit(int argc, char **argv);
int cli_generate(int argc, char **argv);
int cli_info(int argc, char **argv);
int cli_pull(int argc, char **argv);
int cli_report(int argc, char **argv);
int cli_sweep(int argc, char **argv);
int cli_tokenize(int argc, char **argv);
int cli_train(int argc, char **argv);

/* Runs argv[1] of `program` ("focal", "focal bench"), or helps: --help, nothing, a wrong name. */
int cli_run_verb(const char *program, const char *about, const cli_verb *verbs, size_t verb_count,
                 int argc, char **argv);

/* Whether `focal NAME` is a command. */
bool cli_has_verb(const char *name);

/* Print "focal: <sentence>" on stderr and return the exit code of their name. */
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int cli_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* cli_fail(), once, when standard output takes no more; errno may say why. */
int cli_output_failed(void);

/* cli_fail() with the context's own sentence. */
int cli_fail_ctx(const focal_ctx *ctx, focal_status status);

/* Opens a context or says why not; kernel NULL: the fastest. */
int cli_open_ctx(int64_t threads, const char *kernel, focal_ctx **ctx);

/* The name in `names` nearest to `word`, or NULL when none is near. */
const char *cli_nearest(const char *word, const char *const *names, size_t count);

/* Memory for tensors, 64-byte aligned; NULL after saying that `what` does not fit. The whole need
 * of a run should be asked first, so that the system does not have to take it back by force. */
void *cli_alloc(const char *what, size_t count, size_t size);
bool cli_fits_memory(double bytes); /* false after saying that it does not */

/* The user's date and time, for templates that ask for it. */
struct tm;
const struct tm *cli_local_time(struct tm *now);

/* A line on stderr that the next one overwrites; nothing unless stderr is a terminal. "" clears. */
void cli_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The escape sequence on a terminal that wants colours, else "". */
const char *cli_bold(void);
const char *cli_plain(void);

#endif /* CLI_CLI_H */
