/* A report of runs: arms and their numbers, unfinished and damaged runs named, hostile names
 * escaped, the page well formed, its numbers those of the JSON, memory that runs out. */
#include "support/check.h"
#include "support/run_folders.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "focal/report.h"
#include "io/json.h"
#include "report/runs_group.h"

/* What a report said. */
typedef struct report {
    char *text;
    size_t bytes, room;
    int32_t notes;
    char last_note[512];
} report;

static void take_text(void *user, const char *text, size_t bytes)
{
    report *r = user;
    while (r->bytes + bytes + 1 > r->room) {
        r->room = 2 * r->room + 65536;
        r->text = realloc(r->text, r->room);
        assert_non_null(r->text);
    }
    memcpy(r->text + r->bytes, text, bytes);
    r->bytes += bytes;
    r->text[r->bytes] = '\0';
}

static void take_note(void *user, const char *sentence)
{
    report *r = user;
    r->notes++;
    (void)snprintf(r->last_note, sizeof r->last_note, "%s", sentence);
}

static report make_report(focal_ctx *ctx, const char *root, const char *baseline,
                          focal_report_format format)
{
    report r = {0};
    const focal_report_runs_args args = {.folders = &root,
                                         .folder_count = 1,
                                         .baselines = &baseline,
                                         .baseline_count = baseline ? 1 : 0,
                                         .format = format,
                                         .user = &r,
                                         .write = take_text,
                                         .on_note = take_note};
    assert_status(ctx, focal_report_runs(ctx, NULL, &args), FOCAL_OK);
    assert_non_null(r.text);
    return r;
}

static foci_runs *open_runs(focal_ctx *ctx, const char *root, const char *baseline)
{
    const focal_report_runs_args args = {.folders = &root,
                                         .folder_count = 1,
                                         .baselines = &baseline,
                                         .baseline_count = baseline ? 1 : 0};
    foci_runs *runs = NULL;
    assert_status(ctx, foci_runs_open(ctx, &args, &runs), FOCAL_OK);
    return runs;
}

/* Two arms of three seeds; t0.4 is better by 0.02, 0.03 and 0.04. */
static void write_pair(const char *root)
{
    static const double seeds[] = {0.0, 0.1, -0.05};
    for (int n = 0; n < 3; n++) {
        char name[32], after[160];
        run_spec spec = {.name = name, .seed = n + 1, .after = after};
        (void)snprintf(after, sizeof after,
                       "{\"measure\":\"copy\",\"length\":1024,\"value\":%g}\n"
                       "{\"measure\":\"copy\",\"length\":512,\"value\":0.9}\n",
                       0.5 + 0.1 * n);
        (void)snprintf(name, sizeof name, "t1-s%d", n + 1);
        spec.settings = "temperature.value = 1";
        spec.offset = seeds[n];
        run_folder_write(root, &spec);
        (void)snprintf(name, sizeof name, "t0.4-s%d", n + 1);
        spec.settings = "temperature.value = 0.4";
        spec.offset = seeds[n] - 0.02 - 0.01 * n;
        run_folder_write(root, &spec);
    }
}

