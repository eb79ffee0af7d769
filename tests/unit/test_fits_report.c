/* The page of adapters: numbers as measured, names that cannot break it, folders with parts that
 * are missing or damaged. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/fits_read.h"
#include "support/adapter_files.h"

enum { NOTES = 8, NOTE_BYTES = 512 };

/* Whole but for what a test changes: a text's name, a token and a model that mean something in
 * HTML. */
static const char good[] =
    "{\"measure\":\"groups\",\"focal\":\"0.1.0\",\"model\":\"<i>m</i>.gguf\",\"precision\":\"f32\","
    "\"cache_type\":\"bf16\",\"fingerprint\":\"" ADAPTER_DIGITS
    "\",\"adapter_checksum\":\"CHECKSUM\","
    "\"context\":512,\"batch\":1024,\"rounds\":1,\"threads\":2,"
    "\"texts\":[{\"name\":\"a<b>.txt\",\"tokens\":511},{\"name\":\"c.txt\",\"tokens\":99}],"
    "\"settings\":["
    "{\"kind\":\"dense\",\"loss\":3.5,\"kept\":1.0,\"tokens_per_second\":100.0,"
    "\"losses\":[3.5,3.5]},"
    "{\"kind\":\"top\",\"top\":0,\"loss\":3.75,\"kept\":0.0,\"tokens_per_second\":200.0,"
    "\"losses\":[3.75,3.75]},"
    "{\"kind\":\"top\",\"top\":3,\"loss\":3.5625,\"kept\":0.25,\"tokens_per_second\":150.0,"
    "\"losses\":[3.5,3.8]},"
    "{\"kind\":\"temperatures\",\"loss\":3.25,\"kept\":1.0,\"tokens_per_second\":null,"
    "\"losses\":[3.25,3.25]}],"
    "\"groups\":5,\"groups_top\":1,"
    "\"sizes\":[{\"layer\":0,\"router\":0,\"shares\":[0.4,0.3,0.1,0.1,0.1]},"
    "{\"layer\":0,\"router\":1,\"shares\":[0.2,0.2,0.2,0.2,0.2]},{\"layer\":2,\"router\":0,"
    "\"shares\":[1,0,0,0,0]}],"
    "\"typical\":[{\"layer\":0,\"router\":0,\"groups\":[[{\"text\":\" <script>\",\"here\":3,"
    "\"all\":4}],[],[],[],[]]}]}";

typedef struct notes {
    int count;
    char text[NOTES][NOTE_BYTES];
} notes;

static void on_note(void *user, const char *sentence)
{
    notes *n = user;
    assert_true(n->count < NOTES);
    (void)snprintf(n->text[n->count++], NOTE_BYTES, "%s", sentence);
}

static void put_file(const folder *f, const char *name, const char *text)
{
    write_bytes(folder_file(f, name), text, strlen(text));
}

/* A whole measure.json of the adapter in the folder. */
static void put_measure(focal_ctx *ctx, const folder *f)
{
    focal_adapter *adapter = adapter_open(ctx, f->path);
    put_file(f, "measure.json", good);
    adapter_edit(f, "measure.json", "CHECKSUM", focal_adapter_describe(adapter).checksum);
    focal_adapter_close(adapter);
}

/* The page of the folders, as text to free(). */
static char *page_of(focal_ctx *ctx, const char *const *folders, int32_t count, notes *n)
{
    const folder to = folder_new();
    const char *path = folder_file(&to, "page.html");
    const focal_report_fits_args args = {
        .folders = folders, .folder_count = count, .on_note = on_note, .user = n};
    size_t bytes = 0;
    *n = (notes){0};
    assert_status(ctx, focal_report_fits(ctx, path, &args), FOCAL_OK);
    char *data = read_bytes(path, &bytes);
    char *text = new_array(bytes + 1, 1);
    memcpy(text, data, bytes);
    free(data);
    assert_int_equal(folder_count(&to), 1);
    folder_remove(&to);
    return text;
}

static void assert_has(const char *page, const char *part)
{
    if (!strstr(page, part)) fail_msg("the page lacks %s", part);
}

static void assert_lacks(const char *page, const char *part)
{
    if (strstr(page, part)) fail_msg("the page has %s", part);
}

