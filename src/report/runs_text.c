/* The numbers of a report of runs as tables for documents and as one JSON object. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "io/names.h"
#include "report/chart_svg.h"
#include "report/runs_page.h"

static void put(foci_page *page, const char *text)
{
    (void)fputs(text, page->file);
}

/* A cell of a table: a bar would end it. */
static void put_cell(foci_page *page, const char *text)
{
    for (; *text; text++) {
        if (*text == '|' || *text == '<' || *text == '\\') (void)fputc('\\', page->file);
        (void)fputc((unsigned char)*text < 0x20 ? ' ' : *text, page->file);
    }
}

static void put_number(foci_page *page, double value, int decimals)
{
    if (isnan(value))
        put(page, "-");
    else
        (void)fprintf(page->file, "%.*f", decimals, value);
}

static void put_mean(foci_page *page, const foci_spread *spread)
{
    put_number(page, spread->mean, 4);
    if (isnan(spread->deviation)) return;
    (void)fprintf(page->file, " ± %.4f (%.4f to %.4f)", spread->deviation, spread->least,
                  spread->most);
}

static void put_count(foci_page *page, double value)
{
    char text[FOCI_CHART_NUMBER];
    foci_chart_count(value, text);
    put(page, isnan(value) ? "-" : text);
}

static void put_comparison(foci_page *page, const foci_arm *arm, bool is_baseline)
{
    const foci_difference *difference = &arm->difference;
    if (is_baseline) {
        put(page, " | baseline | 100 %");
        return;
    }
    put(page, difference->mean > 0.0 ? " | +" : " | ");
    put_number(page, difference->mean, 4);
    if (!isnan(difference->half))
        (void)fprintf(page->file, " ± %.4f (%s, n %d)", difference->half,
                      difference->is_paired ? "paired" : "Welch", (int)difference->n);
    put(page, " | ");
    if (isnan(arm->reach_share))
        put(page, isnan(difference->mean) ? "-" : "not reached");
    else
        (void)fprintf(page->file, "%s%.1f %%", arm->reach_is_bound ? "at most " : "",
                      100.0 * arm->reach_share);
    if (arm->count > 1 && arm->seed_share.n > 0)
        (void)fprintf(page->file, " (%.1f to %.1f %%, %d of %d seeds)",
                      100.0 * arm->seed_share.least, 100.0 * arm->seed_share.most,
                      (int)arm->seed_share.n, (int)arm->count);
}

static void write_arms(foci_page *page, const foci_runs *runs)
{
    const bool has_baseline = runs->arm_count > 1;
    put(page, "| arm | seeds | parameters | tokens | validation loss");
    if (has_baseline) put(page, " | difference, 95 % | tokens to equal");
    put(page, " | perplexity | tokens/s | seconds |\n|---|---|---|---|---");
    if (has_baseline) put(page, "|---|---");
    put(page, "|---|---|---|\n");
    for (int32_t n = 0; n < runs->arm_count; n++) {
        const foci_arm *arm = &runs->arms[n];
        put(page, "| ");
        put_cell(page, arm->name);
        (void)fprintf(page->file, "%s | %d | ", arm->is_finished ? "" : " (not finished)",
                      (int)arm->count);
        put_count(page, arm->parameters);
        put(page, " | ");
        put_count(page, arm->tokens);
        put(page, " | ");
        put_mean(page, &arm->final);
        if (has_baseline) put_comparison(page, arm, arm->baseline == n);
        put(page, " | ");
        put_number(page, exp(arm->final.mean), 2);
        put(page, " | ");
        put_number(page, arm->speed, 0);
        put(page, " | ");
        put_number(page, arm->seconds, 0);
        put(page, " |\n");
    }
}

static void write_sizes(foci_page *page, const foci_runs *runs)
{
    if (runs->row_count == 0) return;
    put(page, "\n| baseline | its loss | arms | needed to equal it | share |\n"
              "|---|---|---|---|---|\n");
    for (int32_t n = 0; n < runs->row_count; n++) {
        const foci_size_row *row = &runs->rows[n];
        put(page, "| ");
        put_cell(page, runs->arms[row->baseline].name);
        (void)fprintf(page->file, " | %.4f | ", runs->arms[row->baseline].final.mean);
        put_cell(page, row->family);
        (void)fprintf(page->file, " | %s", foci_equal_text(row->kind));
        put_count(page, row->at);
        (void)fprintf(page->file, " %s | %s%.1f %% |\n",
                      row->axis == FOCI_AXIS_PARAMETERS ? "parameters" : "tokens",
                      foci_equal_text(row->kind), 100.0 * row->share);
    }
}