static void arms_have_their_numbers(void **state)
{
    char root[RUN_FOLDER_PATH];
    run_root_new(root);
    write_pair(root);
    foci_runs *runs = open_runs(*state, root, NULL);
    assert_int_equal(runs->run_count, 6);
    assert_int_equal(runs->arm_count, 2);
    assert_int_equal(runs->notes.count, 0);
    const foci_arm *sharp = &runs->arms[0], *plain = &runs->arms[1];
    assert_string_equal(sharp->name, "t0.4");
    assert_string_equal(plain->name, "t1");
    assert_int_equal(sharp->baseline, 1);
    assert_int_equal(plain->baseline, 1);
    assert_int_equal(plain->final.n, 3);
    assert_true(fabs(plain->final.mean - (4.0 + 0.05 / 3.0)) < 1e-12);
    assert_true(sharp->difference.is_paired);
    assert_int_equal(sharp->difference.n, 3);
    assert_true(fabs(sharp->difference.mean + 0.03) < 1e-12);
    /* deviation 0.01, t 4.302653, root of 3 */
    assert_true(fabs(sharp->difference.half - 4.302652730 * 0.01 / sqrt(3.0)) < 1e-9);
    /* The mean curve is 0.03 below: from 4.25 at 300,000 to 4 at 400,000 tokens, 0.22 of 0.25. */
    const double reach = 300000.0 * pow(4.0 / 3.0, 0.22 / 0.25);
    assert_true(fabs(sharp->reach_share - reach / 400000.0) < 1e-9);
    assert_int_equal(sharp->seed_share.n, 2); /* seed 2 ends above the baseline's mean */
    assert_true(sharp->apart.mean.count == 4 && fabs(sharp->apart.mean.y[3] + 0.03) < 1e-12);
    assert_int_equal(runs->kind_count, 2);
    assert_true(runs->kinds[0].length == 512.0);
    assert_true(fabs(foci_arm_measure(runs, sharp, &runs->kinds[1]).mean - 0.6) < 1e-12);
    assert_true(fabs(sharp->seconds - 200.0) < 1e-9 && fabs(sharp->speed - 2000.0) < 1e-9);
    foci_runs_free(runs);
    runs = open_runs(*state, root, "temperature.value=0.40");
    assert_int_equal(runs->arms[1].baseline, 0);
    assert_true(fabs(runs->arms[1].difference.mean - 0.03) < 1e-12);
    assert_true(isnan(runs->arms[1].reach_share));
    foci_runs_free(runs);
    /* One run is compared with the one of its seed, not with the mean of all. */
    const run_spec lone = {
        .name = "lone", .settings = "temperature.value = 0.7", .seed = 2, .offset = 0.06};
    run_folder_write(root, &lone);
    runs = open_runs(*state, root, NULL);
    assert_int_equal(runs->arm_count, 3);
    const foci_arm *arm = runs->arms;
    while (arm->count > 1) arm++;
    assert_string_equal(arm->name, "lone");
    assert_true(arm->difference.is_paired && arm->difference.n == 1);
    assert_true(fabs(arm->difference.mean + 0.04) < 1e-12);
    foci_runs_free(runs);
    run_root_remove(root);
}

/* Each size of the baseline's temperature is met by the sizes of the other. */
static void parameters_are_found_between_sizes(void **state)
{
    char root[RUN_FOLDER_PATH];
    run_root_new(root);
    static const struct {
        const char *name, *settings;
        double parameters, offset;
    } sizes[] = {
        {"a", "model.width = 64\nmodel.heads = 2\ntemperature.value = 1", 1e6, 1.0},
        {"b", "model.width = 128\nmodel.heads = 2\ntemperature.value = 1", 1e7, 0.0},
        {"c", "model.width = 64\nmodel.heads = 2\ntemperature.value = 0.4", 1e6, 0.5},
        {"d", "model.width = 128\nmodel.heads = 2\ntemperature.value = 0.4", 1e7, -0.5},
    };
    for (size_t n = 0; n < FOCAL_COUNT(sizes); n++) {
        const run_spec spec = {.name = sizes[n].name,
                               .settings = sizes[n].settings,
                               .seed = 1,
                               .offset = sizes[n].offset,
                               .parameters = sizes[n].parameters};
        run_folder_write(root, &spec);
    }
    foci_runs *runs = open_runs(*state, root, NULL);
    assert_int_equal(runs->arm_count, 4);
    assert_int_equal(runs->row_count, 2);
    assert_string_equal(runs->rows[0].family, "temperature=0.4");
    assert_int_equal(runs->rows[0].axis, FOCI_AXIS_PARAMETERS);
    for (int32_t n = 0; n < 2; n++) {
        const foci_size_row *row = &runs->rows[n];
        if (runs->arms[row->baseline].parameters < 5e6) {
            assert_int_equal(row->kind, FOCI_EQUAL_SMALLER);
        } else { /* 4.0 lies half way between 4.5 and 3.5 */
            assert_int_equal(row->kind, FOCI_EQUAL_AT);
            assert_true(fabs(row->share - 1.0 / sqrt(10.0)) < 1e-9);
        }
    }
    foci_runs_free(runs);
    run_root_remove(root);
}

static bool has_note(const foci_runs *runs, const char *part)
{
    for (int32_t n = 0; n < runs->notes.count; n++)
        if (strstr(runs->notes.text[n], part)) return true;
    return false;
}