static void the_page_has_what_was_measured(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = adapter_write_good(ctx, FOCAL_BF16);
    const char *folders[] = {f.path};
    notes n;
    put_measure(ctx, &f);
    put_file(&f, "log.jsonl",
             "{\"step\":1,\"loss\":3,\"kl\":0.5,\"largest_group\":0.25}\n"
             "{\"step\":2,\"loss\":3,\"kl\":0.25,\"largest_group\":0.5}\n");
    char *page = page_of(ctx, folders, 1, &n);
    assert_int_equal(n.count, 0);
    assert_has(page, "<h1>Adapters of a &quot;base&quot; of \xC3\xA9</h1>");
    assert_has(page, "groups, K 5, 250 steps");
    /* gaps to dense, of all texts and of each; the share; the speed */
    assert_has(page, "<td>25.0</td><td>3.5625</td><td>+0.0625</td><td>0.0000</td><td>+0.3000</td>"
                     "<td>150</td><td>1.50</td>");
    assert_has(page, "<td>&minus;0.2500</td>");
    assert_has(page, "groups 3, at 25: 0.0625");
    assert_has(page, "Divergence from the dense model");
    /* of shared groups these are no shares of keys, of which each is in several */
    assert_has(page, "layer 0, router 0: 40.0 % in the fullest group, 10.0 % in the emptiest");
    assert_has(page, "Share of each group, layer by layer");
    assert_has(page, "<th scope=\"col\">share (%)</th>");
    assert_has(page, ">share of the largest group</text>");
    assert_has(page, "collapse is 1, with shared groups 1 / the groups of a key");
    assert_lacks(page, "share of keys");
    /* texts of files cannot become tags */
    assert_has(page, "a&lt;b&gt;.txt");
    assert_has(page, "<code title=\"3 of 4\">\xE2\x90\xA3&lt;script&gt;</code>");
    assert_has(page, "-m '&lt;i&gt;m&lt;/i&gt;.gguf'");
    assert_lacks(page, "<script");
    assert_lacks(page, "<i>");
    assert_lacks(page, "http");
    free(page);
    folder_remove(&f);
}

/* The number behind a text, from a place of the page on; the place moves behind it. */
static double number_behind(const char **place, const char *text)
{
    const char *found = strstr(*place, text);
    if (!found) fail_msg("the page lacks %s", text);
    *place = found + strlen(text);
    return strtod(*place, NULL);
}

/* The tag of the last point too, which has the edge of the picture behind it. */
static void tags_lie_inside_the_picture(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = adapter_write_good(ctx, FOCAL_BF16);
    const char *folders[] = {f.path};
    notes n;
    put_measure(ctx, &f);
    char *page = page_of(ctx, folders, 1, &n);
    const char *at = strstr(page, "<clipPath id=\"loss-clip\">");
    assert_non_null(at);
    const double left = number_behind(&at, "<rect x=\""), width = number_behind(&at, "width=\"");
    for (int tag = 0; tag < 2; tag++)
        assert_true(number_behind(&at, "class=\"tag\" x=\"") + 7.0 <= left + width);
    free(page);
    folder_remove(&f);
}

/* A line that rises steeply behind a mark would go through a number above it. */
static void tags_lie_beside_their_lines(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = adapter_write_good(ctx, FOCAL_BF16);
    const char *folders[] = {f.path};
    notes n;
    put_measure(ctx, &f);
    for (int is_rising = 0; is_rising < 2; is_rising++) {
        if (is_rising) adapter_edit(&f, "measure.json", "\"loss\":3.75", "\"loss\":3.25");
        char *page = page_of(ctx, folders, 1, &n);
        const char *at = page;
        (void)number_behind(&at, "<circle class=\"mark\" cx=\"");
        const double mark = number_behind(&at, " cy=\"");
        (void)number_behind(&at, "class=\"tag\" x=\"");
        assert_true((number_behind(&at, " y=\"") > mark) == (is_rising == 1));
        free(page);
    }
    folder_remove(&f);
}

/* Small differences have long labels, which the axis's title must not touch. */
static void labels_of_an_axis_have_room(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = adapter_write_good(ctx, FOCAL_BF16);
    const char *folders[] = {f.path};
    notes n;
    put_measure(ctx, &f);
    adapter_edit(&f, "measure.json", "\"loss\":3.75", "\"loss\":3.4988");
    adapter_edit(&f, "measure.json", "\"loss\":3.5625", "\"loss\":3.4996");
    char *page = page_of(ctx, folders, 1, &n);
    const char *label = strstr(page, ">-0.0012</text>");
    assert_non_null(label);
    while (strncmp(label, "<text x=", strlen("<text x=")) != 0) label--;
    const double end = number_behind(&label, "<text x=\"");
    const double begin = end - 7.0 * (double)strlen("-0.0012");
    assert_true(begin > 20.0); /* where the title's letters end */
    free(page);
    folder_remove(&f);
}

/* The first steps are far from the others: the picture is of those, and ends where its axes do. */
static void curves_end_at_the_axes(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = adapter_write_good(ctx, FOCAL_BF16);
    const char *folders[] = {f.path};
    char log[100 * 64] = "";
    size_t used = 0;
    notes n;
    for (int step = 1; step <= 100; step++)
        used += (size_t)snprintf(log + used, sizeof log - used,
                                 "{\"step\":%d,\"loss\":3,\"kl\":%d,\"largest_group\":%.2f}\n",
                                 step, step < 4 ? 90 : 1 + step % 2, step < 4 ? 0.05 : 0.5);
    put_file(&f, "log.jsonl", log);
    char *page = page_of(ctx, folders, 1, &n);
    const char *at = strstr(page, "<clipPath id=\"largest-clip\">");
    assert_non_null(at);
    const double top = number_behind(&at, "y=\""), height = number_behind(&at, "height=\"");
    const char *axis = strstr(page, "<path class=\"axis\" d=\"M");
    assert_non_null(axis);
    (void)number_behind(&axis, " d=\"M");
    assert_true(number_behind(&axis, " ") == top + height);
    assert_has(page, "The first 5 % of the steps set no limits");
    free(page);
    folder_remove(&f);
}

