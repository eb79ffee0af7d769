/* The page of an attention run: what was measured, the picture of the key sets, how to read it. */
#include "focal/report.h"

#include <math.h>

#include "base/error.h"
#include "report/key_sets_svg.h"
#include "report/page.h"

/* Beside the style that all pages have. */
static const char style[] =
    ":root{--causal:#f1f0ec;--window:#a9a79c;--sink:#3d3c38;--bar:#2a78d6;"
    "--g0:#2a78d6;--g1:#eb6834;--g2:#1baf7a;--g3:#d99a00;--g4:#d65f92;--g5:#6a55c9;--g6:#4c8b1f;"
    "--g7:#d03b3b}\n"
    "@media (prefers-color-scheme:dark){:root{--causal:#2e2d2a;--window:#77756c;--sink:#dedcd2;"
    "--bar:#5b9dec;"
    "--g0:#5b9dec;--g1:#f0875c;--g2:#35c491;--g3:#e8b33a;--g4:#e884ad;--g5:#9284e6;--g6:#7fb84e;"
    "--g7:#ea6a6a}}\n"
    "td.wide{width:30%}.meter{display:flex;align-items:center;gap:.6rem}\n"
    ".meter i{display:block;height:.6rem;min-width:2px;background:var(--bar);"
    "border-radius:0 3px 3px 0}\n"
    ".pair{display:grid;gap:1.5rem;grid-template-columns:repeat(auto-fit,minmax(19rem,1fr));"
    "margin-top:.6rem}.pair text{font-size:18px}\n"
    ".causal{fill:var(--causal)}.window{fill:var(--window)}.sink{fill:var(--sink)}"
    ".bar{fill:var(--bar)}.even{fill:none;stroke:var(--ink);stroke-width:1.2;"
    "stroke-dasharray:4 4;opacity:.6}\n"
    ".g0{fill:var(--g0)}.g1{fill:var(--g1)}.g2{fill:var(--g2)}.g3{fill:var(--g3)}"
    ".g4{fill:var(--g4)}.g5{fill:var(--g5)}.g6{fill:var(--g6)}.g7{fill:var(--g7)}\n"
    ".legend svg{width:.85rem;height:.85rem}\n";

static focal_status check_sets(focal_ctx *ctx, const focal_report_sets *sets)
{
    if (sets->T < 2 || sets->T > FOCAL_REPORT_MAX_TOKENS)
        return foci_fail(ctx, FOCAL_EINVAL, "report: a picture of %d tokens, must be 2 to %d",
                         sets->T, FOCAL_REPORT_MAX_TOKENS);
    if (sets->K < 1 || sets->K > FOCAL_MAX_GROUPS || sets->top < 1 || sets->top > sets->K)
        return foci_fail(ctx, FOCAL_EINVAL, "report: %d of %d groups", sets->top, sets->K);
    if (sets->window < 0 || sets->sinks < 0)
        return foci_fail(ctx, FOCAL_EINVAL, "report: window %d and sinks %d", sets->window,
                         sets->sinks);
    if (!sets->query_groups || (!sets->key_groups && sets->mode != FOCAL_SHARED))
        return foci_fail(ctx, FOCAL_EINVAL, "report: the groups are missing");
    for (int32_t n = 0; n < sets->T; n++) {
        bool is_wrong = sets->mode != FOCAL_SHARED &&
                        (sets->key_groups[n] < 0 || sets->key_groups[n] >= sets->K);
        for (int32_t a = 0; a < sets->top; a++) {
            const int32_t group = sets->query_groups[(int64_t)n * sets->top + a];
            is_wrong |= group < 0 || group >= sets->K;
        }
        if (is_wrong)
            return foci_fail(ctx, FOCAL_EINVAL, "report: token %d has a group out of range", n);
    }
    return FOCAL_OK;
}

static focal_status check_args(focal_ctx *ctx, const char *path, const focal_report_args *args)
{
    if (!path || !*path) return foci_fail(ctx, FOCAL_EINVAL, "report: no file name");
    if (!args || !args->title) return foci_fail(ctx, FOCAL_EINVAL, "report: no title");
    if (args->run_count < 0 || (args->run_count > 0 && !args->runs))
        return foci_fail(ctx, FOCAL_EINVAL, "report: a list of %d runs", args->run_count);
    if (!args->loads && args->load_count != 0)
        return foci_fail(ctx, FOCAL_EINVAL, "report: load_count is %d, but loads is NULL",
                         args->load_count);
    if (args->loads && (args->load_count < 1 || args->load_count > FOCAL_MAX_GROUPS))
        return foci_fail(ctx, FOCAL_EINVAL, "report: loads of %d groups, must be 1 to %d",
                         args->load_count, FOCAL_MAX_GROUPS);
    return args->sets ? check_sets(ctx, args->sets) : FOCAL_OK;
}

static void cell(foci_page *page, double value, double factor, int decimals, const char *unit)
{
    if (value < 0.0 || !isfinite(value))
        (void)fputs("<td></td>", page->file);
    else
        (void)fprintf(page->file, "<td>%.*f%s</td>", decimals, factor * value, unit);
}