static void write_measures(foci_page *page, const foci_runs *runs)
{
    if (runs->kind_count == 0) return;
    put(page, "\n| arm | measure | length | value |\n|---|---|---|---|\n");
    for (int32_t k = 0; k < runs->kind_count; k++) {
        for (int32_t n = 0; n < runs->arm_count; n++) {
            const foci_spread spread = foci_arm_measure(runs, &runs->arms[n], &runs->kinds[k]);
            if (spread.n == 0) continue;
            put(page, "| ");
            put_cell(page, runs->arms[n].name);
            put(page, " | ");
            put_cell(page, runs->kinds[k].name);
            put(page, " | ");
            put_number(page, runs->kinds[k].length, 0);
            put(page, " | ");
            put_mean(page, &spread);
            put(page, " |\n");
        }
    }
}

void foci_runs_markdown(foci_page *page, const foci_runs *runs, const char *title)
{
    put(page, "## ");
    put_cell(page, title);
    put(page, "\n\n");
    write_arms(page, runs);
    write_sizes(page, runs);
    write_measures(page, runs);
    if (runs->notes.count > 0) put(page, "\nNot as it should be:\n\n");
    for (int32_t n = 0; n < runs->notes.count; n++) {
        put(page, "- ");
        put_cell(page, runs->notes.text[n]);
        put(page, "\n");
    }
    if (runs->notes.left_out > 0)
        (void)fprintf(page->file, "- and %d more\n", (int)runs->notes.left_out);
}

/* In quotes; what is no UTF-8 becomes U+FFFD. */
static void put_string(foci_page *page, const char *text)
{
    put(page, "\"");
    while (*text) {
        size_t bytes = 1;
        while (bytes < 4 && ((unsigned char)text[bytes] & 0xC0) == 0x80) bytes++;
        const bool is_plain = foci_text_is_plain((foci_text){text, bytes});
        if (*text == '"' || *text == '\\')
            (void)fprintf(page->file, "\\%c", *text);
        else if (is_plain)
            (void)fwrite(text, 1, bytes, page->file);
        else
            (void)fprintf(page->file, "\\u%04x",
                          (unsigned char)*text < 0x80 ? (unsigned char)*text : 0xFFFDU);
        text += is_plain ? bytes : 1;
    }
    put(page, "\"");
}

/* ,"name":value with all digits; null for what is not known. */
static void put_real(foci_page *page, const char *name, double value)
{
    if (isfinite(value))
        (void)fprintf(page->file, ",\"%s\":%.17g", name, value);
    else
        (void)fprintf(page->file, ",\"%s\":null", name);
}

static void put_text(foci_page *page, const char *name, const char *value)
{
    (void)fprintf(page->file, ",\"%s\":", name);
    put_string(page, value);
}

static void put_spread(foci_page *page, const char *name, const foci_spread *spread)
{
    (void)fprintf(page->file, ",\"%s\":{\"n\":%d", name, (int)spread->n);
    put_real(page, "mean", spread->mean);
    put_real(page, "deviation", spread->deviation);
    put_real(page, "least", spread->least);
    put_real(page, "most", spread->most);
    put(page, "}");
}

static void put_runs_of(foci_page *page, const foci_runs *runs, const foci_arm *arm)
{
    put(page, ",\"runs\":[");
    for (int32_t n = 0; n < arm->count; n++) {
        const foci_run_folder *run = foci_arm_run(runs, arm, n);
        (void)fprintf(page->file, "%s{\"seed\":%" PRId64, n > 0 ? "," : "", run->seed);
        put_text(page, "folder", run->path);
        put_real(page, "valid_loss", run->final);
        put_real(page, "tokens", run->tokens);
        put(page, "}");
    }
    put(page, "]");
}