/* Many points have no numbers beside them, and no caption that says so. */
static void captions_are_of_what_is_drawn(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = adapter_write_good(ctx, FOCAL_BF16);
    const char *folders[] = {f.path, f.path, f.path, f.path, f.path};
    notes n;
    put_measure(ctx, &f);
    for (int32_t count = 4; count <= 5; count++) {
        char *page = page_of(ctx, folders, count, &n);
        const bool has_tags = strstr(page, "class=\"tag\"") != NULL;
        assert_true(has_tags == (count == 4));
        assert_true(has_tags == (strstr(page, "which stands beside it: 0 is") != NULL));
        assert_true(has_tags == !strstr(page, "point at it to see which"));
        assert_lacks(page, "they are controls");
        free(page);
    }
    adapter_edit(&f, "measure.json", "\"top\",\"top\":3", "\"adapter\"");
    char *page = page_of(ctx, folders, 1, &n);
    assert_has(page, "they are controls");
    /* what the adapter runs with is bold, and is not what the model is without it */
    assert_has(page, "<tr class=\"own\"><th scope=\"row\">with the adapter</th>");
    assert_lacks(page, ">as it is<");
    free(page);
    folder_remove(&f);
}

/* What is one point is no circle of a line, nor the mark of another point of its colour. */
static void points_alone_have_marks_of_their_own(void **state)
{
    focal_ctx *ctx = *state;
    enum { COUNT = 8 }; /* the last has the colour of the first */
    static const char square[] = "m-4.5-4.5h9v9h-9z", triangle[] = "m0 5.5l6-10h-12z";
    const folder f = adapter_write_good(ctx, FOCAL_BF16);
    const char *folders[COUNT];
    notes n;
    for (int i = 0; i < COUNT; i++) folders[i] = f.path;
    put_measure(ctx, &f);
    char *page = page_of(ctx, folders, COUNT, &n);
    assert_lacks(page, square);
    free(page);
    adapter_edit(&f, "measure.json", "\"top\",\"top\":0", "\"temperatures\"");
    page = page_of(ctx, folders, COUNT, &n);
    assert_lacks(page, "<circle class=\"mark\"");
    const char *group = strstr(page, "<g class=\"series c0\">");
    assert_non_null(group);
    const char *mark = strstr(group, square);
    assert_true(mark && mark < strstr(group, "</g>"));
    group = strstr(group + 1, "<g class=\"series c0\">");
    assert_non_null(group);
    mark = strstr(group, triangle);
    assert_true(mark && mark < strstr(group, "</g>"));
    /* in the legends too */
    assert_lacks(page, "<path class=\"line d0\" d=\"M1 5H29\"/>");
    assert_has(page, "<path class=\"mark\" d=\"M15.0 5.0m-4.5-4.5h9v9h-9z\"/></svg>groups");
    free(page);
    folder_remove(&f);
}

/* An adapter is called by what it is. */
static void labels_say_what_is_not_as_usual(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *key, *value, *settings, *label;
    } cases[] = {
        {"\"causal\": true", "\"causal\": false", "{\"steps\": 7}",
         ">groups (not causal), K 5, 7 steps<"},
        {"\"top\": 3", "\"top\": 0", "{}", ">window alone<"},
        {"\"top\": 3", "\"top\": 0", "{\"groups.method\": \"temperature\", \"steps\": 7}",
         ">window, temperatures, 7 steps<"},
        {"", "", "{\"steps\": 0, \"groups.method\": \"focus\"}", ">untrained groups, K 5<"},
        {"\"top\": 3", "\"top\": 0", "{\"groups.method\": \"none\", \"steps\": 0}",
         ">window alone<"},
        {"", "", "{\"steps\": 0, \"groups.method\": \"start\"}", ">untrained start, K 5<"},
        {"", "", "{\"steps\": 0, \"groups.method\": \"random\"}", ">random groups, K 5<"},
        {"", "",
         "{\"steps\": 9, \"groups.method\": \"focus\", \"groups.gate\": \"log\", "
         "\"objective\": \"lm\"}",
         ">groups, K 5, 9 steps, log gate, LM loss<"},
        {"", "", "{\"steps\": 9, \"groups.method\": \"<b>\"}", ">groups, K 5, 9 steps<"},
    };
    for (size_t i = 0; i < FOCAL_COUNT(cases); i++) {
        const folder f = adapter_write_good(ctx, FOCAL_BF16);
        const char *folders[] = {f.path};
        notes n;
        if (*cases[i].key) adapter_edit(&f, FOCI_ADAPTER_CONFIG, cases[i].key, cases[i].value);
        adapter_edit(&f, FOCI_ADAPTER_CONFIG,
                     "{\"steps\": 250, \"lr\": 0.1, \"text\": [\"a\", null]}", cases[i].settings);
        char *page = page_of(ctx, folders, 1, &n);
        assert_has(page, cases[i].label);
        free(page);
        folder_remove(&f);
    }
}

