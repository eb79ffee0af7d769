/* Reading sweep files: the first word of a line says what it is, and a line without one of these
 * words is a setting of all runs. */
#include "train/sweep_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "train/run_line.h"
#include "train/run_value.h"

enum { PLACE_BYTES = 128, SHOWN = 64, SEED_DIMENSION = FOCI_SWEEP_DIMENSIONS - 1 };

typedef struct parser {
    focal_ctx *ctx;
    foci_sweep *sweep;
    int64_t line;
    char place[PLACE_BYTES];
    foci_run scratch; /* that values are tried on */
} parser;

static int shown(foci_text text)
{
    return (int)(text.bytes < SHOWN ? text.bytes : SHOWN);
}

static focal_status wrong(const parser *p, const char *what, foci_text text)
{
    return foci_fail(p->ctx, FOCAL_EFORMAT, "%s: %s, not '%.*s'", p->place, what, shown(text),
                     text.data);
}

static focal_status too_many(const parser *p, const char *what, int most)
{
    return foci_fail(p->ctx, FOCAL_EFORMAT, "%s: more than %d %s", p->place, most, what);
}

/* Checks key and value, and keeps them. */
static focal_status add_setting(parser *p, foci_text name, foci_text value)
{
    foci_sweep *s = p->sweep;
    char problem[FOCI_RUN_PROBLEM];
    const int key = foci_run_find(name);
    if (key < 0)
        return foci_fail(p->ctx, FOCAL_EFORMAT, "%s: there is no key '%.*s', the nearest is '%s'",
                         p->place, shown(name), name.data,
                         foci_run_keys[foci_run_nearest(name)].name);
    if (!foci_run_value_read(&foci_run_keys[key], value, &p->scratch, problem))
        return foci_fail(p->ctx, FOCAL_EFORMAT, "%s: %s", p->place, problem);
    if (s->setting_count == FOCI_SWEEP_SETTINGS)
        return too_many(p, "settings", FOCI_SWEEP_SETTINGS);
    s->settings[s->setting_count++] = (foci_sweep_setting){key, value};
    return FOCAL_OK;
}

/* A key that is set for all runs, or varied, may be so once. */
static focal_status claim_key(parser *p, foci_text name)
{
    const int key = foci_run_find(name);
    if (key >= 0 && p->sweep->lines[key] > 0)
        return foci_fail(p->ctx, FOCAL_EFORMAT, "%s: '%s' stands in line %lld already", p->place,
                         foci_run_keys[key].name, (long long)p->sweep->lines[key]);
    if (key >= 0) p->sweep->lines[key] = p->line;
    return FOCAL_OK;
}

static focal_status read_all(parser *p, foci_text line)
{
    foci_text name, value;
    if (!foci_line_cut(line, '=', &name, &value))
        return foci_fail(p->ctx, FOCAL_EFORMAT, "%s: '%.*s' has no '=': a setting is `key = value`",
                         p->place, shown(line), line.data);
    FOCAL_TRY(claim_key(p, name));
    FOCAL_TRY(add_setting(p, name, value));
    p->sweep->all[p->sweep->all_count++] = p->sweep->setting_count - 1;
    return FOCAL_OK;
}

/* Letters that any file system takes, without a path. */
static void make_label(const char *prefix, foci_text value, char out[FOCI_SWEEP_LABEL])
{
    if (value.bytes >= 2 && value.data[0] == '"' && value.data[value.bytes - 1] == '"')
        value = (foci_text){value.data + 1, value.bytes - 2};
    for (size_t n = value.bytes; n > 0; n--) {
        if (value.data[n - 1] != '/' || n == value.bytes) continue;
        value = (foci_text){value.data + n, value.bytes - n};
        break;
    }
    size_t used = strlen(prefix);
    (void)snprintf(out, FOCI_SWEEP_LABEL, "%s", prefix);
    for (size_t n = 0; n < value.bytes && used + 1 < FOCI_SWEEP_LABEL; n++) {
        const char c = value.data[n];
        const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
        if (is_plain)
            out[used++] = c;
        else
            out[used++] = '_';
        out[used] = '\0';
    }
}

