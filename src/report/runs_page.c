/* The page of runs: what differs, what came out, with which spread, and how to make it again. */
#include "report/runs_page.h"

#include <math.h>
#include <string.h>

#include "report/chart_svg.h"

static const char style[] =
    "table{font-size:.92rem}th,td{padding:.4rem .4rem}.scroll+p{margin-top:.8rem}"
    "td small{display:block;line-height:1.2}"
    ".key{width:1.9rem;height:.65rem;flex:none}tr.base td,tr.base th{font-weight:600}"
    "tbody th .legend{margin:0;font-size:1em}\n"
    "pre.wrap{white-space:pre-wrap}section>svg{margin-top:.8rem}"
    ".small{max-width:58rem;margin:.6rem auto 0}\n";

static void put(foci_page *page, const char *html)
{
    (void)fputs(html, page->file);
}

static void put_count(foci_page *page, double value)
{
    char text[FOCI_CHART_NUMBER];
    foci_chart_count(value, text);
    put(page, isnan(value) ? "&ndash;" : text);
}

static void put_mean(foci_page *page, const foci_spread *spread, int decimals)
{
    foci_page_number(page, spread->mean, decimals);
    if (isnan(spread->deviation)) return;
    put(page, " &plusmn; ");
    foci_page_number(page, spread->deviation, decimals);
    put(page, "<small>");
    foci_page_number(page, spread->least, decimals);
    put(page, " to ");
    foci_page_number(page, spread->most, decimals);
    put(page, "</small>");
}

static void put_difference(foci_page *page, const foci_difference *difference)
{
    if (difference->mean > 0.0) put(page, "+");
    foci_page_number(page, difference->mean, 4);
    if (isnan(difference->mean)) return;
    if (isnan(difference->half)) {
        (void)fprintf(page->file, "<small>no interval, n %d</small>", (int)difference->n);
        return;
    }
    put(page, " &plusmn; ");
    foci_page_number(page, difference->half, 4);
    (void)fprintf(page->file, "<small>%s, n %d</small>", difference->is_paired ? "paired" : "Welch",
                  (int)difference->n);
}

static void put_reach(foci_page *page, const foci_arm *arm)
{
    if (isnan(arm->reach_share)) {
        put(page, isnan(arm->difference.mean) ? "&ndash;" : "not reached");
    } else {
        if (arm->reach_is_bound) put(page, "&le; ");
        foci_page_number(page, 100.0 * arm->reach_share, 1);
        put(page, " %");
    }
    if (arm->count > 1 && arm->seed_share.n > 0) {
        put(page, "<small>");
        foci_page_number(page, 100.0 * arm->seed_share.least, 1);
        put(page, " to ");
        foci_page_number(page, 100.0 * arm->seed_share.most, 1);
        put(page, " %");
        if (arm->seed_share.n < arm->count)
            (void)fprintf(page->file, ", %d of %d seeds", (int)arm->seed_share.n, (int)arm->count);
        put(page, "</small>");
    }
}

static void put_seconds(foci_page *page, double seconds)
{
    if (isnan(seconds))
        put(page, "&ndash;");
    else if (seconds < 120.0)
        (void)fprintf(page->file, "%.1f s", seconds);
    else if (seconds < 7200.0)
        (void)fprintf(page->file, "%.1f min", seconds / 60.0);
    else
        (void)fprintf(page->file, "%.1f h", seconds / 3600.0);
}

void foci_runs_arm(foci_page *page, const foci_runs *runs, int32_t n)
{
    const foci_arm *arm = &runs->arms[n];
    (void)fprintf(page->file, "<tr%s><th scope=\"row\"><ul class=\"legend\">\n",
                  arm->baseline == n ? " class=\"base\"" : "");
    foci_svg_legend(page, arm->name, n, false);
    put(page, "</ul>");
    if (!arm->is_finished) put(page, "<small>not finished</small>");
    put(page, "</th>");
}

static void write_notes(foci_page *page, const foci_runs *runs)
{
    if (runs->notes.count == 0) return;
    put(page, "<section class=\"note\"><h2>Not as it should be</h2>\n<ul>\n");
    for (int32_t n = 0; n < runs->notes.count; n++) {
        put(page, "<li>");
        foci_page_text(page, runs->notes.text[n]);
        put(page, "</li>\n");
    }
    if (runs->notes.left_out > 0)
        (void)fprintf(page->file, "<li>and %d more</li>\n", (int)runs->notes.left_out);
    put(page, "</ul></section>\n");
}

