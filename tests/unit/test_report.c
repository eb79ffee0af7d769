/* The page of an attention run: written whole or not at all, text escaped, bad calls refused. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "focal/report.h"

enum { T = 40, K = 3, TOP = 2, PAGE_BYTES = 1 << 20 };

typedef struct page_case {
    char folder[64], path[96];
    int32_t query_groups[T * TOP], key_groups[T];
    focal_report_sets sets;
    focal_report_run runs[2];
    focal_report_args args;
} page_case;

static void make_case(page_case *c)
{
    memset(c, 0, sizeof *c);
    (void)snprintf(c->folder, sizeof c->folder, "/tmp/focal-report-XXXXXX");
    assert_non_null(mkdtemp(c->folder));
    (void)snprintf(c->path, sizeof c->path, "%s/page.html", c->folder);
    for (int32_t n = 0; n < T; n++) {
        c->key_groups[n] = n / 5 % K;
        c->query_groups[(size_t)n * TOP] = n / 5 % K;
        c->query_groups[(size_t)n * TOP + 1] = (n / 5 + 1) % K;
    }
    c->sets = (focal_report_sets){.T = T,
                                  .K = K,
                                  .top = TOP,
                                  .window = 4,
                                  .sinks = 1,
                                  .query_groups = c->query_groups,
                                  .key_groups = c->key_groups};
    static const double loads[K] = {0.5, 0.25, 0.25};
    c->runs[0] = (focal_report_run){"dense & <all>", 10.0, 1.0, 1.0, 1.0, 1e-6};
    c->runs[1] = (focal_report_run){"groups", 5.0, 2.0, 0.3, -1.0, -1.0};
    c->args = (focal_report_args){.title = "A \"title\" <b>",
                                  .runs = c->runs,
                                  .run_count = 2,
                                  .sets = &c->sets,
                                  .loads = loads,
                                  .load_count = K};
}

static void end_case(page_case *c)
{
    (void)remove(c->path);
    assert_int_equal(rmdir(c->folder), 0); /* so no temporary file was left */
}

/* The file's text; the caller frees. */
static char *read_page(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, PAGE_BYTES);
    assert_non_null(text);
    assert_in_range(fread(text, 1, PAGE_BYTES - 1, file), 1000, PAGE_BYTES - 2);
    (void)fclose(file);
    return text;
}

static void page_is_whole_and_escaped(void **state)
{
    page_case c;
    make_case(&c);
    assert_int_equal(focal_report_attention(*state, c.path, &c.args), FOCAL_OK);
    char *text = read_page(c.path);
    assert_non_null(strstr(text, "</html>"));
    assert_non_null(strstr(text, "A &quot;title&quot; &lt;b&gt;"));
    assert_non_null(strstr(text, "dense &amp; &lt;all&gt;"));
    assert_null(strstr(text, "<all>"));
    assert_null(strstr(text, "://")); /* nothing is fetched from elsewhere */
    assert_null(strstr(text, "nan"));
    free(text);
    end_case(&c);
}

static void shared_groups_and_single_parts(void **state)
{
    page_case c;
    make_case(&c);
    c.sets.mode = FOCAL_SHARED;
    c.sets.key_groups = NULL;
    assert_int_equal(focal_report_attention(*state, c.path, &c.args), FOCAL_OK);
    const focal_report_args bare = {.title = "t"};
    assert_int_equal(focal_report_attention(*state, c.path, &bare), FOCAL_OK);
    end_case(&c);
}

static void bad_calls_are_refused(void **state)
{
    page_case c;
    make_case(&c);
    focal_report_args args = c.args;
    assert_int_equal(focal_report_attention(*state, NULL, &args), FOCAL_EINVAL);
    assert_int_equal(focal_report_attention(*state, "", &args), FOCAL_EINVAL);
    assert_int_equal(focal_report_attention(*state, c.path, NULL), FOCAL_EINVAL);
    args.title = NULL;
    assert_int_equal(focal_report_attention(*state, c.path, &args), FOCAL_EINVAL);
    args = c.args;
    args.runs = NULL;
    assert_int_equal(focal_report_attention(*state, c.path, &args), FOCAL_EINVAL);
    args = c.args;
    args.load_count = FOCAL_MAX_GROUPS + 1;
    assert_int_equal(focal_report_attention(*state, c.path, &args), FOCAL_EINVAL);
    args.load_count = K;
    args.loads = NULL;
    assert_int_equal(focal_report_attention(*state, c.path, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(*state), "report: load_count is 3, but loads is NULL");
    args.load_count = -1;
    assert_int_equal(focal_report_attention(*state, c.path, &args), FOCAL_EINVAL);
    c.sets.T = FOCAL_REPORT_MAX_TOKENS + 1;
    assert_int_equal(focal_report_attention(*state, c.path, &c.args), FOCAL_EINVAL);
    c.sets.T = T;
    c.sets.top = K + 1;
    assert_int_equal(focal_report_attention(*state, c.path, &c.args), FOCAL_EINVAL);
    c.sets.top = TOP;
    c.key_groups[T - 1] = K;
    assert_int_equal(focal_report_attention(*state, c.path, &c.args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(*state), "report: token 39 has a group out of range");
    end_case(&c);
}

static void unwritable_file_is_eio(void **state)
{
    page_case c;
    make_case(&c);
    char path[160];
    (void)snprintf(path, sizeof path, "%s/no/such/page.html", c.folder);
    assert_int_equal(focal_report_attention(*state, path, &c.args), FOCAL_EIO);
    assert_non_null(strstr(focal_ctx_error(*state), "cannot be written"));
    /* A folder stands where the file should go: the temporary file must not stay. */
    assert_int_equal(focal_report_attention(*state, c.folder, &c.args), FOCAL_EIO);
    end_case(&c);
}

/* The answer comes before the work, and asking changes nothing. */
static void path_can_be_checked_before(void **state)
{
    page_case c;
    make_case(&c);
    assert_int_equal(focal_report_check(*state, NULL), FOCAL_EINVAL);
    assert_int_equal(focal_report_check(*state, ""), FOCAL_EINVAL);
    assert_int_equal(focal_report_check(*state, c.path), FOCAL_OK);
    assert_int_not_equal(access(c.path, F_OK), 0);
    FILE *file = fopen(c.path, "wb");
    assert_non_null(file);
    assert_int_equal(fputs("kept", file) >= 0 && fclose(file) == 0, 1);
    assert_int_equal(focal_report_check(*state, c.path), FOCAL_OK);
    char text[8] = {0};
    file = fopen(c.path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof text - 1, file), 4);
    (void)fclose(file);
    assert_string_equal(text, "kept");
    char path[160];
    (void)snprintf(path, sizeof path, "%s/no/such/page.html", c.folder);
    assert_int_equal(focal_report_check(*state, path), FOCAL_EIO);
    assert_non_null(strstr(focal_ctx_error(*state), "cannot be written"));
    assert_int_equal(focal_report_check(*state, c.folder), FOCAL_EIO);
    end_case(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(page_is_whole_and_escaped, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(shared_groups_and_single_parts, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_calls_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(unwritable_file_is_eio, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(path_can_be_checked_before, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