static void what_is_wrong_is_named(void **state)
{
    char root[RUN_FOLDER_PATH];
    run_root_new(root);
    write_pair(root);
    const run_spec half = {
        .name = "half", .settings = "temperature.value = 1", .seed = 9, .is_unfinished = true};
    run_folder_write(root, &half);
    const run_spec twice = {.name = "twice", .settings = "temperature.value = 1", .seed = 2};
    run_folder_write(root, &twice);
    run_file_write(root, "no-settings", "log.jsonl", "{}\n");
    run_file_write(root, "odd", "run.conf", "data.shards = s\nmodel.widht = 3\n");
    const run_spec hurt = {.name = "hurt", .settings = "temperature.value = 0.4", .seed = 8};
    run_folder_write(root, &hurt);
    run_file_write(root, "hurt", "log.jsonl",
                   "{\"step\":1,\"loss\":3,\"tokens\":5}\nnonsense\n{\"step\":0,\"loss\":3}\n"
                   "{\"step\":2,\"loss\":null,\"tokens\":1e300}\n"
                   "{\"step\":3,\"valid_loss\":4.5,\"tokens\":9}\n{\"step\":4,\"lo");
    foci_runs *runs = open_runs(*state, root, NULL);
    assert_true(has_note(runs, "half: not finished: there is no summary.json (step 200 of 400)"));
    assert_true(has_note(runs, "half is left out of means and curves"));
    assert_true(has_note(runs, "t1-s2 has the settings and the seed of twice: left out (another") ||
                has_note(runs, "twice has the settings and the seed of t1-s2: left out (another"));
    assert_true(has_note(runs, "no-settings/run.conf"));
    assert_true(has_note(runs, "model.widht"));
    assert_true(has_note(runs, "hurt: log.jsonl: 2 lines left out; the first, line 2: not JSON"));
    assert_true(has_note(runs, "hurt: log.jsonl ends within a line"));
    assert_true(has_note(runs, "hurt: 1 steps without a loss"));
    assert_true(has_note(runs, "hurt: summary.json gives the validation loss 4, log.jsonl 4.5"));
    assert_int_equal(runs->arm_count, 2);
    assert_int_equal(runs->arms[1].final.n, 3); /* neither half nor twice */
    foci_runs_free(runs);
    run_root_remove(root);
}

/* A log of any length keeps its first and last validations and the mean of its losses. */
static void long_logs_are_thinned_out(void **state)
{
    enum { STEPS = 20000 };
    foci_run_log *log = new_array(1, sizeof *log);
    foci_curve *train = new_array(1, sizeof *train);
    foci_run_log_start(log);
    for (int step = 1; step <= STEPS; step++) {
        char line[160];
        const int bytes =
            snprintf(line, sizeof line, "{\"step\":%d,\"loss\":%d,\"valid_loss\":%d,\"tokens\":%d}",
                     step, step % 2, STEPS - step, 10 * step);
        assert_int_equal(foci_run_log_line(*state, log, line, (size_t)bytes), FOCAL_OK);
    }
    assert_int_equal(log->bad_lines, 0);
    assert_in_range(log->valid.count, 256, FOCI_CURVE_MOST);
    assert_true(log->valid.x[0] == 10.0 && log->valid.y[0] == STEPS - 1);
    assert_true(log->valid.x[log->valid.count - 1] == 10.0 * STEPS);
    assert_true(log->valid.y[log->valid.count - 1] == 0.0);
    for (int32_t n = 1; n < log->valid.count; n++) {
        assert_true(log->valid.x[n] > log->valid.x[n - 1]);
        assert_true(log->valid.y[n] == STEPS - log->valid.x[n] / 10.0);
    }
    foci_run_log_train(log, train);
    assert_int_equal(log->block, 128); /* 20,000 steps in fewer than 256 blocks */
    assert_int_equal(train->count, 156);
    for (int32_t n = 0; n < train->count; n++) assert_true(train->y[n] == 0.5);
    assert_true(train->x[0] == 10.0 * 64.5);
    free(train);
    free(log);
}

/* Every tag that opens is closed, in order; no text has a bare "<". Tags without an end: meta, and
 * those that end in "/>". */
static void assert_well_formed(const char *text)
{
    char open[64][16];
    int depth = 0;
    const char *at = strchr(text, '>') + 1; /* behind the doctype */
    while ((at = strchr(at, '<')) != NULL) {
        const bool is_end = at[1] == '/';
        const char *name = at + 1 + is_end, *end = strchr(at, '>');
        const size_t bytes = strspn(name, "abcdefghijklmnopqrstuvwxyzPABCDEFGH0123456789");
        assert_non_null(end);
        assert_in_range(bytes, 1, 15);
        for (const char *c = at + 1; c < end; c++) assert_int_not_equal(*c, '<');
        if (is_end) {
            assert_in_range(depth, 1, 63);
            depth--;
            if (strlen(open[depth]) != bytes || strncmp(open[depth], name, bytes) != 0)
                fail_msg("<%s> is closed by %.40s", open[depth], at);
        } else if (end[-1] != '/' && strncmp(name, "meta", 4) != 0) {
            assert_in_range(depth, 0, 62);
            memcpy(open[depth], name, bytes);
            open[depth++][bytes] = '\0';
        }
        at = end + 1;
    }
    assert_int_equal(depth, 0);
}

