/* The numbers of a report: means over seeds, differences to the baseline, tokens and parameters
 * needed to equal it, measures. */
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "report/runs_group.h"

/* Room for one number or curve a run, so that an arm's can be handed on together. */
typedef struct work {
    double *a, *b;
    const foci_curve **curves;
    foci_curve *apart; /* one a run */
} work;

static double mean_of(const foci_runs *runs, const foci_arm *arm, size_t offset, work *w)
{
    for (int32_t n = 0; n < arm->count; n++)
        memcpy(&w->a[n], (const char *)foci_arm_run(runs, arm, n) + offset, sizeof w->a[n]);
    return foci_spread_of(w->a, arm->count).mean;
}

static void average_arm(const foci_runs *runs, foci_arm *arm, work *w)
{
    arm->parameters = mean_of(runs, arm, offsetof(foci_run_folder, parameters), w);
    arm->tokens = mean_of(runs, arm, offsetof(foci_run_folder, tokens), w);
    arm->speed = mean_of(runs, arm, offsetof(foci_run_folder, speed), w);
    arm->seconds = mean_of(runs, arm, offsetof(foci_run_folder, seconds), w);
    for (int32_t n = 0; n < arm->count; n++) w->a[n] = foci_arm_run(runs, arm, n)->final;
    arm->final = foci_spread_of(w->a, arm->count);
    for (int32_t n = 0; n < arm->count; n++) w->curves[n] = &foci_arm_run(runs, arm, n)->log.valid;
    foci_curve_mean(w->curves, arm->count, &arm->valid);
    for (int32_t n = 0; n < arm->count; n++) w->curves[n] = &foci_arm_run(runs, arm, n)->train;
    foci_curve_mean(w->curves, arm->count, &arm->train);
}

/* The runs of both arms with equal seeds and a final loss; returns how many. */
static int32_t match_seeds(const foci_runs *runs, foci_arm *arm, const foci_arm *base, work *w)
{
    int32_t pairs = 0;
    for (int32_t i = 0, j = 0; i < arm->count && j < base->count;) {
        const foci_run_folder *x = foci_arm_run(runs, arm, i), *y = foci_arm_run(runs, base, j);
        if (x->seed == y->seed && !isnan(x->final) && !isnan(y->final)) {
            w->a[pairs] = x->final;
            w->b[pairs] = y->final;
            foci_curve_minus(&x->log.valid, &y->log.valid, &w->apart[pairs]);
            w->curves[pairs] = &w->apart[pairs];
            pairs++;
        }
        const int64_t x_seed = x->seed, y_seed = y->seed;
        i += x_seed <= y_seed;
        j += y_seed <= x_seed;
    }
    return pairs;
}

/* By seed where two seeds match, or the only one of an arm does: much of the spread is the seed's
 * and cancels. */
static void subtract_baseline(const foci_runs *runs, foci_arm *arm, const foci_arm *base, work *w)
{
    const int32_t pairs = match_seeds(runs, arm, base, w);
    if (pairs >= 2 || (pairs == 1 && (arm->count == 1 || base->count == 1))) {
        arm->difference = foci_difference_paired(w->a, w->b, pairs);
        foci_curve_mean(w->curves, pairs, &arm->apart);
        return;
    }
    for (int32_t n = 0; n < arm->count; n++) w->a[n] = foci_arm_run(runs, arm, n)->final;
    for (int32_t n = 0; n < base->count; n++) w->b[n] = foci_arm_run(runs, base, n)->final;
    arm->difference = foci_difference_apart(w->a, arm->count, w->b, base->count);
    foci_curve_minus(&arm->valid.mean, &base->valid.mean, &w->apart[0]);
    w->curves[0] = &w->apart[0];
    foci_curve_mean(w->curves, 1, &arm->apart);
}

