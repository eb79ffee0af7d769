/* What a model is: everything that opening it has found out, and nothing that takes longer. */
#include "info_model.h"

#include <stdio.h>

#include "cli.h"
#include "info_lines.h"
#include "json_text.h"

static void print_types(const focal_model_info *info)
{
    char text[32];
    const char *between = "";
    for (size_t n = 0; n < CLI_COUNT(info->type_count); n++) {
        if (info->type_count[n] == 0) continue;
        printf("%s%s %s", between, info_in_millions(info->type_count[n], text, sizeof text),
               focal_dtype_name((focal_dtype)n));
        between = ", ";
    }
}

static void print_token(const char *name, const focal_tokenizer *tokenizer, int32_t id)
{
    if (id < 0) return;
    const focal_token token = focal_tokenizer_token(tokenizer, id);
    printf(", %s %d ", name, id);
    json_print_text(token.bytes, token.byte_count);
}

static void print_tokenizer(const focal_tokenizer *tokenizer)
{
    printf("%-12s ", "tokenizer");
    if (!tokenizer) {
        printf("none\n");
        return;
    }
    const focal_special_ids special = focal_tokenizer_special(tokenizer);
    printf("%d tokens", focal_tokenizer_size(tokenizer));
    print_token(special.add_bos ? "begin (added)" : "begin", tokenizer, special.bos);
    print_token(special.add_eos ? "end (added)" : "end", tokenizer, special.eos);
    if (special.eot != special.eos) print_token("end of turn", tokenizer, special.eot);
    putchar('\n');
}

static void print_lines(const focal_model *model, const focal_model_info *info)
{
    char text[32];
    info_text_line("file", info->path);
    info_text_line("format", info->format);
    info_text_line("family", info->family);
    info_text_line("name", info->name);
    info_text_line("licence", info->licence);
    printf("%-12s %s (", "parameters", info_in_millions(info->parameter_count, text, sizeof text));
    print_types(info);
    printf(")%s\n", info->is_tied ? ", embedding and head are one" : "");
    printf("%-12s %.1f MB\n", "weights", (double)info->weight_bytes / 1e6);
    printf("%-12s %d layers, width %d, feed-forward %d\n", "shape", info->L, info->C, info->F);
    printf("%-12s %d query heads on %d key heads, %d wide\n", "attention", info->H, info->G,
           info->D);
    printf("%-12s %d tokens\n", "context", info->context);
    if (info->window_layers > 0)
        printf("%-12s %d keys before the own one, in %d of %d layers\n", "window", info->window,
               info->window_layers, info->L);
    info_text_line("temperature", info->temperature);
    print_tokenizer(focal_model_tokenizer(model));
    printf("%-12s %s\n", "chat", focal_model_template(model, NULL) ? "has a template" : "no");
    printf("%-12s %s\n", "precision", focal_dtype_name(info->precision));
    printf("%-12s %s\n", "fingerprint", focal_model_fingerprint(model));
}

static void json_tokenizer(const focal_tokenizer *tokenizer)
{
    printf("\"tokenizer\": ");
    if (!tokenizer) {
        printf("null");
        return;
    }
    const focal_special_ids special = focal_tokenizer_special(tokenizer);
    printf("{\"size\": %d, \"bos\": %d, \"eos\": %d, \"eot\": %d, \"add_bos\": %s, "
           "\"add_eos\": %s}",
           focal_tokenizer_size(tokenizer), special.bos, special.eos, special.eot,
           special.add_bos ? "true" : "false", special.add_eos ? "true" : "false");
}

static void print_json(const focal_model *model, const focal_model_info *info)
{
    putchar('{');
    info_json_field("path", info->path);
    info_json_field("format", info->format);
    info_json_field("family", info->family);
    info_json_field("name", info->name);
    info_json_field("licence", info->licence);
    if (*info->temperature) info_json_field("temperature", info->temperature);
    printf("\"layers\": %d, \"width\": %d, \"heads\": %d, \"kv_heads\": %d, \"head_width\": %d, "
           "\"hidden\": %d, \"vocabulary\": %d, \"context\": %d, \"window\": %d, "
           "\"window_layers\": %d, \"is_tied\": %s, ",
           info->L, info->C, info->H, info->G, info->D, info->F, info->V, info->context,
           info->window, info->window_layers, info->is_tied ? "true" : "false");
    printf("\"parameters\": %lld, \"weight_bytes\": %lld, \"types\": {",
           (long long)info->parameter_count, (long long)info->weight_bytes);
    const char *between = "";
    for (size_t n = 0; n < CLI_COUNT(info->type_count); n++) {
        if (info->type_count[n] == 0) continue;
        printf("%s\"%s\": %lld", between, focal_dtype_name((focal_dtype)n),
               (long long)info->type_count[n]);
        between = ", ";
    }
    printf("}, ");
    json_tokenizer(focal_model_tokenizer(model));
    printf(", \"has_template\": %s, ", focal_model_template(model, NULL) ? "true" : "false");
    printf("\"precision\": \"%s\", \"fingerprint\": \"%s\"}\n", focal_dtype_name(info->precision),
           focal_model_fingerprint(model));
}

void info_print_model(const focal_model *model, bool is_json)
{
    const focal_model_info info = focal_model_describe(model);
    if (is_json)
        print_json(model, &info);
    else
        print_lines(model, &info);
}
