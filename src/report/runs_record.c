/* The second half of a page of runs: settings, texts that the models wrote, how to make it again.
 */
#include <inttypes.h>
#include <string.h>

#include "report/runs_page.h"

static void put(foci_page *page, const char *html)
{
    (void)fputs(html, page->file);
}

/* "key = value" lines of a run: all, or only what all runs have in common. */
static void write_settings_of(foci_page *page, const foci_runs *runs, const foci_run_folder *run,
                              bool only_common)
{
    const int seed = foci_run_find(foci_text_of("seed"));
    put(page, "<pre>");
    for (int key = 0; key < FOCI_RUN_KEYS; key++) {
        if (only_common && (runs->differs[key] || (key == seed && runs->run_count > 1))) continue;
        (void)fprintf(page->file, "%s = ", foci_run_keys[key].name);
        foci_page_text(page, foci_run_folder_value(run, key));
        put(page, "\n");
    }
    put(page, "</pre>\n");
}

void foci_runs_settings(foci_page *page, const foci_runs *runs)
{
    int count = 0;
    for (int key = 0; key < FOCI_RUN_KEYS; key++) count += runs->differs[key];
    put(page, "<section><h2>Settings</h2>\n");
    if (count > 0) {
        put(page, "<div class=\"scroll\"><table>\n<caption>What differs between the runs, seeds "
                  "aside.</caption>\n<thead><tr><th scope=\"col\">arm</th>");
        for (int key = 0; key < FOCI_RUN_KEYS; key++)
            if (runs->differs[key])
                (void)fprintf(page->file, "<th scope=\"col\">%s</th>", foci_run_keys[key].name);
        put(page, "<th scope=\"col\">seeds</th></tr></thead>\n<tbody>\n");
        for (int32_t n = 0; n < runs->arm_count; n++) {
            foci_runs_arm(page, runs, n);
            for (int key = 0; key < FOCI_RUN_KEYS; key++) {
                if (!runs->differs[key]) continue;
                put(page, "<td>");
                foci_page_text(page, foci_arm_value(runs, n, key));
                put(page, "</td>");
            }
            put(page, "<td>");
            for (int32_t i = 0; i < runs->arms[n].count; i++)
                (void)fprintf(page->file, "%s%" PRId64, i > 0 ? ", " : "",
                              foci_arm_run(runs, &runs->arms[n], i)->seed);
            put(page, "</td></tr>\n");
        }
        put(page, "</tbody></table></div>\n");
    } else if (runs->run_count > 1) {
        put(page, "<p>The runs differ in nothing but their seeds.</p>\n");
    }
    (void)fprintf(page->file, "<details%s><summary>%s</summary>\n", count > 0 ? "" : " open",
                  runs->run_count > 1 ? "The same in all runs" : "All settings");
    write_settings_of(page, runs, runs->runs[0], true);
    put(page, "</details></section>\n");
}

static void write_samples_of(foci_page *page, const foci_run_folder *run, bool is_open)
{
    if (run->log.sample_count == 0) return;
    (void)fprintf(page->file, "<details%s><summary>", is_open ? " open" : "");
    foci_page_text(page, run->name);
    put(page, "</summary>\n");
    for (int32_t n = 0; n < run->log.sample_count; n++) {
        (void)fprintf(page->file, "<p class=\"soft\">step %" PRId64 "</p><pre class=\"wrap\">",
                      run->log.samples[n].step);
        foci_page_text(page, run->log.samples[n].text);
        put(page, "</pre>\n");
    }
    put(page, "</details>\n");
}

/* Of the first seed of each arm. */
void foci_runs_samples(foci_page *page, const foci_runs *runs)
{
    bool has_samples = false;
    for (int32_t n = 0; n < runs->arm_count; n++)
        has_samples |= foci_arm_run(runs, &runs->arms[n], 0)->log.sample_count > 0;
    if (!has_samples) return;
    put(page, "<section><h2>Text as they learned</h2>\n");
    for (int32_t n = 0; n < runs->arm_count; n++)
        write_samples_of(page, foci_arm_run(runs, &runs->arms[n], 0), runs->arm_count == 1);
    put(page, "</section>\n");
}

/* What a run differs in from the first one, as a line of the shell without its end. */
static void write_command(foci_page *page, const foci_runs *runs, int32_t run)
{
    put(page, "focal train run.conf");
    for (int key = 0; key < FOCI_RUN_KEYS; key++) {
        const char *value = foci_run_folder_value(runs->runs[run], key);
        if (strcmp(value, foci_run_folder_value(runs->runs[0], key)) == 0) continue;
        (void)fprintf(page->file, " --set %s=", foci_run_keys[key].name);
        foci_page_word(page, value);
    }
    put(page, " -o ");
    foci_page_word(page, runs->runs[run]->name);
}

/* Version, kernel, threads and machine of a run are those of an earlier one. */
static bool is_maker_known(const foci_runs *runs, int32_t run)
{
    const foci_run_folder *a = runs->runs[run];
    for (int32_t n = 0; n < run; n++) {
        const foci_run_folder *b = runs->runs[n];
        if (strcmp(a->version, b->version) == 0 && strcmp(a->kernel, b->kernel) == 0 &&
            strcmp(a->machine, b->machine) == 0 && a->threads == b->threads)
            return true;
    }
    return false;
}

static void write_makers(foci_page *page, const foci_runs *runs)
{
    put(page, "<p>Made with:</p><ul>\n");
    for (int32_t n = 0; n < runs->run_count; n++) {
        const foci_run_folder *run = runs->runs[n];
        if (is_maker_known(runs, n)) continue;
        put(page, "<li>focal ");
        foci_page_text(page, *run->version ? run->version : "of a version that is not known");
        if (run->threads > 0) (void)fprintf(page->file, ", %" PRId64 " threads", run->threads);
        if (*run->kernel) put(page, ", kernels ");
        foci_page_text(page, run->kernel);
        if (*run->machine) put(page, ", ");
        foci_page_text(page, run->machine);
        put(page, " (");
        foci_page_text(page, run->name);
        put(page, " and those like it)</li>\n");
    }
    put(page, "</ul>\n");
}

void foci_runs_reproduction(foci_page *page, const foci_runs *runs)
{
    put(page, "<section><h2>How to make it again</h2>\n");
    write_makers(page, runs);
    put(page, "<p>With the first run file below as <code>run.conf</code> (the results do not "
              "depend on the number of threads):</p>\n<pre>");
    for (int32_t n = 0; n < runs->run_count; n++) {
        write_command(page, runs, n);
        put(page, "\n");
    }
    (void)fprintf(page->file,
                  "</pre>\n<p>This page was written by focal %d.%d.%d (<code>focal report</code>)."
                  "</p>\n",
                  FOCAL_VERSION_MAJOR, FOCAL_VERSION_MINOR, FOCAL_VERSION_PATCH);
    for (int32_t n = 0; n < runs->run_count; n++) {
        put(page, "<details><summary>");
        foci_page_text(page, runs->runs[n]->path);
        put(page, "/run.conf</summary>\n");
        write_settings_of(page, runs, runs->runs[n], false);
        put(page, "</details>\n");
    }
    put(page, "</section>\n");
}
