/* Options and --set beside a method that does not look at them. What a run file says is left alone:
 * one file serves several methods. */
#include "fit_method.h"

#include <stdio.h>
#include <string.h>

#include "train.h"

enum { KEY_BYTES = 64, AS_BYTES = TRAIN_ASSIGNMENT_BYTES + 8 };

int fit_method_check(const focal_run *run, const char *as, const char *key)
{
    /* Temperatures alone see all keys; with --top 0 only those of a window and sinks, in some
     * layers. */
    static const char *const near[] = {"groups.top", "groups.window", "groups.sinks",
                                       "groups.layers"};
    char method[FOCAL_RUN_VALUE] = "";
    const char *but = "";
    if (focal_run_uses(run, key)) return CLI_DONE;
    (void)focal_run_get(run, "groups.method", method);
    for (size_t n = 0; n < CLI_COUNT(near); n++)
        if (strcmp(key, near[n]) == 0 && strcmp(method, "temperature") == 0)
            but = ", but for --top 0";
    return cli_wrong("fit: %s does nothing with --method %s%s", as, method, but);
}

/* The key of "key = value", which was taken as such before. */
static void take_key(const char *assignment, char key[KEY_BYTES])
{
    const char *begin = assignment + strspn(assignment, " \t");
    (void)snprintf(key, KEY_BYTES, "%.*s", (int)strcspn(begin, " \t="), begin);
}

int fit_method_check_all(const focal_run *run, const fit_settings *settings, const cli_texts *sets)
{
    int code = CLI_DONE;
    char as[AS_BYTES], key[KEY_BYTES];
    for (int32_t n = 0; n < settings->count && code == CLI_DONE; n++) {
        (void)snprintf(as, sizeof as, "--%s", settings->items[n].option);
        if (settings->items[n].is_given) code = fit_method_check(run, as, settings->items[n].key);
    }
    for (int32_t n = 0; n < sets->count && code == CLI_DONE; n++) {
        (void)snprintf(as, sizeof as, "--set %s", sets->items[n]);
        take_key(sets->items[n], key);
        code = fit_method_check(run, as, key);
    }
    return code;
}