/* The paper's form has routers that are raw and a balance over whole texts. */
static void only_the_papers_form_is_called_so(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        bool is_raw, is_causal;
        const char *label;
    } cases[] = {
        {true, false, ">paper's form (not causal), K 3, 9 steps<"},
        {true, true, ">groups, K 3, 9 steps, layer scope, shared, paper gate, LM loss<"},
        {false, false, ">groups (not causal), K 3, 9 steps, layer scope, shared, paper gate, LM"},
    };
    for (size_t i = 0; i < FOCAL_COUNT(cases); i++) {
        const folder f = folder_new();
        const char *folders[] = {f.path};
        foci_groups_shape shape = adapter_shapes[1];
        foci_adapter_note note = adapter_note(FOCAL_BF16);
        notes n;
        shape.is_raw = cases[i].is_raw;
        note.is_causal = cases[i].is_causal;
        note.settings = "{\"steps\": 9, \"groups.method\": \"focus\", \"groups.gate\": \"paper\", "
                        "\"objective\": \"lm\"}";
        foci_groups *groups = adapter_groups(ctx, &shape);
        assert_status(ctx, foci_adapter_write(ctx, f.path, groups, &note), FOCAL_OK);
        foci_groups_free(ctx, groups);
        char *page = page_of(ctx, folders, 1, &n);
        assert_has(page, cases[i].label);
        free(page);
        folder_remove(&f);
    }
}

/* Cells of groups, runs with, fitted with, window and sinks, behind the number of layers. */
static void rows_have_what_an_adapter_of_its_kind_has(void **state)
{
    focal_ctx *ctx = *state;
    static const char dash[] = "<td>&ndash;</td>";
    for (int shape = 0; shape < ADAPTER_SHAPES; shape++) {
        const foci_groups_shape *s = &adapter_shapes[shape];
        const folder f = folder_new();
        const char *folders[] = {f.path};
        const foci_adapter_note note = adapter_note(FOCAL_BF16);
        foci_groups *groups = adapter_groups(ctx, s);
        char want[160], window[64], fitted[32];
        int32_t layers = 0;
        notes n;
        assert_status(ctx, foci_adapter_write(ctx, f.path, groups, &note), FOCAL_OK);
        foci_groups_free(ctx, groups);
        for (int32_t i = 0; i < s->L; i++) layers += s->layers[i];
        if (layers > 0)
            (void)snprintf(window, sizeof window, "<td>17</td><td>2</td>");
        else
            (void)snprintf(window, sizeof window, "%s%s", dash, dash);
        if (s->source == FOCI_GROUPS_RANDOM)
            (void)snprintf(fitted, sizeof fitted, "%s", dash);
        else
            (void)snprintf(fitted, sizeof fitted, "<td>%d</td>", s->K > 1 ? 2 : 1);
        if (layers > 0 && s->source != FOCI_GROUPS_NONE && s->source != FOCI_GROUPS_SCALE)
            (void)snprintf(want, sizeof want, "<td>%d</td><td>%d</td><td>%d</td>%s%s", layers, s->K,
                           s->K > 2 ? 3 : 1, fitted, window);
        else
            (void)snprintf(want, sizeof want, "<td>%d</td>%s%s%s%s", layers, dash, dash, dash,
                           window);
        char *page = page_of(ctx, folders, 1, &n);
        assert_has(page, want);
        free(page);
        folder_remove(&f);
    }
}

/* Of two folders with one name, one with a run.conf: commands that work, and what is known. */
static void the_page_says_how_to_make_it_again(void **state)
{
    focal_ctx *ctx = *state;
    const folder a = adapter_write_good(ctx, FOCAL_BF16), b = adapter_write_good(ctx, FOCAL_BF16);
    char slashes[300], want[700];
    const char *name = strrchr(a.path, '/') + 1;
    notes n;
    (void)snprintf(slashes, sizeof slashes, "%s//", a.path);
    const char *folders[] = {a.path, slashes, b.path};
    put_measure(ctx, &b);
    put_file(&a, "run.conf", "seed = 1\n");
    char *page = page_of(ctx, folders, 3, &n);
    (void)snprintf(want, sizeof want,
                   "<pre>mkdir -p again\nfocal fit %s/run.conf -o again/%s\n"
                   "focal fit %s/run.conf -o again/%s-2\nfocal info %s  # has no run.conf",
                   a.path, name, a.path, name, b.path);
    assert_has(page, want);
    (void)snprintf(want, sizeof want,
                   "--adapter %s 'a&lt;b&gt;.txt' c.txt -c 512 -b 1024 -t 2 --rounds 1 --precision "
                   "f32 --cache-type bf16 --top 0,3\n",
                   b.path);
    assert_has(page, want);
    (void)snprintf(want, sizeof want, "focal report again/%s again/%s-2 %s</pre>", name, name,
                   b.path);
    assert_has(page, want);
    /* what was read, not what was asked for: of the second text there is less */
    assert_has(page, "a&lt;b&gt;.txt (512 tokens), c.txt (all 100 tokens)");
    free(page);
    folder_remove(&a);
    folder_remove(&b);
}