static void page_is_whole_and_escaped(void **state)
{
    char root[RUN_FOLDER_PATH];
    run_root_new(root);
    write_pair(root);
    const run_spec hostile = {.name = "<script>alert(1)<\xFF\"'&-s1",
                              .settings = "temperature.value = 0.7\nsamples.prompt = \"<b>'&\"",
                              .seed = 1,
                              .after = "{\"measure\":\"<script>\",\"length\":9,\"value\":1}\n"
                                       "{\"measure\":\"<script>\",\"length\":99,\"value\":1e15}\n"};
    run_folder_write(root, &hostile);
    report r = make_report(*state, root, NULL, FOCAL_REPORT_HTML);
    assert_null(strstr(r.text, "<script"));
    assert_non_null(strstr(r.text, "&lt;script&gt;"));
    assert_null(strstr(r.text, "<i>")); /* of a sample */
    assert_null(strstr(r.text, "://")); /* nothing is fetched from elsewhere */
    assert_null(strstr(r.text, "nan"));
    assert_null(strstr(r.text, "inf\""));
    assert_null(strchr(r.text, '\xFF'));
    assert_non_null(strstr(r.text, "</html>"));
    assert_well_formed(r.text);
    free(r.text);
    r = make_report(*state, root, NULL, FOCAL_REPORT_JSON);
    foci_json *root_value = NULL;
    assert_status(*state, foci_json_parse(*state, "json", r.text, r.bytes, &root_value), FOCAL_OK);
    foci_json_free(root_value);
    free(r.text);
    r = make_report(*state, root, NULL, FOCAL_REPORT_MARKDOWN);
    assert_null(strstr(r.text, " <script"));
    free(r.text);
    run_root_remove(root);
}

static void assert_in_page(const report *page, const foci_json *object, const char *key,
                           int decimals)
{
    char text[64];
    const double value = foci_json_real(foci_json_get(object, key), (double)NAN);
    assert_false(isnan(value));
    (void)snprintf(text, sizeof text, "%.*f", decimals, fabs(value));
    if (!strstr(page->text, text)) fail_msg("%s is %s in JSON, and not in the page", key, text);
}

static void all_formats_give_the_same_numbers(void **state)
{
    char root[RUN_FOLDER_PATH];
    run_root_new(root);
    write_pair(root);
    report html = make_report(*state, root, NULL, FOCAL_REPORT_HTML);
    report json = make_report(*state, root, NULL, FOCAL_REPORT_JSON);
    report markdown = make_report(*state, root, NULL, FOCAL_REPORT_MARKDOWN);
    foci_json *value = NULL;
    assert_status(*state, foci_json_parse(*state, "json", json.text, json.bytes, &value), FOCAL_OK);
    const foci_json *arms = foci_json_get(value, "arms");
    assert_int_equal(foci_json_count(arms), 2);
    const report *pages[] = {&html, &markdown};
    for (int page = 0; page < 2; page++) {
        for (int64_t n = 0; n < 2; n++) {
            const foci_json *arm = foci_json_at(arms, n), *loss = foci_json_get(arm, "valid_loss");
            assert_in_page(pages[page], loss, "mean", 4);
            assert_in_page(pages[page], loss, "deviation", 4);
            assert_in_page(pages[page], loss, "least", 4);
            assert_in_page(pages[page], arm, "perplexity", 2);
        }
        const foci_json *difference = foci_json_get(foci_json_at(arms, 0), "difference");
        assert_in_page(pages[page], difference, "mean", 4);
        assert_in_page(pages[page], difference, "half_95", 4);
    }
    assert_non_null(strstr(html.text, "96.6 %")); /* (3/4)^0.12: see arms_have_their_numbers */
    assert_non_null(strstr(markdown.text, "| t1 | 3 | 1M | 400k | 4.0167 "));
    foci_json_free(value);
    free(html.text);
    free(json.text);
    free(markdown.text);
    run_root_remove(root);
}

