/* The page of adapters: what they lose, what they gain, what is in their groups, what they are. */
#include "report/fits_page.h"

#include <math.h>
#include <string.h>

#include "report/chart_svg.h"

static const char style[] =
    "table{font-size:.92rem}th,td{padding:.32rem .6rem}.scroll+p{margin-top:.8rem}"
    ".key{width:1.9rem;height:.65rem;flex:none}th .legend{margin:0;font-size:1em}"
    "tr.head th{text-align:left;padding-top:.9rem;white-space:normal}tr.own>*{font-weight:600}"
    "tr.head small{font-weight:400;padding-left:2.35rem;display:block}\n"
    ".tokens td{white-space:normal;text-align:left;vertical-align:top}"
    ".tokens td:nth-child(2){text-align:right;white-space:nowrap}"
    ".tokens code{display:inline-block;background:var(--page);border:1px solid var(--line);"
    "border-radius:5px;padding:0 .35rem;margin:.1rem .25rem .1rem 0;white-space:pre-wrap;"
    "font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}\n"
    ".cell{fill:var(--c0)}.sizes{margin:.4rem 0 .2rem}.sizes text{font-size:12px}\n";

enum { TEXT_COLUMNS = 6 };

static void put(foci_page *page, const char *html)
{
    (void)fputs(html, page->file);
}

static void put_signed(foci_page *page, double value, int decimals)
{
    /* What rounds to 0 has no sign. */
    if (fabs(value) < 0.5 * pow(10.0, -decimals)) value = 0.0;
    if (value > 0.0) put(page, "+");
    foci_page_number(page, value, decimals);
}

/* As the table of focal eval groups has it. */
static void name_setting(const foci_fit_setting *setting, char *out, size_t room)
{
    static const char *const names[FOCI_FIT_KINDS] = {"dense", "", "temperatures",
                                                      "with the adapter"};
    if (setting->kind != FOCI_FIT_TOP)
        (void)snprintf(out, room, "%s", names[setting->kind]);
    else if (setting->top == 0)
        (void)snprintf(out, room, "window and sinks");
    else
        (void)snprintf(out, room, "%d group%s", setting->top, setting->top > 1 ? "s" : "");
}

static void write_notes(foci_page *page, const foci_fits *fits)
{
    if (fits->notes.count == 0) return;
    put(page, "<section class=\"note\"><h2>Not as it should be</h2>\n<ul>\n");
    for (int32_t n = 0; n < fits->notes.count; n++) {
        put(page, "<li>");
        foci_page_text(page, fits->notes.text[n]);
        put(page, "</li>\n");
    }
    if (fits->notes.left_out > 0)
        (void)fprintf(page->file, "<li>and %d more</li>\n", (int)fits->notes.left_out);
    put(page, "</ul></section>\n");
}

/* ---- Numbers ---- */

/* The first measure, where all have its texts and these are few and several: they get columns. */
static const foci_fit_measure *columns_of(const foci_fits *fits)
{
    const foci_fit_measure *first = NULL;
    for (int32_t n = 0; n < fits->count; n++) {
        const foci_fit_measure *m = fits->fits[n]->measure;
        if (m && !first) first = m;
        if (m && !foci_fit_texts_equal(first, m)) return NULL;
    }
    return first && first->text_count > 1 && first->text_count <= TEXT_COLUMNS ? first : NULL;
}

static void write_setting(foci_page *page, const foci_fit *fit, int32_t n,
                          const foci_fit_measure *columns)
{
    const foci_fit_setting *s = &fit->measure->settings[n], *dense = &fit->measure->settings[0];
    const bool is_own =
        s->kind == FOCI_FIT_ADAPTER || (s->kind == FOCI_FIT_TOP && s->top == fit->top);
    char name[64];
    name_setting(s, name, sizeof name);
    (void)fprintf(page->file, "<tr%s><th scope=\"row\">%s</th><td>", is_own ? " class=\"own\"" : "",
                  name);
    foci_page_number(page, 100.0 * s->kept, 1);
    put(page, "</td><td>");
    foci_page_number(page, s->loss, 4);
    put(page, "</td><td>");
    put_signed(page, s->loss - dense->loss, 4);
    for (int32_t text = 0; columns && text < columns->text_count; text++) {
        put(page, "</td><td>");
        put_signed(page, s->losses[text] - dense->losses[text], 4);
    }
    put(page, "</td><td>");
    foci_page_number(page, s->speed, 0);
    put(page, "</td><td>");
    foci_page_number(page, s->speed / dense->speed, 2);
    put(page, "</td></tr>\n");
}