static void put_arm(foci_page *page, const foci_runs *runs, int32_t n)
{
    const foci_arm *arm = &runs->arms[n];
    put(page, n > 0 ? ",\n {\"arm\":" : "\n {\"arm\":");
    put_string(page, arm->name);
    (void)fprintf(page->file, ",\"finished\":%s,\"settings\":{",
                  arm->is_finished ? "true" : "false");
    bool is_first = true;
    for (int key = 0; key < FOCI_RUN_KEYS; key++) {
        if (!runs->differs[key]) continue;
        (void)fprintf(page->file, "%s\"%s\":", is_first ? "" : ",", foci_run_keys[key].name);
        put_string(page, foci_arm_value(runs, n, key));
        is_first = false;
    }
    put(page, "}");
    put_runs_of(page, runs, arm);
    put_real(page, "parameters", arm->parameters);
    put_real(page, "tokens", arm->tokens);
    put_spread(page, "valid_loss", &arm->final);
    put_real(page, "perplexity", exp(arm->final.mean));
    put_real(page, "tokens_per_second", arm->speed);
    put_real(page, "seconds", arm->seconds);
    if (arm->baseline >= 0) put_text(page, "baseline", runs->arms[arm->baseline].name);
    if (arm->baseline >= 0 && arm->baseline != n) {
        const foci_difference *difference = &arm->difference;
        (void)fprintf(page->file, ",\"difference\":{\"n\":%d,\"paired\":%s", (int)difference->n,
                      difference->is_paired ? "true" : "false");
        put_real(page, "mean", difference->mean);
        put_real(page, "half_95", difference->half);
        (void)fprintf(page->file, "},\"reach_is_bound\":%s",
                      arm->reach_is_bound ? "true" : "false");
        put_real(page, "reach_share", arm->reach_share);
        put_spread(page, "reach_share_by_seed", &arm->seed_share);
    }
    put(page, "}");
}

static void put_sizes(foci_page *page, const foci_runs *runs)
{
    static const char *const kinds[] = {[FOCI_EQUAL_AT] = "at",
                                        [FOCI_EQUAL_SMALLER] = "at most",
                                        [FOCI_EQUAL_LARGER] = "more than"};
    put(page, "\n],\n\"sizes\":[");
    for (int32_t n = 0; n < runs->row_count; n++) {
        const foci_size_row *row = &runs->rows[n];
        (void)fprintf(page->file, "%s\n {\"axis\":\"%s\"", n > 0 ? "," : "",
                      row->axis == FOCI_AXIS_PARAMETERS ? "parameters" : "tokens");
        put_text(page, "baseline", runs->arms[row->baseline].name);
        put_text(page, "arms", row->family);
        put_text(page, "needed", kinds[row->kind]);
        put_real(page, "size", row->at);
        put_real(page, "share", row->share);
        put(page, "}");
    }
}

static void put_measures(foci_page *page, const foci_runs *runs)
{
    bool is_first = true;
    put(page, "\n],\n\"measures\":[");
    for (int32_t k = 0; k < runs->kind_count; k++) {
        for (int32_t n = 0; n < runs->arm_count; n++) {
            const foci_spread spread = foci_arm_measure(runs, &runs->arms[n], &runs->kinds[k]);
            if (spread.n == 0) continue;
            put(page, is_first ? "\n {\"measure\":" : ",\n {\"measure\":");
            is_first = false;
            put_string(page, runs->kinds[k].name);
            put_text(page, "arm", runs->arms[n].name);
            put_real(page, "length", runs->kinds[k].length);
            put_spread(page, "value", &spread);
            put(page, "}");
        }
    }
}

void foci_runs_json(foci_page *page, const foci_runs *runs, const char *title)
{
    put(page, "{\"title\":");
    put_string(page, title);
    (void)fprintf(page->file, ",\"run_count\":%d,\n\"arms\":[", (int)runs->run_count);
    for (int32_t n = 0; n < runs->arm_count; n++) put_arm(page, runs, n);
    put_sizes(page, runs);
    put_measures(page, runs);
    put(page, "\n],\n\"notes\":[");
    for (int32_t n = 0; n < runs->notes.count; n++) {
        put(page, n > 0 ? ",\n " : "\n ");
        put_string(page, runs->notes.text[n]);
    }
    (void)fprintf(page->file, "\n],\"notes_left_out\":%d}\n", (int)runs->notes.left_out);
}