static void folders_without_numbers_say_how_to_get_them(void **state)
{
    focal_ctx *ctx = *state;
    const folder a = adapter_write_good(ctx, FOCAL_BF16), b = adapter_write_good(ctx, FOCAL_F32);
    const char *folders[] = {a.path, b.path};
    char want[160];
    notes n;
    put_measure(ctx, &b);
    char *page = page_of(ctx, folders, 2, &n);
    assert_int_equal(n.count, 1);
    (void)snprintf(want, sizeof want, "focal eval groups -m MODEL --adapter %s TEXT...", a.path);
    assert_non_null(strstr(n.text[0], want));
    assert_has(page, want);
    /* two of a kind are told apart */
    (void)snprintf(want, sizeof want, "groups, K 5, 250 steps (%s)", strrchr(a.path, '/') + 1);
    assert_has(page, want);
    free(page);
    folder_remove(&a);
    folder_remove(&b);
}

/* As much of a path as tells it from the others, and its number where no path does. */
static void folders_of_one_name_are_told_apart(void **state)
{
    static const char end[] = "/0123456789/0123456789/0123456789/0123456789/01234/fit";
    char one[128], two[128];
    (void)state;
    (void)snprintf(one, sizeof one, "a/0123456789%s", end);
    (void)snprintf(two, sizeof two, "b/0123456789%s", end);
    const struct {
        const char *paths[4], *names[4];
    } rows[] = {
        {{"a/fit", "window/"}, {"fit", "window"}},
        {{"a/fit", "b/fit", "b/none"}, {"a/fit", "b/fit", "none"}},
        {{"fit", "b/fit//", "/c/b/fit"}, {"fit", "b/fit", "c/b/fit"}},
        {{"a/fit", "a/fit/", "b/fit"}, {"a/fit #1", "a/fit #2", "b/fit"}},
        {{"/x/a/fit", "/y/a/fit", "b/fit"}, {"x/a/fit", "y/a/fit", "b/fit"}},
        {{"a\n/fit", "b/fit"}, {"a?/fit", "b/fit"}},
        {{one, two},
         {"...456789/0123456789/0123456789/0123456789/0123456789/01234/fit #1",
          "...456789/0123456789/0123456789/0123456789/0123456789/01234/fit #2"}},
    };
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        int32_t count = 0;
        char name[FOCI_FIT_NAME];
        while (count < 4 && rows[n].paths[count]) count++;
        for (int32_t i = 0; i < count; i++) {
            foci_fit_name(rows[n].paths, count, i, name);
            assert_string_equal(name, rows[n].names[i]);
        }
    }
}

/* What stands side by side was measured in one way, or a note says what differs. */
static void other_ways_to_measure_are_noted(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *from, *to, *why;
    } edits[] = {
        {"", "", NULL},
        {"c.txt", "d.txt", "other texts"},
        {"\"context\":512", "\"context\":256", "other texts or lengths"},
        {"\"threads\":2", "\"threads\":4", " with 4 threads, f32, batch 1024, cache bf16, but "},
        {"\"precision\":\"f32\"", "\"precision\":\"bf16\"", "with 2 threads, bf16, batch"},
        {"\"batch\":1024", "\"batch\":64", " with 2 threads, f32, batch 64, cache bf16, but "},
        {"\"cache_type\":\"bf16\"", "\"cache_type\":\"q8_0\"", "cache q8_0, but "},
    };
    const folder a = adapter_write_good(ctx, FOCAL_BF16), b = adapter_write_good(ctx, FOCAL_BF16);
    const char *folders[] = {a.path, b.path};
    put_measure(ctx, &a);
    for (size_t i = 0; i < FOCAL_COUNT(edits); i++) {
        notes n;
        put_measure(ctx, &b);
        adapter_edit(&b, "measure.json", edits[i].from, edits[i].to);
        free(page_of(ctx, folders, 2, &n));
        assert_int_equal(n.count, edits[i].why ? 1 : 0);
        if (edits[i].why && !strstr(n.text[0], edits[i].why)) fail_msg("%s", n.text[0]);
    }
    folder_remove(&a);
    folder_remove(&b);
}