/* "0.4" of temperature.value is t0.4, "512" of model.width width512; a word is its own label. */
static void label_value(foci_text name, foci_text value, char out[FOCI_SWEEP_LABEL])
{
    char prefix[FOCI_SWEEP_LABEL / 2] = "";
    const bool is_number = value.bytes > 0 && strchr("-.0123456789", value.data[0]) != NULL;
    const int key = foci_run_find(name);
    if (key >= 0 && (is_number || foci_run_keys[key].type == FOCI_RUN_BOOL)) {
        const char *dot = strrchr(foci_run_keys[key].name, '.');
        const bool is_t = strcmp(foci_run_keys[key].name, "temperature.value") == 0;
        (void)snprintf(prefix, sizeof prefix, "%s", is_t ? "t" : dot ? dot + 1 : "");
    }
    make_label(prefix, value, out);
}

/* NULL, with the message set, when there are too many. */
static foci_sweep_choice *new_choice(parser *p, foci_sweep_dimension *d)
{
    if (d->count == FOCI_SWEEP_CHOICES) {
        (void)too_many(p, "values, cases or seeds", FOCI_SWEEP_CHOICES);
        return NULL;
    }
    foci_sweep_choice *choice = &d->choices[d->count++];
    *choice = (foci_sweep_choice){.first = p->sweep->setting_count, .count = 1};
    return choice;
}

static focal_status read_grid(parser *p, foci_text line)
{
    foci_text name, values;
    if (!foci_line_cut(line, '=', &name, &values))
        return wrong(p, "a grid line is `grid key = value | value ...`", line);
    FOCAL_TRY(claim_key(p, name));
    if (p->sweep->dimension_count == SEED_DIMENSION)
        return too_many(p, "grid lines", SEED_DIMENSION - 1);
    foci_sweep_dimension *d = &p->sweep->dimensions[p->sweep->dimension_count++];
    for (bool is_last = false; !is_last;) {
        foci_text value = values;
        is_last = !foci_line_cut(values, '|', &value, &values);
        foci_sweep_choice *choice = new_choice(p, d);
        if (!choice) return FOCAL_EFORMAT;
        FOCAL_TRY(add_setting(p, name, value));
        label_value(name, value, choice->label);
    }
    return FOCAL_OK;
}

static focal_status read_case(parser *p, foci_text line)
{
    static const char form[] = "a case is `case name: key=value key=value ...`";
    foci_sweep *s = p->sweep;
    foci_text name, words, word, key, value;
    if (!foci_line_cut(line, ':', &name, &words) || name.bytes == 0) return wrong(p, form, line);
    foci_sweep_choice *choice = new_choice(p, &s->dimensions[0]);
    if (!choice) return FOCAL_EFORMAT;
    make_label("", name, choice->label);
    if (strlen(choice->label) != name.bytes || memcmp(choice->label, name.data, name.bytes) != 0)
        return foci_fail(p->ctx, FOCAL_EFORMAT,
                         "%s: a case's name has up to %d letters, digits and . _ -, not '%.*s'",
                         p->place, FOCI_SWEEP_LABEL - 1, shown(name), name.data);
    choice->count = 0;
    bool is_set[FOCI_RUN_KEYS] = {false};
    while (foci_line_word(&words, &word)) {
        if (!foci_line_cut(word, '=', &key, &value)) return wrong(p, form, word);
        FOCAL_TRY(add_setting(p, key, value));
        const int n = s->settings[s->setting_count - 1].key;
        if (is_set[n])
            return foci_fail(p->ctx, FOCAL_EFORMAT, "%s: '%s' is set twice", p->place,
                             foci_run_keys[n].name);
        is_set[n] = true;
        if (s->case_lines[n] == 0) s->case_lines[n] = p->line;
        choice->count++;
    }
    return FOCAL_OK;
}

