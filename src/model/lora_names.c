/* Names of LoRA's tensors: peft's prefix, the module's name in the model, and which of the two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/lora_files.h"
#include "model/low_rank_model.h"

static const char prefix[] = "base_model.model.";

static foci_weight_names names_of(foci_lora_names names)
{
    const foci_config config = {.family =
                                    foci_family_of_hf(names == FOCI_LORA_GPT2 ? "gpt2" : "llama")};
    return foci_weight_names_hf(&config);
}

const char *foci_lora_part(foci_lora_names names, foci_linear_place place)
{
    const foci_weight_names all = names_of(names);
    return foci_weight_names_part(&all, place);
}

void foci_lora_tensor_name(foci_lora_names names, int32_t layer, foci_linear_place place, bool is_b,
                           char name[FOCI_ADAPTER_NAME_BYTES])
{
    const foci_weight_names all = names_of(names);
    (void)snprintf(name, FOCI_ADAPTER_NAME_BYTES, "%s%s%d.%s.lora_%c.weight", prefix, all.layer,
                   layer, foci_weight_names_part(&all, place), is_b ? 'B' : 'A');
}

/* The number behind the layers' name; -1: it is another. */
static int32_t layer_of(const char *name, const foci_weight_names *names)
{
    const size_t length = strlen(names->layer);
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return -1;
    name += sizeof prefix - 1;
    if (strncmp(name, names->layer, length) != 0) return -1;
    const long number = strtol(name + length, NULL, 10);
    return number >= 0 && number < FOCI_MAX_LAYERS ? (int32_t)number : -1;
}

bool foci_lora_tensor_place(const char *name, foci_lora_names *names, int32_t *layer,
                            foci_linear_place *place, bool *is_b)
{
    char expected[FOCI_ADAPTER_NAME_BYTES];
    for (int kind = 0; kind < FOCI_LORA_NAMES; kind++) {
        *names = (foci_lora_names)kind;
        const foci_weight_names all = names_of(*names);
        *layer = layer_of(name, &all);
        if (*layer < 0) continue;
        for (int n = 0; n < 2 * FOCI_LINEAR_PLACES; n++) {
            *place = (foci_linear_place)(n / 2);
            *is_b = n % 2 == 1;
            if (!foci_weight_names_part(&all, *place)) continue;
            foci_lora_tensor_name(*names, *layer, *place, *is_b, expected);
            if (strcmp(name, expected) == 0) return true;
        }
    }
    return false;
}