static void find_reach(const foci_runs *runs, foci_arm *arm, const foci_arm *base, work *w)
{
    const foci_curve *curve = &base->valid.mean;
    const double tokens = curve->count > 0 ? curve->x[curve->count - 1] : (double)NAN;
    bool is_bound;
    arm->reach_share =
        foci_curve_reach(&arm->valid.mean, base->final.mean, &arm->reach_is_bound) / tokens;
    for (int32_t n = 0; n < arm->count; n++)
        w->a[n] =
            foci_curve_reach(&foci_arm_run(runs, arm, n)->log.valid, base->final.mean, &is_bound) /
            tokens;
    arm->seed_share = foci_spread_of(w->a, arm->count);
}

/* Arms that differ in nothing but what makes their size. */
static bool is_family(const foci_runs *runs, foci_axis axis, int32_t a, int32_t b)
{
    for (int key = 0; key < FOCI_RUN_KEYS; key++)
        if (runs->differs[key] && !foci_is_size_key(axis, key) &&
            strcmp(foci_arm_value(runs, a, key), foci_arm_value(runs, b, key)) != 0)
            return false;
    return true;
}

static double size_of(const foci_arm *arm, foci_axis axis)
{
    return axis == FOCI_AXIS_PARAMETERS ? arm->parameters : arm->tokens;
}

int32_t foci_family_collect(const foci_runs *runs, foci_axis axis, int32_t arm, double *sizes,
                            double *losses)
{
    int32_t count = 0;
    for (int32_t n = 0; n < runs->arm_count; n++) {
        const foci_arm *other = &runs->arms[n];
        const double size = size_of(other, axis), loss = other->final.mean;
        if (!is_family(runs, axis, arm, n) || !other->is_finished || isnan(size) || isnan(loss))
            continue;
        int32_t at = count;
        while (at > 0 && sizes[at - 1] > size) at--;
        if (at > 0 && sizes[at - 1] == size) continue;
        memmove(&sizes[at + 1], &sizes[at], (size_t)(count - at) * sizeof *sizes);
        memmove(&losses[at + 1], &losses[at], (size_t)(count - at) * sizeof *losses);
        sizes[at] = size;
        losses[at] = loss;
        count++;
    }
    return count;
}

static void add_size_rows(foci_runs *runs, foci_axis axis, int32_t head, work *w)
{
    const int32_t sizes = foci_family_collect(runs, axis, head, w->a, w->b);
    for (int32_t n = 0; n < runs->arm_count && sizes > 1; n++) {
        const foci_arm *base = &runs->arms[n];
        const double size = size_of(base, axis);
        if (base->baseline != n || is_family(runs, axis, head, n) || isnan(size) ||
            isnan(base->final.mean) || runs->row_count == FOCI_RUNS_ROWS)
            continue;
        foci_size_row *row = &runs->rows[runs->row_count++];
        *row = (foci_size_row){.axis = axis, .baseline = n, .sizes = sizes};
        foci_arm_label(runs, head, (int)axis, row->family);
        row->kind = foci_size_at(w->a, w->b, sizes, base->final.mean, &row->at);
        row->share = row->at / size;
    }
}

bool foci_family_starts(const foci_runs *runs, foci_axis axis, int32_t arm)
{
    for (int32_t n = 0; n < arm; n++)
        if (is_family(runs, axis, n, arm)) return false;
    return true;
}

static void find_sizes(foci_runs *runs, foci_axis axis, work *w)
{
    for (int32_t head = 0; head < runs->arm_count; head++)
        if (foci_family_starts(runs, axis, head)) add_size_rows(runs, axis, head, w);
}

/* By name, then by length, those without one first. */
static int compare_kinds(const foci_measure *a, const foci_measure *b)
{
    const int names = strcmp(a->name, b->name);
    if (names != 0) return names;
    const double x = isnan(a->length) ? -1.0 : a->length, y = isnan(b->length) ? -1.0 : b->length;
    return (x > y) - (x < y);
}