static bool read_seed(foci_text text, int64_t *seed)
{
    char digits[16];
    if (text.bytes == 0 || text.bytes > 15) return false;
    for (size_t n = 0; n < text.bytes; n++)
        if (text.data[n] < '0' || text.data[n] > '9') return false;
    memcpy(digits, text.data, text.bytes);
    digits[text.bytes] = '\0';
    *seed = strtoll(digits, NULL, 10);
    return true;
}

static focal_status add_seeds(parser *p, foci_text item)
{
    foci_text first = item, last = item;
    int64_t from = 0, to = 0;
    (void)foci_line_cut(item, '-', &first, &last);
    if (!read_seed(first, &from) || !read_seed(last, &to) || from > to)
        return wrong(p, "seeds are numbers as in 1-3 or 1,2,7", item);
    if (to - from >= FOCI_SWEEP_CHOICES) return too_many(p, "seeds", FOCI_SWEEP_CHOICES);
    foci_sweep_dimension *d = &p->sweep->dimensions[SEED_DIMENSION];
    for (int64_t seed = from; seed <= to; seed++) {
        foci_sweep_choice *choice = new_choice(p, d);
        if (!choice) return FOCAL_EFORMAT;
        choice->count = 0;
        choice->seed = seed;
        (void)snprintf(choice->label, sizeof choice->label, "s%lld", (long long)seed);
    }
    return FOCAL_OK;
}

static focal_status read_seeds(parser *p, foci_text line)
{
    foci_text before, items;
    if (!foci_line_cut(line, '=', &before, &items) || before.bytes > 0)
        return wrong(p, "seeds are given as `seeds = 1-3`", line);
    FOCAL_TRY(claim_key(p, foci_text_of("seed")));
    for (bool is_last = false; !is_last;) {
        foci_text item = items;
        is_last = !foci_line_cut(items, ',', &item, &items);
        FOCAL_TRY(add_seeds(p, item));
    }
    return FOCAL_OK;
}

/* `word = text`, once. */
static focal_status read_once(parser *p, foci_text line, foci_text *out)
{
    foci_text before, value;
    if (!foci_line_cut(line, '=', &before, &value) || before.bytes > 0 || value.bytes == 0)
        return wrong(p, "this line is `word = text`", line);
    if (out->bytes > 0) return wrong(p, "this word stands in an earlier line already", value);
    *out = value;
    return FOCAL_OK;
}

static focal_status read_base(parser *p, foci_text line)
{
    return read_once(p, line, &p->sweep->base);
}

static focal_status read_baseline(parser *p, foci_text line)
{
    return read_once(p, line, &p->sweep->baseline);
}

bool foci_sweep_is_name(foci_text text)
{
    for (size_t n = 0; n < text.bytes; n++) {
        const char c = text.data[n];
        const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '_' || c == '-' || (c == '.' && n > 0);
        if (!is_plain) return false;
    }
    return text.bytes > 0 && text.bytes < FOCI_SWEEP_LABEL;
}

static focal_status add_command(parser *p, bool is_after, foci_text output, foci_text words)
{
    foci_sweep *s = p->sweep;
    if (s->command_count == FOCI_SWEEP_COMMANDS)
        return too_many(p, "commands", FOCI_SWEEP_COMMANDS);
    s->commands[s->command_count++] = (foci_sweep_command){is_after, output, words};
    return FOCAL_OK;
}

static focal_status read_prepare(parser *p, foci_text line)
{
    foci_text output, words;
    if (!foci_line_cut(line, '=', &output, &words) || !foci_sweep_is_name(output) ||
        words.bytes == 0)
        return wrong(p, "a preparation is `prepare FILE = command of focal`", line);
    return add_command(p, false, output, words);
}

