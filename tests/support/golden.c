/* Reading golden vectors. Nothing in the files is trusted: every offset is compared with the size
 * of the data. */
#include "support/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"

/* FOCAL_TEST_DIR is the folder tests/, given by the build. */
static FILE *open_file(const char *name, const char *ending)
{
    char path[1024];
    const int used = snprintf(path, sizeof path, "%s/golden/%s.%s", FOCAL_TEST_DIR, name, ending);
    assert_in_range(used, 1, sizeof path - 1);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be opened", path);
    return file;
}

static void read_data(golden *g, const char *name)
{
    FILE *file = open_file(name, "bin");
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long bytes = ftell(file);
    assert_true(bytes > 0 && bytes % 8 == 0);
    assert_int_equal(fseek(file, 0, SEEK_SET), 0);
    g->count = bytes / 8;
    g->data = new_array((size_t)g->count, sizeof *g->data);
    for (int64_t n = 0; n < g->count; n++) {
        unsigned char raw[8];
        uint64_t word = 0;
        assert_int_equal(fread(raw, 1, 8, file), 8);
        for (int b = 7; b >= 0; b--) word = word << 8 | raw[b];
        memcpy(&g->data[n], &word, 8);
    }
    (void)fclose(file);
}

static void read_case(golden *g, char *line)
{
    golden_case *cases = realloc(g->cases, (size_t)(g->case_count + 1) * sizeof *cases);
    assert_non_null(cases);
    g->cases = cases;
    golden_case *c = &g->cases[g->case_count++];
    memset(c, 0, sizeof *c);
    int used = 0;
    assert_int_equal(sscanf(line, "case %31s%n", c->name, &used), 1);
    for (char *at = line + used, *end = at;; at = end) {
        const double value = strtod(at, &end);
        if (end == at) break;
        assert_true(c->parameter_count < GOLDEN_PARAMETERS);
        c->parameters[c->parameter_count++] = value;
    }
}

static void read_tensor(golden *g, const char *line)
{
    assert_true(g->case_count > 0);
    golden_case *c = &g->cases[g->case_count - 1];
    assert_true(c->tensor_count < GOLDEN_TENSORS);
    golden_tensor *t = &c->tensors[c->tensor_count++];
    int name_end = 0;
    assert_int_equal(sscanf(line, "tensor %31s%n", t->name, &name_end), 1);
    char *end = NULL;
    const long long offset = strtoll(line + name_end, &end, 10), count = strtoll(end, &end, 10);
    assert_true(offset >= 0 && count >= 0 && offset <= g->count && count <= g->count - offset);
    t->data = g->data + offset;
    t->count = count;
}

golden *golden_open(const char *name)
{
    golden *g = new_array(1, sizeof *g);
    read_data(g, name);
    FILE *file = open_file(name, "manifest");
    char line[512];
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "focal golden 1\n");
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "case ", 5) == 0)
            read_case(g, line);
        else if (strncmp(line, "tensor ", 7) == 0)
            read_tensor(g, line);
        else
            fail_msg("%s: not understood: %s", name, line);
    }
    (void)fclose(file);
    return g;
}

void golden_close(golden *g)
{
    if (!g) return;
    free(g->cases);
    free(g->data);
    free(g);
}

const double *golden_get(const golden_case *c, const char *name, int64_t count)
{
    for (int n = 0; n < c->tensor_count; n++) {
        if (strcmp(c->tensors[n].name, name) != 0) continue;
        if (c->tensors[n].count != count)
            fail_msg("%s: %s has %lld elements, expected %lld", c->name, name,
                     (long long)c->tensors[n].count, (long long)count);
        return c->tensors[n].data;
    }
    return NULL;
}