static void add_kind(foci_runs *runs, const foci_measure *kind)
{
    int32_t at = runs->kind_count;
    while (at > 0 && compare_kinds(&runs->kinds[at - 1], kind) > 0) at--;
    if (at > 0 && compare_kinds(&runs->kinds[at - 1], kind) == 0) return;
    if (runs->kind_count == FOCI_RUNS_KINDS) return;
    memmove(&runs->kinds[at + 1], &runs->kinds[at],
            (size_t)(runs->kind_count - at) * sizeof *runs->kinds);
    runs->kinds[at] = *kind;
    runs->kind_count++;
}

foci_spread foci_arm_measure(const foci_runs *runs, const foci_arm *arm, const foci_measure *kind)
{
    double values[64]; /* seeds beyond are too many to matter */
    int32_t count = 0;
    for (int32_t n = 0; n < arm->count; n++) {
        const foci_run_folder *run = foci_arm_run(runs, arm, n);
        for (int32_t m = 0; m < run->measure_count; m++)
            if (compare_kinds(&run->measures[m], kind) == 0 && count < (int32_t)FOCAL_COUNT(values))
                values[count++] = run->measures[m].value;
    }
    return foci_spread_of(values, count);
}

static void find_kinds(foci_runs *runs)
{
    for (int32_t n = 0; n < runs->run_count; n++)
        for (int32_t m = 0; m < runs->runs[n]->measure_count; m++)
            add_kind(runs, &runs->runs[n]->measures[m]);
    if (runs->kind_count == FOCI_RUNS_KINDS)
        foci_note(&runs->notes, "only the first %d measures are shown", FOCI_RUNS_KINDS);
}

/* Results are those of a version and its kernels; unlike ones are compared with care. */
static void check_makers(foci_runs *runs)
{
    const foci_run_folder *first = NULL;
    for (int32_t n = 0; n < runs->run_count; n++) {
        const foci_run_folder *run = runs->runs[n];
        if (!*run->version && !*run->kernel) continue;
        if (!first) first = run;
        if (strcmp(first->version, run->version) == 0 && strcmp(first->kernel, run->kernel) == 0)
            continue;
        foci_note(&runs->notes, "%s was made with focal %s and its kernels %s, %s with %s and %s",
                  first->name, first->version, first->kernel, run->name, run->version, run->kernel);
        return;
    }
}

focal_status foci_runs_compare(foci_runs *runs)
{
    focal_ctx *ctx = runs->ctx;
    const size_t count = (size_t)runs->run_count + 1; /* foci_family_collect() moves by one */
    work w = {.a = foci_alloc(ctx, count, sizeof *w.a),
              .b = foci_alloc(ctx, count, sizeof *w.b),
              .curves = foci_alloc(ctx, count, sizeof(const foci_curve *)),
              .apart = foci_alloc(ctx, count, sizeof *w.apart)};
    const bool has_room = w.a && w.b && w.curves && w.apart;
    for (int32_t n = 0; has_room && n < runs->arm_count; n++) average_arm(runs, &runs->arms[n], &w);
    for (int32_t n = 0; has_room && n < runs->arm_count; n++) {
        foci_arm *arm = &runs->arms[n];
        arm->difference = (foci_difference){(double)NAN, (double)NAN, 0, false};
        arm->reach_share = (double)NAN;
        arm->apart.mean.count = 0;
        if (arm->baseline < 0 || arm->baseline == n) continue;
        subtract_baseline(runs, arm, &runs->arms[arm->baseline], &w);
        find_reach(runs, arm, &runs->arms[arm->baseline], &w);
    }
    if (has_room) {
        find_sizes(runs, FOCI_AXIS_PARAMETERS, &w);
        find_sizes(runs, FOCI_AXIS_TOKENS, &w);
        find_kinds(runs);
        check_makers(runs);
    }
    foci_free(ctx, w.a);
    foci_free(ctx, w.b);
    foci_free(ctx, (void *)w.curves);
    foci_free(ctx, w.apart);
    return has_room ? FOCAL_OK : FOCAL_ENOMEM;
}
