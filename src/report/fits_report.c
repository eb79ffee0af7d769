/* A report of adapters: read all folders, name them apart, write the page. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "report/fits_page.h"

enum {
    PATH_MOST = 300,                   /* bytes of a path in a note, quotes and all */
    WAY_BYTES = 2 * FOCI_FIT_NAME + 64 /* of how something was measured */
};

static focal_status check_args(focal_ctx *ctx, const char *path, const focal_report_fits_args *args)
{
    if (!path || !*path) return foci_fail(ctx, FOCAL_EINVAL, "report: no file name");
    if (!args || args->folder_count < 1 || !args->folders)
        return foci_fail(ctx, FOCAL_EINVAL, "report: no folder was named");
    if (args->folder_count > FOCAL_REPORT_MAX_FITS)
        return foci_fail(ctx, FOCAL_EINVAL, "report: %d adapters, at most %d", args->folder_count,
                         FOCAL_REPORT_MAX_FITS);
    for (int32_t n = 0; n < args->folder_count; n++)
        if (!args->folders[n] || !*args->folders[n])
            return foci_fail(ctx, FOCAL_EINVAL, "report: folder %d has no name", n);
    return FOCAL_OK;
}

/* Two that are the same kind of thing are told apart by their folders. */
static void part_labels(const foci_fits *fits)
{
    bool is_shared[FOCAL_REPORT_MAX_FITS] = {false};
    for (int32_t n = 0; n < fits->count; n++)
        for (int32_t i = 0; i < fits->count; i++)
            is_shared[n] |= i != n && strcmp(fits->fits[n]->label, fits->fits[i]->label) == 0;
    for (int32_t n = 0; n < fits->count; n++) {
        char *label = fits->fits[n]->label;
        const size_t used = strlen(label);
        if (is_shared[n])
            (void)snprintf(label + used, FOCI_FIT_LABEL - used, " (%s)", fits->fits[n]->name);
    }
}

/* A path that is too long for a note is left to the reader. */
static void note_unmeasured(foci_fits *fits)
{
    for (int32_t n = 0; n < fits->count; n++) {
        char word[4 * PATH_MOST + 3];
        const foci_fit *fit = fits->fits[n];
        if (fit->measure) continue;
        const bool has_room = foci_word_quote(fit->path, word, sizeof word);
        foci_note(&fits->notes,
                  "%s: there is no measurement of it; this makes one: focal eval groups -m "
                  "MODEL --adapter %s TEXT...",
                  fit->name, has_room && strlen(word) <= PATH_MOST ? word : "ADAPTER");
    }
}

/* The fingerprint of the model that an adapter is of, as far as it is known; else "". */
static const char *model_of(const foci_fit *fit)
{
    return *fit->fingerprint ? fit->fingerprint : fit->measure ? fit->measure->fingerprint : "";
}

/* What is lost to one model says nothing about what is lost to another: a page has one dense. */
static focal_status check_one_model(const foci_fits *fits)
{
    const foci_fit *first = NULL;
    for (int32_t n = 0; n < fits->count; n++) {
        const foci_fit *fit = fits->fits[n];
        if (!*model_of(fit)) continue;
        if (first && strcmp(model_of(first), model_of(fit)) != 0)
            return foci_fail(fits->ctx, FOCAL_EINVAL,
                             "report: %s is an adapter of '%s' (fingerprint %s), %s of '%s' "
                             "(%s): each model gets a report of its own",
                             first->name, first->base, model_of(first), fit->name, fit->base,
                             model_of(fit));
        if (!first) first = fit;
    }
    return FOCAL_OK;
}

/* How numbers were measured that others stand beside. */
static void name_way(const foci_fit_measure *m, char *out, size_t room)
{
    (void)snprintf(out, room, "%d thread%s, %s, batch %d, cache %s", (int)m->threads,
                   m->threads == 1 ? "" : "s", m->precision, (int)m->batch, m->cache_type);
}

/* Gaps are to the dense loss of the same run, but other texts have other gaps; speeds are of the
 * machine's settings too. */
static void note_other_ways(foci_fits *fits)
{
    char first_way[WAY_BYTES], way[WAY_BYTES];
    const foci_fit *first = NULL;
    for (int32_t n = 0; n < fits->count; n++) {
        const foci_fit *fit = fits->fits[n];
        if (!fit->measure) continue;
        if (first && !foci_fit_texts_equal(first->measure, fit->measure))
            foci_note(&fits->notes, "%s was measured on other texts or lengths than %s", fit->name,
                      first->name);
        name_way(fit->measure, way, sizeof way);
        if (first && strcmp(first_way, way) != 0)
            foci_note(&fits->notes, "%s was measured with %s, but %s with %s", fit->name, way,
                      first->name, first_way);
        if (first) continue;
        first = fit;
        memcpy(first_way, way, sizeof way);
    }
}

static focal_status read_all(foci_fits *fits, const focal_report_fits_args *args)
{
    for (int32_t n = 0; n < args->folder_count; n++) {
        char name[FOCI_FIT_NAME];
        foci_fit *fit = NULL;
        foci_fit_name(args->folders, args->folder_count, n, name);
        FOCAL_TRY(foci_fit_read(fits->ctx, args->folders[n], name, &fits->notes, &fit));
        if (fit) fits->fits[fits->count++] = fit;
    }
    if (fits->count == 0)
        return foci_fail(fits->ctx, FOCAL_EINVAL, "report: no adapter to read: %s",
                         fits->notes.text[0]);
    FOCAL_TRY(check_one_model(fits));
    part_labels(fits);
    note_unmeasured(fits);
    note_other_ways(fits);
    return FOCAL_OK;
}

static focal_status write_page(const foci_fits *fits, const char *path, const char *title)
{
    char made[FOCI_FIT_NAME + 32] = "Adapters";
    foci_page page = {0};
    for (int32_t n = fits->count - 1; n >= 0; n--)
        if (*fits->fits[n]->base)
            (void)snprintf(made, sizeof made, "Adapters of %s", fits->fits[n]->base);
    FOCAL_TRY(foci_page_open(fits->ctx, path, &page));
    foci_fits_html(&page, fits, title ? title : made);
    return foci_page_close(fits->ctx, &page, FOCAL_OK);
}

focal_status focal_report_fits(focal_ctx *ctx, const char *path, const focal_report_fits_args *args)
{
    FOCAL_TRY(check_args(ctx, path, args));
    /* Numbers are read and written with a point, whatever the program's locale. */
    const locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0) return foci_fail(ctx, FOCAL_ENOMEM, "report: no memory for a locale");
    const locale_t before = uselocale(plain);
    foci_fits fits = {.ctx = ctx};
    fits.notes.text = foci_alloc(ctx, FOCI_RUNS_NOTES, sizeof *fits.notes.text);
    focal_status status = fits.notes.text ? read_all(&fits, args) : FOCAL_ENOMEM;
    if (status == FOCAL_OK) status = write_page(&fits, path, args->title);
    for (int32_t n = 0; status == FOCAL_OK && args->on_note && n < fits.notes.count; n++)
        args->on_note(args->user, fits.notes.text[n]);
    for (int32_t n = 0; n < fits.count; n++) foci_fit_free(ctx, fits.fits[n]);
    foci_free(ctx, fits.notes.text);
    (void)uselocale(before);
    freelocale(plain);
    return status;
}