static void write_results(foci_page *page, const foci_runs *runs, foci_chart_room *room)
{
    const bool has_baseline = runs->arm_count > 1;
    put(page, "<section><h2>Results</h2>\n<div class=\"scroll\"><table>\n<thead><tr>"
              "<th scope=\"col\">arm</th><th scope=\"col\">seeds</th>"
              "<th scope=\"col\">parameters</th><th scope=\"col\">tokens</th>"
              "<th scope=\"col\">validation loss</th>");
    if (has_baseline)
        put(page, "<th scope=\"col\">difference</th><th scope=\"col\">tokens to equal</th>");
    put(page, "<th scope=\"col\">perplexity</th><th scope=\"col\">tokens/s</th>"
              "<th scope=\"col\">time</th></tr></thead>\n<tbody>\n");
    for (int32_t n = 0; n < runs->arm_count; n++) {
        const foci_arm *arm = &runs->arms[n];
        foci_runs_arm(page, runs, n);
        (void)fprintf(page->file, "<td>%d</td><td>", (int)arm->count);
        put_count(page, arm->parameters);
        put(page, "</td><td>");
        put_count(page, arm->tokens);
        put(page, "</td><td>");
        put_mean(page, &arm->final, 4);
        put(page, "</td>");
        if (has_baseline && arm->baseline == n) {
            put(page, "<td>baseline</td><td>100 %</td>");
        } else if (has_baseline) {
            put(page, "<td>");
            put_difference(page, &arm->difference);
            put(page, "</td><td>");
            put_reach(page, arm);
            put(page, "</td>");
        }
        put(page, "<td>");
        foci_page_number(page, exp(arm->final.mean), 2);
        put(page, "</td><td>");
        foci_page_number(page, arm->speed, 0);
        put(page, "</td><td>");
        put_seconds(page, arm->seconds);
        put(page, "</td></tr>\n");
    }
    put(page, "</tbody></table></div>\n<p class=\"soft\">Loss: the last validation, in nats a "
              "token; mean &plusmn; standard deviation of the sample, least and largest below. "
              "Perplexity is exp of the mean; tokens/s and time are means of the runs.");
    if (has_baseline)
        put(page, " Difference: to the baseline, with Student&#39;s 95 % interval, of runs with "
                  "the same seed where at least two match or an arm has only one, else "
                  "Welch&#39;s. Tokens to equal: where "
                  "the arm&#39;s mean curve comes to the baseline&#39;s final loss and stays at or "
                  "below it, as a share of the baseline&#39;s tokens (linear in log tokens between "
                  "validations). There the arm&#39;s learning rate has not come down yet, so a run "
                  "planned for that many tokens would do better.");
    put(page, "</p>\n");
    foci_runs_finals_chart(page, runs, room);
    put(page, "</section>\n");
}

const char *foci_equal_text(foci_equal kind)
{
    static const char *const texts[] = {[FOCI_EQUAL_AT] = "",
                                        [FOCI_EQUAL_SMALLER] = "at most ",
                                        [FOCI_EQUAL_LARGER] = "more than "};
    return texts[kind];
}

static void write_sizes(foci_page *page, const foci_runs *runs, foci_axis axis,
                        foci_chart_room *room)
{
    const char *what = axis == FOCI_AXIS_PARAMETERS ? "Parameters" : "Tokens";
    bool has_rows = false;
    for (int32_t n = 0; n < runs->row_count; n++) has_rows |= runs->rows[n].axis == axis;
    if (!has_rows) return;
    (void)fprintf(page->file,
                  "<section><h2>%s needed to equal the baseline</h2>\n<div class=\"scroll\">"
                  "<table>\n<thead><tr><th scope=\"col\">baseline</th><th scope=\"col\">its size"
                  "</th><th scope=\"col\">its loss</th><th scope=\"col\" class=\"left\">arms</th>"
                  "<th scope=\"col\">sizes</th><th scope=\"col\">size needed</th>"
                  "<th scope=\"col\">share</th></tr></thead>\n<tbody>\n",
                  what);
    for (int32_t n = 0; n < runs->row_count; n++) {
        const foci_size_row *row = &runs->rows[n];
        const foci_arm *base = &runs->arms[row->baseline];
        if (row->axis != axis) continue;
        put(page, "<tr><th scope=\"row\">");
        foci_page_text(page, base->name);
        put(page, "</th><td>");
        put_count(page, axis == FOCI_AXIS_PARAMETERS ? base->parameters : base->tokens);
        put(page, "</td><td>");
        foci_page_number(page, base->final.mean, 4);
        put(page, "</td><td class=\"left\">");
        foci_page_text(page, row->family);
        (void)fprintf(page->file, "</td><td>%d</td><td>%s", (int)row->sizes,
                      foci_equal_text(row->kind));
        put_count(page, row->at);
        (void)fprintf(page->file, "</td><td>%s", foci_equal_text(row->kind));
        foci_page_number(page, 100.0 * row->share, 1);
        put(page, " %</td></tr>\n");
    }
    put(page, "</tbody></table></div>\n<p class=\"soft\">Between two measured sizes the loss is "
              "taken to be linear in the logarithm of the size; beyond them nothing is guessed."
              "</p>\n");
    foci_runs_sizes_chart(page, runs, axis, room);
    put(page, "</section>\n");
}