static void write_adapter_rows(foci_page *page, const foci_fits *fits, int32_t n,
                               const foci_fit_measure *columns)
{
    const foci_fit *fit = fits->fits[n];
    const foci_fit_measure *m = fit->measure;
    (void)fprintf(page->file,
                  "<tbody><tr class=\"head\"><th colspan=\"%d\" scope=\"rowgroup\">"
                  "<ul class=\"legend\">\n",
                  6 + (columns ? columns->text_count : 0));
    foci_svg_legend(page, fit->label, n, foci_fit_is_point(m));
    put(page, "</ul><small>");
    foci_page_text(page, fit->name);
    put(page, " on ");
    foci_page_text(page, m->model);
    for (int32_t text = 0; text < m->text_count; text++) {
        const long long tokens = (long long)m->tokens[text] + 1; /* the first is not scored */
        put(page, text > 0 ? ", " : ": ");
        foci_page_text(page, m->names[text]);
        (void)fprintf(page->file, tokens < m->context ? " (all %lld tokens)" : " (%lld tokens)",
                      tokens);
    }
    put(page, "</small></th></tr>\n");
    for (int32_t i = 0; i < m->setting_count; i++) write_setting(page, fit, i, columns);
    put(page, "</tbody>\n");
}

static void write_table(foci_page *page, const foci_fits *fits)
{
    const foci_fit_measure *columns = columns_of(fits);
    bool has_any = false;
    for (int32_t n = 0; n < fits->count; n++) has_any |= fits->fits[n]->measure != NULL;
    if (!has_any) return;
    put(page, "<section><h2>All numbers</h2>\n<div class=\"scroll\"><table>\n<thead><tr>"
              "<th scope=\"col\">looks into</th><th scope=\"col\">pairs (%)</th>"
              "<th scope=\"col\">loss</th><th scope=\"col\">beyond dense</th>");
    for (int32_t text = 0; columns && text < columns->text_count; text++) {
        put(page, "<th scope=\"col\">");
        foci_page_text(page, columns->names[text]);
        put(page, "</th>");
    }
    put(page, "<th scope=\"col\">tokens/s</th><th scope=\"col\">times dense</th></tr></thead>\n");
    for (int32_t n = 0; n < fits->count; n++)
        if (fits->fits[n]->measure) write_adapter_rows(page, fits, n, columns);
    put(page, "</table></div>\n<p class=\"soft\">Loss in nats a token, over all tokens of the "
              "texts; beyond dense: what is lost to the model as it is, in the same run");
    put(page, columns ? ", and the same for each text. " : ". ");
    put(page, "Pairs: the measured share of the distant pairs (beyond window and sinks) that "
              "layers with a router look at. Bold is what the adapter runs with. Speed: median of "
              "the timed readings of the first text as a prompt. Temperatures: all keys, "
              "with the adapter&#39;s temperature of each head.</p></section>\n");
}

/* ---- Groups ---- */

static void write_sizes(foci_page *page, const foci_fits *fits)
{
    bool has_begun = false;
    for (int32_t n = 0; n < fits->count; n++) {
        const foci_fit_measure *m = fits->fits[n]->measure;
        if (!m || m->size_count == 0) continue;
        if (!has_begun)
            put(page,
                "<section><h2>Sizes of the groups</h2>\n<p class=\"soft\">A row is a layer, a cell "
                "a group, the fullest first: the stronger its colour, the larger its "
                "share of the text&#39;s keys (shared groups: of memberships, as a key is in "
                "several), up to four times an even share. Even groups make an even row.</p>\n");
        has_begun = true;
        put(page, "<h3>");
        foci_page_text(page, fits->fits[n]->label);
        put(page, "</h3>\n");
        foci_svg_sizes(page, m, n);
    }
    if (has_begun) put(page, "</section>\n");
}

/* A token with its spaces and ends of lines to be seen. */
static void put_token(foci_page *page, const foci_fit_token *token)
{
    char text[3 * FOCI_FIT_NAME + 1];
    size_t used = 0;
    for (const char *c = token->text; *c; c++) {
        const char *shown = *c == ' '    ? "\xE2\x90\xA3"
                            : *c == '\n' ? "\xE2\x86\xB5"
                            : *c == '\t' ? "\xE2\x87\xA5"
                                         : NULL;
        const size_t bytes = shown ? 3 : 1;
        memcpy(text + used, shown ? shown : c, bytes);
        used += bytes;
    }
    text[used] = '\0';
    (void)fprintf(page->file, "<code title=\"%lld of %lld\">", (long long)token->here,
                  (long long)token->all);
    foci_page_text(page, text);
    put(page, "</code>");
}

static double share_of(const foci_fit_measure *m, const foci_fit_typical *typical, int32_t c)
{
    for (int32_t n = 0; n < m->size_count; n++)
        if (m->sizes[n].layer == typical->layer && m->sizes[n].router == typical->router)
            return m->sizes[n].shares[c];
    return (double)NAN;
}