static focal_status read_after(parser *p, foci_text line)
{
    foci_text before, words;
    if (!foci_line_cut(line, '=', &before, &words) || before.bytes > 0 || words.bytes == 0)
        return wrong(p, "what follows a run is `after = command of focal`", line);
    return add_command(p, true, (foci_text){"", 0}, words);
}

static focal_status read_input(parser *p, foci_text line)
{
    foci_sweep *s = p->sweep;
    foci_text name, about;
    if (!foci_line_cut(line, '=', &name, &about) || !foci_sweep_is_name(name))
        return wrong(p, "an input is `input name = what it is`", line);
    static const char *const taken[] = {"data", "out", "model", "run"};
    for (size_t n = 0; n < FOCAL_COUNT(taken); n++)
        if (foci_text_equal(name, foci_text_of(taken[n])))
            return wrong(p, "data, out, model and run have a meaning of their own", name);
    for (int32_t n = 0; n < s->input_count; n++)
        if (foci_text_equal(name, s->inputs[n].name))
            return wrong(p, "each input stands there once", name);
    if (s->input_count == FOCI_SWEEP_INPUTS) return too_many(p, "inputs", FOCI_SWEEP_INPUTS);
    s->inputs[s->input_count++] = (foci_sweep_input){name, about};
    return FOCAL_OK;
}

static const struct {
    const char *word;
    focal_status (*read)(parser *p, foci_text line);
} lines[] = {{"after", read_after},     {"base", read_base},   {"baseline", read_baseline},
             {"case", read_case},       {"grid", read_grid},   {"input", read_input},
             {"prepare", read_prepare}, {"seeds", read_seeds}, {"set", read_all}};

static focal_status read_line(parser *p, foci_text line)
{
    foci_text first = line;
    first.bytes = 0;
    while (first.bytes < line.bytes && strchr(" \t=:", line.data[first.bytes]) == NULL)
        first.bytes++;
    const foci_text rest = {line.data + first.bytes, line.bytes - first.bytes};
    size_t near = 0;
    for (size_t n = 0; n < FOCAL_COUNT(lines); n++) {
        const foci_text word = foci_text_of(lines[n].word);
        if (foci_text_equal(first, word)) return lines[n].read(p, foci_line_trim(rest));
        if (foci_run_distance(first, word) <
            foci_run_distance(first, foci_text_of(lines[near].word)))
            near = n;
    }
    const int key = foci_run_nearest(first);
    if (foci_run_find(first) < 0 &&
        foci_run_distance(first, foci_text_of(lines[near].word)) <
            foci_run_distance(first, foci_text_of(foci_run_keys[key].name)))
        return foci_fail(p->ctx, FOCAL_EFORMAT, "%s: there is no line '%.*s', the nearest is '%s'",
                         p->place, shown(first), first.data, lines[near].word);
    return read_all(p, line);
}

/* What a grid varies no case may set, or names would lie. */
static focal_status check_cases(parser *p, const char *path)
{
    const foci_sweep *s = p->sweep;
    for (int n = 0; n < FOCI_RUN_KEYS; n++) {
        bool is_for_all = false;
        for (int32_t i = 0; i < s->all_count; i++) is_for_all |= s->settings[s->all[i]].key == n;
        if (s->case_lines[n] > 0 && s->lines[n] > 0 && !is_for_all)
            return foci_fail(p->ctx, FOCAL_EFORMAT,
                             "%.*s:%lld: the case sets '%s', which line %lld varies",
                             PLACE_BYTES - 24, path, (long long)s->case_lines[n],
                             foci_run_keys[n].name, (long long)s->lines[n]);
    }
    return FOCAL_OK;
}