static void write_runs(foci_page *page, const focal_report_args *args)
{
    double most = 1.0;
    for (int32_t n = 0; n < args->run_count; n++) most = fmax(most, args->runs[n].speedup);
    (void)fputs("<section><h2>Time, and what it buys</h2>\n<div class=\"scroll\"><table>\n<caption>"
                "Medians of interleaved runs; making the key set is in the time.</caption>\n<thead>"
                "<tr><th scope=\"col\">keys each query sees</th><th scope=\"col\">time</th>"
                "<th scope=\"col\">pairs</th><th scope=\"col\">attention kept</th>"
                "<th scope=\"col\">error</th><th scope=\"col\" style=\"text-align:left\">speedup"
                "</th></tr></thead>\n<tbody>\n",
                page->file);
    for (int32_t n = 0; n < args->run_count; n++) {
        const focal_report_run *run = &args->runs[n];
        (void)fputs("<tr><th scope=\"row\">", page->file);
        foci_page_text(page, run->name);
        (void)fputs("</th>", page->file);
        cell(page, run->ms, 1.0, 1, " ms");
        cell(page, run->pair_share, 100.0, 1, " %");
        cell(page, run->mass_share, 100.0, 1, " %");
        if (run->error >= 0.0 && isfinite(run->error))
            (void)fprintf(page->file, "<td>%.1e</td>", run->error);
        else
            (void)fputs("<td></td>", page->file);
        (void)fprintf(page->file,
                      "<td class=\"wide\"><span class=\"meter\"><i style=\"width:%.1f%%\"></i>"
                      "%.1f&times;</span></td></tr>\n",
                      78.0 * fmax(run->speedup, 0.0) / most, fmax(run->speedup, 0.0));
    }
    (void)fputs("</tbody></table></div>\n<p class=\"soft\" style=\"margin-top:.8rem\">pairs: the "
                "share of all causal pairs that are computed. attention kept: how much of full "
                "attention&#39;s softmax weight falls on them, on average. error: the largest "
                "difference to the reference kernel on sampled rows, as a share of the row&#39;s "
                "largest value.</p></section>\n",
                page->file);
}

static void write_swatch(foci_page *page, const char *class_name, int32_t number, const char *text)
{
    (void)fputs("<li><svg viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect width=\"10\" "
                "height=\"10\" rx=\"2\" class=\"",
                page->file);
    if (number >= 0)
        (void)fprintf(page->file, "%s%d\"/></svg>%s %d</li>", class_name,
                      number % FOCI_REPORT_COLOURS, text, number);
    else
        (void)fprintf(page->file, "%s\"/></svg>%s</li>", class_name, text);
}

static void write_sets(foci_page *page, const focal_report_sets *sets)
{
    (void)fprintf(page->file,
                  "<section><h2>Which keys a query sees</h2>\n<p>A short text of %d tokens, %d "
                  "groups. Each query sees the %d keys before it, the first %d keys, and of the "
                  "distant ones those in %s %d group%s.</p>\n<ul class=\"legend\">",
                  sets->T, sets->K, sets->window, sets->sinks,
                  sets->mode == FOCAL_SHARED ? "any of its" : "the", sets->top,
                  sets->mode == FOCAL_SHARED ? "s"
                  : sets->top == 1           ? " it looks into"
                                             : "s it looks into");
    write_swatch(page, "window", -1, "window");
    write_swatch(page, "sink", -1, "sinks");
    for (int32_t c = 0; c < sets->K; c++) write_swatch(page, "g", c, "group");
    (void)fputs("</ul>\n<div class=\"pair\"><figure>\n", page->file);
    foci_svg_pairs(page, sets);
    (void)fputs("<figcaption>In the order of the text. The strips show the group of each key and "
                "the groups each query looks into. The plain part of the triangle is "
                "never computed.</figcaption>"
                "</figure>\n<figure>\n",
                page->file);
    foci_svg_sorted(page, sets);
    (void)fputs("<figcaption>The distant pairs after one stable sort by group, as a kernel walks "
                "them: every query sees the first keys of its group without gaps, so only the edge "
                "of each staircase needs a mask.</figcaption></figure></div></section>\n",
                page->file);
}

focal_status focal_report_check(focal_ctx *ctx, const char *path)
{
    foci_page page;
    if (!path || !*path) return foci_fail(ctx, FOCAL_EINVAL, "report: no file name");
    FOCAL_TRY(foci_page_open(ctx, path, &page));
    foci_page_drop(&page);
    return FOCAL_OK;
}

focal_status focal_report_attention(focal_ctx *ctx, const char *path, const focal_report_args *args)
{
    FOCAL_TRY(check_args(ctx, path, args));
    foci_page page;
    FOCAL_TRY(foci_page_open(ctx, path, &page));
    foci_page_begin(&page, args->title, args->subtitle, style, "");
    if (args->run_count > 0) write_runs(&page, args);
    if (args->sets) write_sets(&page, args->sets);
    if (args->loads) {
        (void)fputs(
            "<section><h2>How full the groups are</h2>\n<p>The share of the keys that the "
            "router puts into each group. The dashed line is an even share: work and memory "
            "follow the pairs, so uneven groups cost time.</p>\n",
            page.file);
        foci_svg_loads(&page, args->loads, args->load_count);
        (void)fputs("</section>\n", page.file);
    }
    foci_page_end(&page);
    return foci_page_close(ctx, &page, FOCAL_OK);
}