static void one_run_alone_is_fine(void **state)
{
    char root[RUN_FOLDER_PATH];
    run_root_new(root);
    const run_spec spec = {.name = "alone", .settings = "", .seed = 1, .is_unfinished = true};
    run_folder_write(root, &spec);
    char path[2 * RUN_FOLDER_PATH];
    (void)snprintf(path, sizeof path, "%s/alone", root);
    report r = make_report(*state, path, NULL, FOCAL_REPORT_HTML);
    assert_well_formed(r.text);
    assert_int_equal(r.notes, 1);
    assert_non_null(strstr(r.text, "not finished"));
    assert_non_null(strstr(r.text, "4.5000")); /* how far it is */
    assert_non_null(strstr(r.text, "once &lt;i&gt;upon&lt;/i&gt;"));
    assert_null(strstr(r.text, "baseline"));
    free(r.text);
    run_root_remove(root);
}

static void bad_calls_are_refused(void **state)
{
    char root[RUN_FOLDER_PATH];
    run_root_new(root);
    const char *folder = root, *empty = "", *baseline = "t9";
    focal_report_runs_args args = {.folders = &folder, .folder_count = 1, .write = take_text};
    assert_status(*state, focal_report_runs(*state, NULL, NULL), FOCAL_EINVAL);
    assert_status(*state, focal_report_runs(*state, "", &args), FOCAL_EINVAL);
    assert_status(*state, focal_report_runs(*state, NULL, &args), FOCAL_EINVAL); /* no run in it */
    assert_non_null(strstr(focal_ctx_error(*state), "is neither a run's folder nor"));
    args.folders = &empty;
    assert_status(*state, focal_report_runs(*state, NULL, &args), FOCAL_EINVAL);
    args.folders = &folder;
    args.write = NULL;
    assert_status(*state, focal_report_runs(*state, NULL, &args), FOCAL_EINVAL);
    args.write = take_text;
    args.folder_count = 0;
    assert_status(*state, focal_report_runs(*state, NULL, &args), FOCAL_EINVAL);
    args.folder_count = 1;
    write_pair(root);
    args.baselines = &baseline;
    args.baseline_count = 1;
    assert_status(*state, focal_report_runs(*state, NULL, &args), FOCAL_EINVAL);
    assert_non_null(strstr(focal_ctx_error(*state), "no arm is named 't9'"));
    baseline = "temperature.value=3";
    assert_status(*state, focal_report_runs(*state, NULL, &args), FOCAL_EINVAL);
    assert_non_null(strstr(focal_ctx_error(*state), "no run is what --baseline asks for"));
    baseline = "temprature.value=3";
    assert_status(*state, focal_report_runs(*state, NULL, &args), FOCAL_EINVAL);
    assert_non_null(strstr(focal_ctx_error(*state), "--baseline: there is no key"));
    args.baseline_count = 0;
    char path[2 * RUN_FOLDER_PATH];
    (void)snprintf(path, sizeof path, "%s/no/such.html", root);
    assert_status(*state, focal_report_runs(*state, path, &args), FOCAL_EIO);
    run_root_remove(root);
}

/* The n-th request for memory fails, for every n: said, nothing left behind, no half file. */
static void memory_may_run_out(void **state)
{
    char root[RUN_FOLDER_PATH], path[2 * RUN_FOLDER_PATH];
    run_root_new(root);
    write_pair(root);
    const char *folder = root;
    const focal_report_runs_args args = {.folders = &folder, .folder_count = 1};
    (void)snprintf(path, sizeof path, "%s/page.html", root);
    const int64_t before = memory_live_blocks();
    focal_status status = FOCAL_ENOMEM;
    for (int64_t n = 1; status != FOCAL_OK && n < 1000; n++) {
        memory_fail(n, false);
        status = focal_report_runs(*state, path, &args);
        memory_fail(0, false);
        assert_true(status == FOCAL_OK || status == FOCAL_ENOMEM);
        assert_int_equal(memory_live_blocks(), before);
        assert_int_equal(access(path, F_OK) == 0, status == FOCAL_OK);
    }
    assert_int_equal(status, FOCAL_OK);
    run_root_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(arms_have_their_numbers, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(parameters_are_found_between_sizes, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_named, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(long_logs_are_thinned_out, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(page_is_whole_and_escaped, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(all_formats_give_the_same_numbers, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(one_run_alone_is_fine, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_calls_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_run_out, open_ctx, close_ctx),
    };
    foci_json *value = NULL;
    const bool has_json = foci_json_parse(NULL, "probe", "1", 1, &value) == FOCAL_OK;
    foci_json_free(value);
    if (!has_json) {
        (void)printf("built without Jansson: nothing to test\n");
        return 0;
    }
    return cmocka_run_group_tests_name("runs_report", tests, NULL, NULL);
}