focal_status foci_sweep_parse(focal_ctx *ctx, const char *path, foci_text text, foci_sweep *sweep)
{
    parser p = {.ctx = ctx, .sweep = sweep};
    foci_text line;
    memset(sweep, 0, sizeof *sweep);
    sweep->dimension_count = 1; /* the cases */
    foci_run_init(&p.scratch);
    while (foci_line_next(&text, &line)) {
        (void)snprintf(p.place, sizeof p.place, "%.*s:%lld", PLACE_BYTES - 24, path,
                       (long long)++p.line);
        if (!foci_line_is_plain(line))
            return foci_fail(ctx, FOCAL_EFORMAT, "%s: not plain UTF-8 text", p.place);
        const foci_text bare = foci_line_bare(line);
        if (bare.bytes > 0) FOCAL_TRY(read_line(&p, bare));
    }
    return check_cases(&p, path);
}

int64_t foci_sweep_count(const foci_sweep *sweep, int64_t most)
{
    int64_t count = 1;
    for (int32_t d = 0; d < FOCI_SWEEP_DIMENSIONS; d++) {
        if (sweep->dimensions[d].count > 0) count *= sweep->dimensions[d].count;
        if (count > most) return -1;
    }
    return count;
}

/* Which choice run n has in a dimension, the last one turning fastest; NULL: there is none. */
static const foci_sweep_choice *choice_of(const foci_sweep *sweep, int64_t n, int32_t dimension)
{
    for (int32_t d = FOCI_SWEEP_DIMENSIONS - 1; d > dimension; d--)
        if (sweep->dimensions[d].count > 0) n /= sweep->dimensions[d].count;
    const foci_sweep_dimension *own = &sweep->dimensions[dimension];
    return own->count > 0 ? &own->choices[n % own->count] : NULL;
}

static void apply_setting(const foci_sweep_setting *setting, foci_run *run)
{
    char problem[FOCI_RUN_PROBLEM]; /* there is none: parse has tried it */
    (void)foci_run_value_read(&foci_run_keys[setting->key], setting->value, run, problem);
    run->is_given[setting->key] = true;
}

void foci_sweep_apply(const foci_sweep *sweep, int64_t n, foci_run *run)
{
    for (int32_t i = 0; i < sweep->all_count; i++)
        apply_setting(&sweep->settings[sweep->all[i]], run);
    for (int32_t d = 0; d < FOCI_SWEEP_DIMENSIONS; d++) {
        const foci_sweep_choice *choice = choice_of(sweep, n, d);
        for (int32_t i = 0; choice && i < choice->count; i++)
            apply_setting(&sweep->settings[choice->first + i], run);
        if (choice && d == SEED_DIMENSION) {
            run->seed = choice->seed;
            run->is_given[foci_run_find(foci_text_of("seed"))] = true;
        }
    }
}

bool foci_sweep_name(const foci_sweep *sweep, int64_t n, char *out, size_t bytes)
{
    size_t used = 0;
    for (int32_t d = 0; d < FOCI_SWEEP_DIMENSIONS; d++) {
        const foci_sweep_choice *choice = choice_of(sweep, n, d);
        if (!choice) continue;
        const int added =
            snprintf(out + used, bytes - used, "%s%s", used > 0 ? "-" : "", choice->label);
        if (added < 0 || (size_t)added >= bytes - used) return false;
        used += (size_t)added;
    }
    if (used == 0) (void)snprintf(out, bytes, "run");
    if (out[0] == '.' || out[0] == '-') out[0] = '_'; /* neither hidden nor an option */
    return true;
}

bool foci_sweep_varies(const foci_sweep *sweep, int key)
{
    if (sweep->dimensions[SEED_DIMENSION].count > 0 && strcmp(foci_run_keys[key].name, "seed") == 0)
        return true;
    for (int32_t d = 0; d < SEED_DIMENSION; d++)
        for (int32_t c = 0; c < sweep->dimensions[d].count; c++) {
            const foci_sweep_choice *choice = &sweep->dimensions[d].choices[c];
            for (int32_t i = 0; i < choice->count; i++)
                if (sweep->settings[choice->first + i].key == key) return true;
        }
    return false;
}