/* The end of the kinds that have the name of the first one. */
static int32_t same_measure(const foci_runs *runs, int32_t first)
{
    int32_t end = first + 1;
    while (end < runs->kind_count && strcmp(runs->kinds[end].name, runs->kinds[first].name) == 0)
        end++;
    return end;
}

static void write_measure(foci_page *page, const foci_runs *runs, int32_t first, int32_t end,
                          foci_chart_room *room)
{
    put(page, "<h3>");
    foci_page_text(page, runs->kinds[first].name);
    put(page, "</h3>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">arm</th>");
    for (int32_t k = first; k < end; k++) {
        put(page, "<th scope=\"col\">");
        if (isnan(runs->kinds[k].length))
            put(page, "value");
        else
            (void)fprintf(page->file, "length %.0f", runs->kinds[k].length);
        put(page, "</th>");
    }
    put(page, "</tr></thead>\n<tbody>\n");
    for (int32_t n = 0; n < runs->arm_count; n++) {
        foci_runs_arm(page, runs, n);
        for (int32_t k = first; k < end; k++) {
            const foci_spread spread = foci_arm_measure(runs, &runs->arms[n], &runs->kinds[k]);
            put(page, "<td>");
            put_mean(page, &spread, 4);
            put(page, "</td>");
        }
        put(page, "</tr>\n");
    }
    put(page, "</tbody></table></div>\n");
    foci_runs_measure_chart(page, runs, first, end, room);
}

static void write_measures(foci_page *page, const foci_runs *runs, foci_chart_room *room)
{
    if (runs->kind_count == 0) return;
    put(page, "<section><h2>Measured after training</h2>\n<p class=\"soft\">Mean &plusmn; standard "
              "deviation over seeds, least and largest below.</p>\n");
    for (int32_t first = 0; first < runs->kind_count; first = same_measure(runs, first))
        write_measure(page, runs, first, same_measure(runs, first), room);
    put(page, "</section>\n");
}

/* What was compared, in a line below the title. */
static void describe(const foci_runs *runs, char *out, size_t room)
{
    int32_t baselines = 0, first = -1;
    for (int32_t n = 0; n < runs->arm_count; n++) {
        if (runs->arms[n].baseline != n) continue;
        if (baselines++ == 0) first = n;
    }
    size_t used = (size_t)snprintf(out, room, "%d run%s", (int)runs->run_count,
                                   runs->run_count == 1 ? "" : "s");
    if (runs->arm_count > 1)
        used += (size_t)snprintf(out + used, room - used, " in %d arms", (int)runs->arm_count);
    if (baselines == 1)
        (void)snprintf(out + used, room - used, "; baseline: %s", runs->arms[first].name);
    if (baselines > 1)
        (void)snprintf(out + used, room - used, "; %d baselines, each arm beside the nearest",
                       (int)baselines);
}

void foci_runs_html(foci_page *page, const foci_runs *runs, const char *title,
                    foci_chart_room *room)
{
    char subtitle[256];
    describe(runs, subtitle, sizeof subtitle);
    foci_page_begin(page, title, subtitle, foci_chart_style, style);
    write_notes(page, runs);
    write_results(page, runs, room);
    foci_runs_curves(page, runs, room);
    write_sizes(page, runs, FOCI_AXIS_PARAMETERS, room);
    write_sizes(page, runs, FOCI_AXIS_TOKENS, room);
    write_measures(page, runs, room);
    foci_runs_settings(page, runs);
    foci_runs_samples(page, runs);
    foci_runs_reproduction(page, runs);
    foci_page_end(page);
}
