/* Words of llama.cpp's command lines. */
#include "llama_words.h"

#include <string.h>

#include "cli.h"

typedef struct word_meaning {
    const char *word, *meaning;
} word_meaning;

static const word_meaning synonyms[] = {
    {"--n-predict", "predict"},
    {"--temperature", "temp"},
    {"--reverse-prompt", "stop"},
    {"--system-prompt", "system"},
    {"-sys", "system"},
    {"-ngl", "n-gpu-layers"},
    {"--gpu-layers", "n-gpu-layers"},
    {"-ctk", "cache-type-k"},
    {"-ctv", "cache-type-v"},
    {"-fa", "flash-attn"},
};

static const char no_gpu[] = "this build has no GPU kernels";
static const char one_batch[] = "-b is the only size of a batch";
static const char one_pool[] = "-t is for prompts and single tokens alike";
static const char see_chat[] = "focal chat is for conversations";

static const word_meaning absences[] = {
    {"--no-mmap", "say --load yes"},
    {"--mmap", "say --load no"},
    {"--mlock", "models are mapped, and the system keeps what is read in memory as long as it can"},
    {"-ub", one_batch},
    {"--ubatch-size", one_batch},
    {"-tb", one_pool},
    {"--threads-batch", one_pool},
    {"-cnv", see_chat},
    {"--conversation", see_chat},
    {"-ngl", no_gpu}, /* where the option is not */
    {"--n-gpu-layers", no_gpu},
    {"--gpu-layers", no_gpu},
    {"-sm", no_gpu},
    {"--split-mode", no_gpu},
    {"-ts", no_gpu},
    {"--tensor-split", no_gpu},
    {"--main-gpu", no_gpu},
    {"-dev", no_gpu},
    {"--device", no_gpu},
};

static const char *find(const word_meaning *list, size_t count, const char *word, size_t length)
{
    for (size_t n = 0; n < count; n++)
        if (strlen(list[n].word) == length && strncmp(list[n].word, word, length) == 0)
            return list[n].meaning;
    return NULL;
}

const char *llama_synonym(const char *word, size_t length)
{
    return find(synonyms, CLI_COUNT(synonyms), word, length);
}

const char *llama_absence(const char *word, size_t length)
{
    return find(absences, CLI_COUNT(absences), word, length);
}

void llama_options(llama_choice *choice, cli_option *options)
{
    const cli_option rows[LLAMA_OPTIONS] = {
        {.name = "n-gpu-layers", .kind = CLI_TEXT, .target = &choice->gpu_layers, .value = "N"},
        {.name = "cache-type-k", .kind = CLI_TEXT, .target = &choice->keys, .value = "TYPE"},
        {.name = "cache-type-v", .kind = CLI_TEXT, .target = &choice->values, .value = "TYPE"},
        {.name = "flash-attn", .kind = CLI_SWITCH, .target = &choice->has_flash, .value = "on"},
    };
    *choice = (llama_choice){.has_flash = true};
    for (int n = 0; n < LLAMA_OPTIONS; n++) options[n] = rows[n];
}

int llama_apply(const char *command, const llama_choice *c, model_choice *model)
{
    if (c->gpu_layers && strcmp(c->gpu_layers, "0") != 0)
        return cli_wrong("%s: %s layers on a GPU: this build has no GPU kernels; leave "
                         "--n-gpu-layers out, or say 0",
                         command, c->gpu_layers);
    if (!c->has_flash)
        return cli_wrong("%s: --flash-attn off: there is no other attention here", command);
    if (!c->keys && !c->values) return -1;
    if (!c->keys || !c->values || strcmp(c->keys, c->values) != 0)
        return cli_wrong("%s: keys are to be kept as %s and values as %s: both have one type here, "
                         "--cache-type",
                         command, c->keys ? c->keys : "f16", c->values ? c->values : "f16");
    if (model->cache_type > 0)
        return cli_wrong("%s: --cache-type does not go together with --cache-type-k", command);
    return cli_cache_type(command, c->keys, model);
}