/* Numbers of another adapter, or of this one before it was changed, are not shown. */
static void measures_of_other_adapters_are_left_out(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *file, *from, *to, *why;
    } edits[] = {
        {"measure.json", ADAPTER_DIGITS, "fedcba9876543210", "fingerprint fedcba9876543210"},
        {"measure.json", "\"groups\":5,\"groups_top\":1", "\"other\":5", ""}, /* may have none */
        {FOCI_ADAPTER_CONFIG, "\"steps\": 250", "\"steps\": 300", "checksum"},
        {FOCI_ADAPTER_TENSORS, "F32", "F32", ""}, /* written anew, but the same */
    };
    for (size_t i = 0; i < FOCAL_COUNT(edits); i++) {
        const folder f = adapter_write_good(ctx, FOCAL_BF16);
        const char *folders[] = {f.path};
        notes n;
        put_measure(ctx, &f);
        adapter_edit(&f, edits[i].file, edits[i].from, edits[i].to);
        char *page = page_of(ctx, folders, 1, &n);
        const bool is_own = *edits[i].why == '\0';
        assert_int_equal(n.count, is_own ? 0 : 2); /* why, and how to measure */
        if (!is_own && !strstr(n.text[0], edits[i].why)) fail_msg("%s", n.text[0]);
        if (is_own)
            assert_has(page, "3.5625");
        else
            assert_lacks(page, "3.5625");
        free(page);
        folder_remove(&f);
    }
    /* One number of the weights, and another number of groups. */
    const folder f = adapter_write_good(ctx, FOCAL_BF16);
    const char *folders[] = {f.path};
    const float number = 0.25F;
    notes n;
    put_measure(ctx, &f);
    adapter_poke(ctx, &f, "base_model.model.layers.0.self_attn.log_temperature", 0, &number,
                 sizeof number);
    free(page_of(ctx, folders, 1, &n));
    assert_int_equal(n.count, 2);
    assert_non_null(strstr(n.text[0], "checksum"));
    adapter_edit(&f, "measure.json", "\"groups\":5", "\"groups\":2");
    adapter_edit(&f, "measure.json", "[0.4,0.3,0.1,0.1,0.1]", "[0.4,0.6]");
    adapter_edit(&f, "measure.json", "[0.2,0.2,0.2,0.2,0.2]", "[0.5,0.5]");
    adapter_edit(&f, "measure.json", "[1,0,0,0,0]", "[1,0]");
    adapter_edit(&f, "measure.json", ",[],[],[],[]]", ",[]]");
    free(page_of(ctx, folders, 1, &n));
    assert_int_equal(n.count, 2);
    assert_non_null(strstr(n.text[0], "it is of 2 groups, the adapter has 5"));
    folder_remove(&f);
}

/* Damaged, or with a part that is not understood: the page is of the others, and says so. */
static void adapters_that_cannot_be_read_are_left_out(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *to, *why;
    } edits[] = {{"\"causal\": 7", "'causal'"}, {"\"causal\": true, \"novel\": 1", "'novel'"}};
    const folder good_one = adapter_write_good(ctx, FOCAL_BF16);
    for (size_t i = 0; i < FOCAL_COUNT(edits); i++) {
        const folder bad = adapter_write_good(ctx, FOCAL_BF16), to = folder_new();
        const char *folders[] = {bad.path, good_one.path};
        const focal_report_fits_args alone = {.folders = folders, .folder_count = 1};
        notes n;
        adapter_edit(&bad, FOCI_ADAPTER_CONFIG, "\"causal\": true", edits[i].to);
        char *page = page_of(ctx, folders, 2, &n);
        assert_has(page, ">1 adapter, 0 of them measured<");
        assert_int_equal(n.count, 2); /* why, and how to measure the other */
        assert_true(strncmp(n.text[0], "left out: ", strlen("left out: ")) == 0);
        assert_non_null(strstr(n.text[0], edits[i].why));
        assert_status(ctx, focal_report_fits(ctx, folder_file(&to, "page.html"), &alone),
                      FOCAL_EINVAL);
        assert_non_null(strstr(focal_ctx_error(ctx), edits[i].why));
        free(page);
        folder_remove(&bad);
        folder_remove(&to);
    }
    folder_remove(&good_one);
}

/* One page has one dense model. */
static void adapters_of_two_models_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    const folder a = adapter_write_good(ctx, FOCAL_BF16), b = adapter_write_good(ctx, FOCAL_BF16);
    const folder to = folder_new();
    const char *folders[] = {a.path, b.path};
    const focal_report_fits_args args = {.folders = folders, .folder_count = 2};
    adapter_edit(&b, FOCI_ADAPTER_CONFIG, ADAPTER_DIGITS, "fedcba9876543210");
    assert_status(ctx, focal_report_fits(ctx, folder_file(&to, "page.html"), &args), FOCAL_EINVAL);
    assert_non_null(strstr(focal_ctx_error(ctx), "(fedcba9876543210): each model"));
    assert_int_equal(folder_count(&to), 0);
    folder_remove(&a);
    folder_remove(&b);
    folder_remove(&to);
}

