/* How a page of adapters is made again: commands that work where the report was called, beside the
 * folders that are there. */
#include "report/fits_page.h"

#include <string.h>

enum { PLACE_BYTES = FOCI_FIT_NAME + 32 };

static void put(foci_page *page, const char *html)
{
    (void)fputs(html, page->file);
}

/* Where adapter n is once the commands have run: fits that can be repeated go into one new folder,
 * under names of their own. */
static const char *place_of(const foci_fits *fits, int32_t n, char place[PLACE_BYTES])
{
    const foci_fit *fit = fits->fits[n];
    bool is_taken = strcmp(fit->folder, ".") == 0 || strcmp(fit->folder, "..") == 0;
    if (!fit->has_run_file) return fit->path;
    for (int32_t i = 0; i < n; i++) is_taken |= strcmp(fits->fits[i]->folder, fit->folder) == 0;
    if (is_taken)
        (void)snprintf(place, PLACE_BYTES, "again/%s-%d", fit->folder, n + 1);
    else
        (void)snprintf(place, PLACE_BYTES, "again/%s", fit->folder);
    return place;
}

static void write_fit_command(foci_page *page, const foci_fit *fit, const char *place)
{
    if (fit->has_run_file) {
        put(page, "focal fit ");
        foci_page_word(page, fit->path);
        put(page, "/run.conf -o ");
        foci_page_word(page, place);
    } else {
        put(page, "focal info ");
        foci_page_word(page, fit->path);
        put(page, "  # has no run.conf: this shows what is known of its fit");
    }
    put(page, "\n");
}

static void write_measure_command(foci_page *page, const foci_fit_measure *m, const char *place)
{
    put(page, "focal eval groups -m ");
    foci_page_word(page, m->model);
    put(page, " --adapter ");
    foci_page_word(page, place);
    for (int32_t n = 0; n < m->text_count; n++) {
        put(page, " ");
        foci_page_word(page, m->names[n]);
    }
    (void)fprintf(page->file, " -c %d -b %d -t %d --rounds %d --precision ", (int)m->context,
                  (int)m->batch, (int)m->threads, (int)m->rounds);
    foci_page_word(page, m->precision);
    put(page, " --cache-type ");
    foci_page_word(page, m->cache_type);
    const char *before = " --top ";
    for (int32_t n = 0; n < m->setting_count; n++) {
        if (m->settings[n].kind != FOCI_FIT_TOP) continue;
        (void)fprintf(page->file, "%s%d", before, (int)m->settings[n].top);
        before = ",";
    }
    put(page, "\n");
}

static void write_commands(foci_page *page, const foci_fits *fits)
{
    char place[PLACE_BYTES];
    bool has_run_file = false;
    for (int32_t n = 0; n < fits->count; n++) has_run_file |= fits->fits[n]->has_run_file;
    put(page, "<pre>");
    if (has_run_file) put(page, "mkdir -p again\n"); /* focal fit makes one folder, not two */
    for (int32_t n = 0; n < fits->count; n++) {
        const foci_fit *fit = fits->fits[n];
        const char *to = place_of(fits, n, place);
        write_fit_command(page, fit, to);
        if (fit->measure) write_measure_command(page, fit->measure, to);
    }
    put(page, "focal report");
    for (int32_t n = 0; n < fits->count; n++) {
        put(page, " ");
        foci_page_word(page, place_of(fits, n, place));
    }
    put(page, "</pre>\n");
}

void foci_fits_again(foci_page *page, const foci_fits *fits)
{
    put(page,
        "<section><h2>How to make it again</h2>\n<p>A folder&#39;s run.conf has every setting "
        "of its fit. Models and texts that were measured are named without their "
        "folders.</p>\n");
    write_commands(page, fits);
    for (int32_t n = 0; n < fits->count; n++) {
        const foci_fit_measure *m = fits->fits[n]->measure;
        if (!m) continue;
        put(page, "<p class=\"soft\">");
        foci_page_text(page, fits->fits[n]->name);
        put(page, " was measured with focal ");
        foci_page_text(page, m->version);
        (void)fprintf(page->file, ", %d thread%s, ", (int)m->threads, m->threads == 1 ? "" : "s");
        foci_page_text(page, m->precision);
        put(page, ".</p>\n");
    }
    (void)fprintf(page->file,
                  "<p class=\"soft\">This page was written by focal %d.%d.%d (<code>focal "
                  "report</code>).</p></section>\n",
                  FOCAL_VERSION_MAJOR, FOCAL_VERSION_MINOR, FOCAL_VERSION_PATCH);
}
