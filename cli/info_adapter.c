/* What an adapter is: everything that its files say, and nothing of the model that it is for. */
#include "info_adapter.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "info_lines.h"
#include "model_file.h"

bool info_is_adapter(const char *path)
{
    char config[CLI_PATH_BYTES];
    struct stat info;
    const int length = snprintf(config, sizeof config, "%s/adapter_config.json", path);
    return length > 0 && (size_t)length < sizeof config && stat(config, &info) == 0;
}

static bool is_lora(const focal_adapter_info *a)
{
    return strcmp(a->kind, "lora") == 0;
}

static bool has_routers(const focal_adapter_info *a)
{
    return strcmp(a->form, "unit") == 0 || strcmp(a->form, "raw") == 0;
}

static void print_lora_lines(const focal_adapter_info *a)
{
    printf("%-12s rank %d, alpha %g, so times %.6g\n", "LoRA", a->rank, a->alpha, a->scale);
    printf("%-12s %s, in %d layers\n", "added to", a->targets, a->layers);
}

/* Only routers that have learned were fitted with a number of groups. */
static void print_top_line(const focal_adapter_info *a)
{
    if (a->top == 0) {
        printf("%-12s no group: window and first keys alone\n", "top");
        return;
    }
    printf("%-12s %d of %d groups a query", "top", a->top, a->groups);
    if (has_routers(a) && a->steps == 0)
        printf(", untrained");
    else if (has_routers(a))
        printf(", fitted with %d", a->top_fit);
    putchar('\n');
}

/* What tokens see with groups. */
static void print_router_lines(const focal_adapter_info *a)
{
    printf("%-12s %d, %s, scope %s\n", "groups", a->groups, a->mode, a->scope);
    if (strcmp(a->form, "random") == 0)
        printf("%-12s none, groups are random, in %d of %d layers\n", "router", a->layers, a->L);
    else
        printf("%-12s width %d, %s, in %d of %d layers\n", "router", a->width, a->form, a->layers,
               a->L);
    print_top_line(a);
    printf("%-12s %d keys before the own one, and the first %d\n", "window", a->window, a->sinks);
}

/* And without. */
static void print_near_lines(const focal_adapter_info *a)
{
    printf("%-12s none\n", "groups");
    if (strcmp(a->form, "scale") == 0)
        printf("%-12s %.6g, of logits beyond the window and the first keys\n", "scale",
               a->distant_scale);
    if (a->layers == 0)
        printf("%-12s none: all keys are seen\n", "window");
    else
        printf("%-12s %d keys before the own one, and the first %d, in %d of %d layers\n", "window",
               a->window, a->sinks, a->layers, a->L);
}

static void print_group_lines(const focal_adapter_info *a)
{
    printf("%-12s %d layers, width %d, %d query heads on %d key heads\n", "model", a->L, a->C, a->H,
           a->G);
    if (strcmp(a->form, "none") == 0 || strcmp(a->form, "scale") == 0)
        print_near_lines(a);
    else
        print_router_lines(a);
    printf("%-12s %s\n", "temperatures", a->has_temperatures ? "one a head" : "none");
    if (has_routers(a))
        printf("%-12s %s\n", "balance", a->is_causal ? "causal" : "over whole texts: not causal");
}

static void print_lines(const focal_adapter_info *a)
{
    char text[32];
    info_text_line("file", a->path);
    info_text_line("format", "adapter");
    info_text_line("base", a->base);
    info_text_line("fingerprint", a->fingerprint);
    if (*a->version) printf("%-12s focal %s\n", "written by", a->version);
    if (is_lora(a))
        print_lora_lines(a);
    else
        print_group_lines(a);
    printf("%-12s %s (%s)\n", "parameters", info_in_millions(a->parameter_count, text, sizeof text),
           focal_dtype_name(a->dtype));
    info_text_line("fit", a->settings);
}

static void print_lora_json(const focal_adapter_info *a)
{
    info_json_field("targets", a->targets);
    printf("\"rank\": %d, \"alpha\": %.9g, \"scale\": %.9g, \"lora_layers\": %d, ", a->rank,
           a->alpha, a->scale, a->layers);
}

static void print_group_json(const focal_adapter_info *a)
{
    info_json_field("mode", a->mode);
    info_json_field("scope", a->scope);
    info_json_field("router_form", a->form);
    printf("\"groups\": %d, \"router_width\": %d, \"top\": %d, \"top_fit\": %d, \"window\": %d, "
           "\"sinks\": %d, \"router_layers\": %d, ",
           a->groups, a->width, a->top, a->top_fit, a->window, a->sinks, a->layers);
    printf("\"layers\": %d, \"width\": %d, \"heads\": %d, \"kv_heads\": %d, ", a->L, a->C, a->H,
           a->G);
    if (strcmp(a->form, "scale") == 0) printf("\"distant_scale\": %.9g, ", a->distant_scale);
    printf("\"has_temperatures\": %s, \"is_causal\": %s, ", a->has_temperatures ? "true" : "false",
           a->is_causal ? "true" : "false");
}

static void print_json(const focal_adapter_info *a)
{
    putchar('{');
    info_json_field("path", a->path);
    info_json_field("format", "adapter");
    info_json_field("base", a->base);
    info_json_field("fingerprint", a->fingerprint);
    info_json_field("version", a->version);
    info_json_field("kind", a->kind);
    if (is_lora(a))
        print_lora_json(a);
    else
        print_group_json(a);
    printf("\"parameters\": %lld, \"type\": \"%s\", \"fit\": %s}\n", (long long)a->parameter_count,
           focal_dtype_name(a->dtype), a->settings);
}

void info_print_adapter(const focal_adapter *adapter, bool is_json)
{
    const focal_adapter_info info = focal_adapter_describe(adapter);
    if (is_json)
        print_json(&info);
    else
        print_lines(&info);
}