/* A file with one thing changed is refused with a sentence about it; the page goes on without. */
static void damaged_measures_are_left_out(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *from, *to, *why;
    } edits[] = {
        {"\"groups\",\"focal\"", "\"copy\",\"focal\"", "its measure"},
        {"\"context\":512", "\"context\":1", "'context'"},
        {"\"context\":512", "\"context\":\"512\"", "'context'"},
        {"\"threads\":2,", "", "'threads'"},
        {"\"cache_type\":\"bf16\",", "", "'cache_type'"},
        {ADAPTER_DIGITS, "0123", "'fingerprint'"},
        {ADAPTER_DIGITS, "0123456789abcdeF", "'fingerprint'"},
        {"\"adapter_checksum\"", "\"adapter\"", "'adapter_checksum'"},
        {"\"a<b>.txt\"", "7", "'name'"},
        {"\"dense\"", "\"thick\"", "'thick'"},
        {"\"kind\":\"dense\"", "\"kind\":\"adapter\"", "dense one"},
        {"\"kind\":\"temperatures\"", "\"kind\":\"dense\"", "dense one"},
        {"\"top\":3", "\"top\":65", "'top'"},
        {"3.5625", "null", "'loss'"},
        {"3.5625", "1e300", "'loss'"},
        {"\"kept\":0.25", "\"kept\":1.25", "'kept'"},
        {"[3.5,3.8]", "[3.5]", "'losses'"},
        {"[3.5,3.8]", "[3.5,true]", "'losses'"},
        {"\"groups\":5", "\"groups\":65", "'groups'"},
        {"\"groups_top\":1", "\"groups_top\":6", "'groups_top'"},
        {"[0.4,0.3,", "[0.4,", "'shares'"},
        {"[0.4,0.3,", "[0.4,-1,", "'shares'"},
        {"\"router\":1", "\"router\":2", "ascend"},
        {"\"layer\":2,\"router\":0", "\"layer\":2,\"router\":1", "ascend"},
        {"\"here\":3", "\"here\":5", "'all'"},
        {",[]]", "]", "'groups'"},
        {",[]]", ",7]", "list of at most"},
        {"\"typical\":[", "\"typical\":[[", "measure.json"},
        {"\"text\":\" <script>\"", "\"text\":null", "'text'"},
    };
    for (size_t i = 0; i < FOCAL_COUNT(edits); i++) {
        const folder f = adapter_write_good(ctx, FOCAL_BF16);
        const char *folders[] = {f.path};
        notes n;
        put_measure(ctx, &f);
        adapter_edit(&f, "measure.json", edits[i].from, edits[i].to);
        free(page_of(ctx, folders, 1, &n));
        assert_int_equal(n.count, 2); /* why, and how to measure */
        if (!strstr(n.text[0], edits[i].why) || !strstr(n.text[0], "measure.json"))
            fail_msg("'%s' for '%s' gives: %s", edits[i].to, edits[i].from, n.text[0]);
        folder_remove(&f);
    }
}

static void long_logs_become_means(void **state)
{
    focal_ctx *ctx = *state;
    enum { STEPS = 1000 };
    foci_fit_log log;
    foci_fit_log_start(&log);
    for (int step = 1; step <= STEPS; step++) {
        char line[128];
        const int bytes =
            snprintf(line, sizeof line, "{\"step\":%d,\"loss\":1,\"kl\":%d,\"largest_group\":0.5}",
                     step, 2 * step);
        assert_status(ctx, foci_fit_log_line(ctx, &log, line, (size_t)bytes), FOCAL_OK);
    }
    static const char *const odd[] = {"", "[]", "{\"loss\":1}", "{\"step\":1,\"valid_loss\":2}",
                                      "{\"step\":2,\"loss\":7,\"kl\":1}"};
    for (size_t n = 0; n < FOCAL_COUNT(odd); n++)
        assert_status(ctx, foci_fit_log_line(ctx, &log, odd[n], strlen(odd[n])), FOCAL_OK);
    foci_fit_log_end(&log);
    assert_int_equal(log.bad_lines, 3); /* the others are a validation and a step of the past */
    assert_true(log.has_kl && log.has_largest);
    assert_int_equal(log.block, 4);
    assert_int_equal(log.count, STEPS / 4);
    for (int32_t n = 0; n < log.count; n++) {
        assert_true(fabs(log.step[n] - (4 * n + 2.5)) < 1e-9);
        assert_true(fabs(log.kl[n] - 2.0 * log.step[n]) < 1e-9);
        assert_true(log.largest[n] == 0.5);
    }
}

/* Validations stay as they are; where they are many, every second goes, but never the last. */
static void validations_are_points(void **state)
{
    focal_ctx *ctx = *state;
    enum { COUNT = 4 * FOCI_FIT_POINTS + 3 };
    foci_fit_log log;
    char line[128];
    foci_fit_log_start(&log);
    for (int n = 1; n <= COUNT; n++) {
        int bytes = snprintf(line, sizeof line, "{\"step\":%d,\"loss\":1,\"kl\":1}", 10 * n);
        assert_status(ctx, foci_fit_log_line(ctx, &log, line, (size_t)bytes), FOCAL_OK);
        bytes = snprintf(line, sizeof line, "{\"step\":%d,\"valid_loss\":2,\"valid_kl\":%d}",
                         10 * n, 30 * n);
        assert_status(ctx, foci_fit_log_line(ctx, &log, line, (size_t)bytes), FOCAL_OK);
    }
    static const char *const odd[] = {"{\"step\":10,\"valid_kl\":1}",
                                      "{\"step\":99999,\"valid_kl\":null}",
                                      "{\"step\":99999,\"valid_kl\":1e300}"};
    for (size_t n = 0; n < FOCAL_COUNT(odd); n++)
        assert_status(ctx, foci_fit_log_line(ctx, &log, odd[n], strlen(odd[n])), FOCAL_OK);
    foci_fit_log_end(&log);
    assert_int_equal(log.bad_lines, 0);
    assert_in_range(log.valid_count, FOCI_FIT_POINTS / 2, FOCI_FIT_POINTS);
    for (int32_t n = 0; n < log.valid_count; n++) {
        assert_true(n == 0 || log.valid_step[n] > log.valid_step[n - 1]);
        assert_true(log.valid_kl[n] == 3.0 * log.valid_step[n]);
    }
    assert_true(log.valid_step[log.valid_count - 1] == 10.0 * COUNT);
}

