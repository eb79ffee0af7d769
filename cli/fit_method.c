/* Options that only some methods look at. One that is not listed is for all of them. */
#include "fit_method.h"

#include <string.h>

#define WITH_GROUPS "focus|random|start"
#define WITH_ROUTERS "focus|start"
#define THAT_LEARN "focus|temperature|lora|scale"

static const struct {
    const char *option, *methods;
} uses[] = {{"groups", WITH_GROUPS},
            {"fit-top", WITH_ROUTERS},
            {"top", WITH_GROUPS "|temperature"}, /* 0 is window and sinks alone */
            {"scope", WITH_GROUPS},
            {"mode", WITH_GROUPS},
            {"gate", "focus"},
            {"balance", WITH_ROUTERS},
            {"init", WITH_ROUTERS},
            {"paper", WITH_ROUTERS},
            {"window", WITH_GROUPS "|temperature|none|scale"},
            {"sinks", WITH_GROUPS "|temperature|none|scale"},
            {"rank", "lora"},
            {"targets", "lora"},
            {"objective", THAT_LEARN},
            {"steps", THAT_LEARN},
            {"minutes", THAT_LEARN},
            {"lr", THAT_LEARN},
            {"length", THAT_LEARN "|start"},
            {"batch", THAT_LEARN},
            {"repeat", THAT_LEARN},
            {"special", THAT_LEARN "|start"}}; /* whose routers begin with the text */

static bool is_listed(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strcspn(at, "|") == length && strncmp(at, word, length) == 0) return true;
    return false;
}

int fit_method_check(const char *method, const char *option)
{
    for (size_t n = 0; n < CLI_COUNT(uses); n++)
        if (strcmp(uses[n].option, option) == 0 && !is_listed(uses[n].methods, method))
            return cli_wrong("fit: --%s does nothing with --method %s", option, method);
    return CLI_DONE;
}

/* Temperatures alone see all keys; with --top 0 only those of a window and sinks, in some layers.
 */
static int check_near(const char *option)
{
    static const char near[] = "top|window|sinks|layers";
    if (!is_listed(near, option)) return CLI_DONE;
    return cli_wrong("fit: --%s does nothing with --method temperature, but for --top 0", option);
}

int fit_method_check_all(const char *method, bool is_near, const fit_settings *settings)
{
    const bool sees_all = strcmp(method, "temperature") == 0 && !is_near;
    int code = CLI_DONE;
    for (int32_t n = 0; n < settings->count && code == CLI_DONE; n++) {
        const char *option = settings->items[n].option;
        if (!settings->items[n].is_given) continue;
        code = fit_method_check(method, option);
        if (code == CLI_DONE && sees_all) code = check_near(option);
    }
    return code;
}