static void write_typical_layer(foci_page *page, const foci_fit_measure *m, int32_t n, bool is_open)
{
    const foci_fit_typical *typical = &m->typical[n];
    (void)fprintf(page->file,
                  "<details%s><summary>layer %d, router %d</summary>\n<div class=\"scroll\"><table "
                  "class=\"tokens\"><thead><tr><th scope=\"col\">group</th><th scope=\"col\">share "
                  "(%%)</th><th scope=\"col\" class=\"left\">typical tokens</th></tr></thead>\n"
                  "<tbody>\n",
                  is_open ? " open" : "", typical->layer, typical->router);
    for (int32_t c = 0; c < m->K; c++) {
        (void)fprintf(page->file, "<tr><th scope=\"row\">%d</th><td>", c);
        foci_page_number(page, 100.0 * share_of(m, typical, c), 1);
        put(page, "</td><td>");
        for (int32_t i = 0; i < typical->groups[c].count; i++)
            put_token(page, &typical->groups[c].tokens[i]);
        put(page, "</td></tr>\n");
    }
    put(page, "</tbody></table></div></details>\n");
}

static void write_typical(foci_page *page, const foci_fits *fits)
{
    bool has_begun = false;
    for (int32_t n = 0; n < fits->count; n++) {
        const foci_fit_measure *m = fits->fits[n]->measure;
        if (!m || m->typical_count == 0) continue;
        if (!has_begun)
            put(page,
                "<section><h2>What the groups hold</h2>\n<p class=\"soft\">The tokens v whose keys "
                "are in a group c more often than elsewhere: those with the largest p(v|c) "
                "log(p(v|c)/p(v)), of which the divergence of the group&#39;s tokens from the "
                "text&#39;s is the sum. Point at one to see how many of its occurrences are in the "
                "group. &#9251; is a space, &#8629; the end of a line.</p>\n");
        put(page, "<h3>");
        foci_page_text(page, fits->fits[n]->label);
        (void)fprintf(page->file, " <small>looking into %d</small></h3>\n", (int)m->groups_top);
        for (int32_t i = 0; i < m->typical_count; i++)
            write_typical_layer(page, m, i, !has_begun && i == 0);
        has_begun = true;
    }
    if (has_begun) put(page, "</section>\n");
}

/* ---- What they are ---- */

/* Cells of what an adapter of its kind has, else dashes. */
static void put_counts(foci_page *page, const int32_t *counts, int cells, bool is_there)
{
    for (int n = 0; n < cells; n++) {
        if (is_there)
            (void)fprintf(page->file, "<td>%d</td>", counts[n]);
        else
            put(page, "<td>&ndash;</td>");
    }
}

static void write_adapters(foci_page *page, const foci_fits *fits)
{
    put(page, "<section><h2>The adapters</h2>\n<div class=\"scroll\"><table>\n<thead><tr>"
              "<th scope=\"col\">folder</th><th scope=\"col\" class=\"left\">what it is</th>"
              "<th scope=\"col\" class=\"left\">model</th><th scope=\"col\">layers</th>"
              "<th scope=\"col\">groups</th><th scope=\"col\">runs with</th>"
              "<th scope=\"col\">fitted with</th><th scope=\"col\">window</th>"
              "<th scope=\"col\">sinks</th><th scope=\"col\">parameters</th></tr></thead>\n"
              "<tbody>\n");
    for (int32_t n = 0; n < fits->count; n++) {
        const foci_fit *fit = fits->fits[n];
        char parameters[FOCI_CHART_NUMBER];
        foci_chart_count((double)fit->parameters, parameters);
        put(page, "<tr><th scope=\"row\">");
        foci_page_text(page, fit->name);
        put(page, "</th><td class=\"left\">");
        foci_page_text(page, fit->label);
        put(page, "</td><td class=\"left\">");
        foci_page_text(page, fit->base);
        (void)fprintf(page->file, "</td><td>%d</td>", fit->layers);
        const bool has_window = !fit->is_lora && fit->layers > 0;
        const bool has_router =
            has_window && strcmp(fit->form, "scale") != 0 && strcmp(fit->form, "none") != 0;
        const bool is_fitted = has_router && strcmp(fit->form, "random") != 0 && fit->steps != 0;
        put_counts(page, (const int32_t[]){fit->groups, fit->top}, 2, has_router);
        put_counts(page, (const int32_t[]){fit->top_fit}, 1, is_fitted);
        put_counts(page, (const int32_t[]){fit->window, fit->sinks}, 2, has_window);
        (void)fprintf(page->file, "<td>%s</td></tr>\n", parameters);
    }
    put(page, "</tbody></table></div></section>\n");
}

void foci_fits_html(foci_page *page, const foci_fits *fits, const char *title)
{
    char subtitle[128];
    int32_t measured = 0;
    for (int32_t n = 0; n < fits->count; n++) measured += fits->fits[n]->measure != NULL;
    (void)snprintf(subtitle, sizeof subtitle, "%d adapter%s, %d of them measured", fits->count,
                   fits->count == 1 ? "" : "s", measured);
    foci_page_begin(page, title, subtitle, foci_chart_style, style);
    write_notes(page, fits);
    foci_fits_loss_chart(page, fits);
    foci_fits_speed_chart(page, fits);
    write_table(page, fits);
    foci_fits_curves(page, fits);
    write_sizes(page, fits);
    write_typical(page, fits);
    write_adapters(page, fits);
    foci_fits_again(page, fits);
    foci_page_end(page);
}