/* The validation's points are the curve that has the name; the batches' lies thin behind it. */
static void validations_are_drawn(void **state)
{
    focal_ctx *ctx = *state;
    static const char logged[] = "{\"step\":1,\"loss\":3,\"kl\":0.9}\n"
                                 "{\"step\":2,\"loss\":3,\"kl\":0.5}\n"
                                 "{\"step\":2,\"valid_loss\":3,\"valid_kl\":0.625}\n"
                                 "{\"step\":3,\"loss\":3,\"kl\":0.7}\n"
                                 "{\"step\":4,\"loss\":3,\"kl\":0.3}\n";
    static const char last[] = "{\"step\":4,\"valid_loss\":3,\"valid_kl\":0.5}\n";
    const folder f = adapter_write_good(ctx, FOCAL_BF16);
    const char *folders[] = {f.path};
    char text[sizeof logged + sizeof last];
    notes n;
    put_file(&f, "log.jsonl", logged);
    char *page = page_of(ctx, folders, 1, &n);
    assert_has(page, "<path class=\"line faint d0\"");
    assert_has(page, "at 2: 0.6250</title></path>"); /* one point is a mark alone */
    assert_has(page, "Points are the validation&#39;s");
    assert_lacks(page, "<ul class=\"legend\">"); /* both are of one adapter */
    free(page);
    (void)snprintf(text, sizeof text, "%s%s", logged, last);
    put_file(&f, "log.jsonl", text);
    page = page_of(ctx, folders, 1, &n);
    assert_has(page, "at 4: 0.5000</title></circle>");
    assert_has(page, "<circle class=\"mark\"");
    free(page);
    put_file(&f, "log.jsonl", "{\"step\":1,\"loss\":3,\"kl\":0.9}\n");
    page = page_of(ctx, folders, 1, &n);
    assert_lacks(page, "class=\"line faint");
    assert_lacks(page, "Points are the validation");
    free(page);
    folder_remove(&f);
}

static void bad_calls_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *empty[] = {f.path}, *nameless[] = {""};
    const char *path = folder_file(&f, "page.html");
    focal_report_fits_args args = {.folders = empty, .folder_count = 1};
    assert_status(ctx, focal_report_fits(ctx, path, &args), FOCAL_EINVAL);
    assert_non_null(strstr(focal_ctx_error(ctx), "adapter_config.json"));
    assert_status(ctx, focal_report_fits(ctx, NULL, &args), FOCAL_EINVAL);
    args.folders = nameless;
    assert_status(ctx, focal_report_fits(ctx, path, &args), FOCAL_EINVAL);
    args.folder_count = 0;
    assert_status(ctx, focal_report_fits(ctx, path, &args), FOCAL_EINVAL);
    args.folder_count = FOCAL_REPORT_MAX_FITS + 1;
    assert_status(ctx, focal_report_fits(ctx, path, &args), FOCAL_EINVAL);
    assert_int_equal(folder_count(&f), 0);
    folder_remove(&f);
}

/* Without memory at any place: ENOMEM, and no page. */
static void without_memory_there_is_no_page(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = adapter_write_good(ctx, FOCAL_BF16), to = folder_new();
    const char *folders[] = {f.path};
    const char *path = folder_file(&to, "page.html");
    const focal_report_fits_args args = {.folders = folders, .folder_count = 1};
    put_measure(ctx, &f);
    focal_status status = FOCAL_ENOMEM;
    for (int64_t n = 1; status != FOCAL_OK; n++) {
        const int64_t live = memory_live_blocks();
        memory_fail(n, true);
        status = focal_report_fits(ctx, path, &args);
        memory_fail(0, false);
        assert_int_equal(memory_live_blocks(), live);
        if (status == FOCAL_OK) break;
        assert_int_equal(status, FOCAL_ENOMEM);
        assert_int_equal(folder_count(&to), 0);
    }
    folder_remove(&f);
    folder_remove(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_page_has_what_was_measured, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(tags_lie_inside_the_picture, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(tags_lie_beside_their_lines, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(labels_of_an_axis_have_room, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(curves_end_at_the_axes, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(captions_are_of_what_is_drawn, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(points_alone_have_marks_of_their_own, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(labels_say_what_is_not_as_usual, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(only_the_papers_form_is_called_so, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(rows_have_what_an_adapter_of_its_kind_has, open_ctx,
                                        close_ctx),
        cmocka_unit_test_setup_teardown(the_page_says_how_to_make_it_again, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(folders_without_numbers_say_how_to_get_them, open_ctx,
                                        close_ctx),
        cmocka_unit_test_setup_teardown(folders_of_one_name_are_told_apart, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(other_ways_to_measure_are_noted, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(measures_of_other_adapters_are_left_out, open_ctx,
                                        close_ctx),
        cmocka_unit_test_setup_teardown(adapters_that_cannot_be_read_are_left_out, open_ctx,
                                        close_ctx),
        cmocka_unit_test_setup_teardown(adapters_of_two_models_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(damaged_measures_are_left_out, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(long_logs_become_means, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(validations_are_points, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(validations_are_drawn, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_calls_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(without_memory_there_is_no_page, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("fits_report", tests, NULL, NULL);
}
