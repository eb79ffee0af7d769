/* Charts: axes with round ticks, bands below lines, labels at line ends that do not overlap. */
#include "report/chart_svg.h"

#include <math.h>
#include <string.h>

enum {
    WIDTH = 1040,
    HEIGHT = 400,
    LEFT = 74,  /* of the plot, at least */
    TITLE = 26, /* pixels of the y axis's title */
    TOP = 14,
    FOOT = 50,
    LABEL_STEP = 17,  /* pixels between labels */
    LABEL_CHARS = 26, /* of a name at a line's end */
    HOVERS = 40,      /* points of a line that tell their value */
    FAR = 60,         /* pixels from a line's end to its label, from which on no line may be seen */
    TAGGED = 4,       /* lines whose marks can have numbers beside them and still be read */
    TICK_ROOM = 8,    /* pixels between a label of the y axis and the plot */
    TICKS = 8         /* of an axis, at most */
};

static const double CHAR_WIDTH = 7.4; /* pixels of a label's letter */

/* Okabe and Ito's colours, which people with any kind of colour vision tell apart, a shade darker
 * on light ground and lighter on dark. */
const char foci_chart_style[] =
    ":root{--c0:#0072b2;--c1:#d55e00;--c2:#00896a;--c3:#b5538c;--c4:#b07d00;--c5:#3a9bd9;"
    "--c6:#444441}\n"
    "@media (prefers-color-scheme:dark){:root{--c0:#4aa8e8;--c1:#f0814a;--c2:#2fc59c;--c3:#e59bc6;"
    "--c4:#ecb82f;--c5:#9ad2f5;--c6:#c9c8c0}}\n"
    ".c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}"
    ".c5{--c:var(--c5)}.c6{--c:var(--c6)}\n"
    ".line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}"
    ".faint{stroke-width:1.2;opacity:.45}"
    ".band{fill:var(--c);opacity:.15}.mark{fill:var(--c);stroke:var(--card);stroke-width:1.2}"
    ".dot{fill:var(--c);opacity:.75}.mean{stroke:var(--c);stroke-width:3}\n"
    ".d1{stroke-dasharray:8 3}.d2{stroke-dasharray:3 2.5}.d3{stroke-dasharray:10 3 2 3}\n"
    ".grid{stroke:var(--line);stroke-width:1;fill:none}.axis{stroke:var(--soft);stroke-width:1;"
    "fill:none}.lead{stroke:var(--c);stroke-width:1;opacity:.6;fill:none}"
    ".far{stroke-dasharray:1 5}"
    ".key{overflow:visible}.hover{fill:transparent}svg .end{fill:var(--c);font-weight:500}"
    "svg .tag{fill:var(--c);font-size:11.5px}\n"
    "g.series:hover .line{stroke-width:3.2}g.series:hover .band{opacity:.3}\n";

/* From numbers to pixels. */
typedef struct scale {
    double x_low, x_high, y_low, y_high;
    bool is_log;
    int left, right; /* edges of the plot */
} scale;

static double along(const scale *s, double x)
{
    return s->is_log ? log(fmax(x, 1e-300)) : x;
}

static double px(const scale *s, double x)
{
    const double low = along(s, s->x_low), high = along(s, s->x_high);
    return s->left + (along(s, x) - low) / (high - low) * (s->right - s->left);
}

/* Far outside is as good as just outside, and keeps numbers short. */
static double py(const scale *s, double y)
{
    const double share = (y - s->y_low) / (s->y_high - s->y_low);
    return TOP + HEIGHT * (1.0 - fmin(fmax(share, -3.0), 3.0));
}

void foci_chart_count(double value, char out[FOCI_CHART_NUMBER])
{
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "k"}};
    for (size_t n = 0; n < sizeof units / sizeof units[0] && value >= 10000.0; n++) {
        /* Three digits: what would round to 1000k is 1M. */
        if (value < 0.9995 * units[n].unit) continue;
        (void)snprintf(out, FOCI_CHART_NUMBER, "%.3g%s", value / units[n].unit, units[n].name);
        return;
    }
    (void)snprintf(out, FOCI_CHART_NUMBER, "%.5g", value);
}

/* 1, 2 or 5 times a power of ten: at most `most` steps of it in a range. */
static double round_step(double range, int most)
{
    const double raw = range / most, power = pow(10.0, floor(log10(raw)));
    const double factors[] = {1.0, 2.0, 5.0, 10.0};
    for (int n = 0; n < 3; n++)
        if (factors[n] * power >= raw * (1.0 - 1e-9)) return factors[n] * power;
    return 10.0 * power;
}

/* The number of the first step within the range; ranges are at least 1e-9 of their ends. */
static int64_t first_tick(double low, double step)
{
    return (int64_t)ceil(low / step);
}

static int decimals_of(double step)
{
    const int decimals = (int)ceil(-log10(step) - 1e-9);
    return decimals < 0 ? 0 : decimals > 12 ? 12 : decimals;
}

static void find_x(const foci_chart *chart, scale *s)
{
    double beginning = (double)INFINITY; /* of what must be seen of the shortest line */
    s->x_low = (double)INFINITY;
    s->x_high = -(double)INFINITY;
    for (int32_t n = 0; n < chart->line_count; n++) {
        const foci_chart_line *line = &chart->lines[n];
        for (int32_t i = 0; i < line->count; i++) {
            if (chart->is_log_x && line->x[i] <= 0.0) continue;
            s->x_low = fmin(s->x_low, line->x[i]);
            s->x_high = fmax(s->x_high, line->x[i]);
        }
        if (line->count > 0)
            beginning = fmin(beginning, chart->skip_share * line->x[line->count - 1]);
    }
    if (!(s->x_low <= s->x_high)) s->x_low = s->x_high = 1.0;
    if (chart->is_log_x) s->x_low = fmax(s->x_low, fmin(beginning, 0.5 * s->x_high));
    if (!chart->is_log_x) s->x_low = fmin(s->x_low, 0.0);
    if (s->x_low == s->x_high) {
        s->x_low *= 0.5;
        s->x_high = s->x_high > 0.0 ? s->x_high * 2.0 : 1.0;
    }
    if (chart->is_log_x && chart->has_marks) { /* marks stand free of the edges */
        const double room = pow(s->x_high / s->x_low, 0.04);
        s->x_low /= room;
        s->x_high *= room;
    } else if (chart->has_marks) { /* the last one's tag stands behind it */
        s->x_high += 0.04 * (s->x_high - s->x_low);
    }
}

static void find_y(const foci_chart *chart, scale *s)
{
    double low = (double)INFINITY, high = -(double)INFINITY;
    for (int pass = 0; pass < 2 && !(low <= high); pass++) {
        for (int32_t n = 0; n < chart->line_count; n++) {
            const foci_chart_line *line = &chart->lines[n];
            for (int32_t i = 0; i < line->count; i++) {
                if (pass == 0 && line->x[i] < chart->skip_share * line->x[line->count - 1])
                    continue;
                low = fmin(low, line->low ? line->low[i] : line->y[i]);
                high = fmax(high, line->high ? line->high[i] : line->y[i]);
            }
        }
    }
    if (!(low <= high)) low = high = 0.0;
    if (chart->has_zero) {
        low = fmin(low, 0.0);
        high = fmax(high, 0.0);
    }
    if (chart->has_one) {
        low = fmin(low, 1.0);
        high = fmax(high, 1.0);
    }
    if (high - low < 1e-9 * fmax(1.0, fabs(high))) {
        const double margin = fmax(1e-6, 0.05 * fabs(high));
        low -= margin;
        high += margin;
    }
    const double room = 0.04 * (high - low);
    s->y_low = low - room;
    s->y_high = high + room;
}

/* The k-th label of the y axis. */
static int name_y_tick(const foci_chart *chart, double step, int64_t k, char out[FOCI_CHART_NUMBER])
{
    return snprintf(out, FOCI_CHART_NUMBER, chart->has_zero && k != 0 ? "%+.*f" : "%.*f",
                    decimals_of(step), (double)k * step);
}

/* The plot begins where title and the widest label have room before it. */
static void find_left(const foci_chart *chart, scale *s)
{
    const double step = round_step(s->y_high - s->y_low, TICKS);
    int longest = 0;
    for (int64_t k = first_tick(s->y_low, step); (double)k * step <= s->y_high; k++) {
        char text[FOCI_CHART_NUMBER];
        const int chars = name_y_tick(chart, step, k, text);
        if (chars > longest) longest = chars;
    }
    const int room = TITLE + (int)(CHAR_WIDTH * longest) + TICK_ROOM;
    s->left = room > LEFT ? room : LEFT;
}

static void write_y_axis(foci_page *page, const foci_chart *chart, const scale *s)
{
    const double step = round_step(s->y_high - s->y_low, TICKS);
    for (int64_t k = first_tick(s->y_low, step); (double)k * step <= s->y_high; k++) {
        char text[FOCI_CHART_NUMBER];
        const double y = py(s, (double)k * step);
        (void)name_y_tick(chart, step, k, text);
        (void)fprintf(page->file,
                      "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
                      "text-anchor=\"end\">%s</text>\n",
                      s->left, y, s->right, s->left - TICK_ROOM, y + 4.5, text);
    }
    (void)fprintf(page->file,
                  "<text transform=\"translate(15 %d)rotate(-90)\" "
                  "text-anchor=\"middle\">",
                  TOP + HEIGHT / 2);
    foci_page_text(page, chart->y_label);
    (void)fputs("</text>\n", page->file);
}

static void write_x_tick(foci_page *page, const scale *s, double value)
{
    char text[FOCI_CHART_NUMBER];
    foci_chart_count(value, text);
    (void)fprintf(page->file,
                  "<path class=\"axis\" d=\"M%.1f %dv5\"/><text x=\"%.1f\" y=\"%d\" "
                  "text-anchor=\"middle\">%s</text>\n",
                  px(s, value), TOP + HEIGHT, px(s, value), TOP + HEIGHT + 21, text);
}

/* Ticks where the marks stand, when those are few; false: they are many. */
static bool write_mark_ticks(foci_page *page, const foci_chart *chart, const scale *s)
{
    double ticks[TICKS];
    int count = 0;
    for (int32_t n = 0; n < chart->line_count; n++) {
        for (int32_t i = 0; i < chart->lines[n].count; i++) {
            const double x = chart->lines[n].x[i];
            int at = 0;
            /* Two that are near share a tick: their texts would touch. */
            while (at < count && fabs(px(s, ticks[at]) - px(s, x)) > 50.0) at++;
            if (at < count) continue;
            if (count == TICKS) return false;
            ticks[count++] = x;
        }
    }
    for (int n = 0; n < count; n++) write_x_tick(page, s, ticks[n]);
    return true;
}

static void write_x_axis(foci_page *page, const foci_chart *chart, const scale *s)
{
    (void)fprintf(page->file, "<path class=\"axis\" d=\"M%d %dH%d\"/>\n", s->left, TOP + HEIGHT,
                  s->right);
    const double range = s->x_high / fmax(s->x_low, 1e-300);
    if (chart->has_marks && !chart->has_round_x && write_mark_ticks(page, chart, s)) {
        /* all is said */
    } else if (s->is_log && range > 4.0) {
        /* Decades, and 2 and 5 where there is room. */
        const int last = (int)floor(log10(s->x_high));
        for (int power = (int)floor(log10(s->x_low)); power <= last; power++) {
            const double ten = pow(10.0, power);
            const double ticks[] = {ten, 2.0 * ten, 5.0 * ten};
            for (int n = 0; n < (range < 2e3 ? 3 : 1); n++)
                if (ticks[n] >= s->x_low && ticks[n] <= s->x_high) write_x_tick(page, s, ticks[n]);
        }
    } else {
        const double step = round_step(s->x_high - s->x_low, TICKS);
        for (int64_t k = first_tick(s->x_low, step); (double)k * step <= s->x_high * (1.0 + 1e-9);
             k++)
            write_x_tick(page, s, (double)k * step);
    }
    (void)fprintf(page->file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
                  (s->left + s->right) / 2, TOP + HEIGHT + 43);
    foci_page_text(page, chart->x_label);
    (void)fputs("</text>\n", page->file);
}

static bool is_shown(const scale *s, const foci_chart_line *line, int32_t n)
{
    return !s->is_log || line->x[n] > 0.0;
}

static void write_band(foci_page *page, const scale *s, const foci_chart_line *line)
{
    char command = 'M';
    (void)fputs("<path class=\"band\" d=\"", page->file);
    for (int32_t n = 0; n < line->count; n++) {
        if (!is_shown(s, line, n)) continue;
        (void)fprintf(page->file, "%c%.1f %.1f", command, px(s, line->x[n]), py(s, line->high[n]));
        command = 'L';
    }
    for (int32_t n = line->count - 1; n >= 0; n--)
        if (is_shown(s, line, n))
            (void)fprintf(page->file, "L%.1f %.1f", px(s, line->x[n]), py(s, line->low[n]));
    (void)fputs("Z\"/>\n", page->file);
}

/* The beginning of a mark; what ends it is the caller's. A point of a line is a circle, one alone
 * has a shape instead of dashes. */
static void begin_mark(foci_page *page, bool is_alone, int32_t number, double x, double y)
{
    static const char *const shapes[FOCI_CHART_DASHES] = {"m-4.5-4.5h9v9h-9z",
                                                          "m0-6.2l6.2 6.2l-6.2 6.2l-6.2-6.2z",
                                                          "m0-5.5l6 10h-12z", "m0 5.5l6-10h-12z"};
    if (is_alone)
        (void)fprintf(page->file, "<path class=\"mark\" d=\"M%.1f %.1f%s\"", x, y,
                      shapes[number % FOCI_CHART_DASHES]);
    else
        (void)fprintf(page->file, "<circle class=\"mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"", x, y);
}

bool foci_chart_has_tags(const foci_chart *chart)
{
    int32_t tagged = 0;
    for (int32_t n = 0; n < chart->line_count; n++) {
        const foci_chart_line *line = &chart->lines[n];
        bool has_any = false;
        for (int32_t i = 0; line->tags && i < line->count; i++) has_any |= line->tags[i] >= 0;
        tagged += has_any;
    }
    return tagged > 0 && tagged <= TAGGED;
}

/* A tag stands behind its mark, above the line, or below where the line rises through that place.
 */
static void write_tag(foci_page *page, const scale *s, const foci_chart_line *line, int32_t n)
{
    const double x = px(s, line->x[n]), y = py(s, line->y[n]);
    const bool is_last = n + 1 == line->count;
    const double rise = is_last ? 0.0 : y - py(s, line->y[n + 1]);
    const bool is_steep = !is_last && rise > 0.25 * (px(s, line->x[n + 1]) - x);
    (void)fprintf(page->file, "<text class=\"tag\" x=\"%.1f\" y=\"%.1f\">%d</text>\n", x + 7.0,
                  y + (is_steep ? 14.0 : -6.0), (int)line->tags[n]);
}

/* Points that tell their values when the pointer is on them. */
static void write_points(foci_page *page, const foci_chart *chart, const scale *s,
                         const foci_chart_line *line)
{
    const bool is_alone = line->count == 1; /* one point makes no line */
    const bool is_mark = chart->has_marks || line->has_marks || is_alone;
    const bool has_tags = foci_chart_has_tags(chart);
    const int32_t step = (line->count + HOVERS - 1) / HOVERS;
    for (int32_t n = (line->count - 1) % (step > 0 ? step : 1); n < line->count; n += step) {
        char x[FOCI_CHART_NUMBER];
        const double y = py(s, line->y[n]);
        if (!is_shown(s, line, n) || line->x[n] < s->x_low || y < TOP || y > TOP + HEIGHT) continue;
        foci_chart_count(line->x[n], x);
        if (is_mark)
            begin_mark(page, is_alone, line->number, px(s, line->x[n]), y);
        else
            (void)fprintf(page->file, "<circle class=\"hover\" cx=\"%.1f\" cy=\"%.1f\" r=\"7\"",
                          px(s, line->x[n]), y);
        (void)fputs("><title>", page->file);
        foci_page_text(page, line->name);
        if (line->tags && line->tags[n] >= 0)
            (void)fprintf(page->file, ", %s %d,", chart->tag, (int)line->tags[n]);
        (void)fprintf(page->file, " at %s: %.4f", x, line->y[n]);
        if (line->low && line->high && line->high[n] > line->low[n])
            (void)fprintf(page->file, " (%.4f to %.4f)", line->low[n], line->high[n]);
        (void)fprintf(page->file, "</title></%s>\n", is_alone ? "path" : "circle");
        if (has_tags && line->tags && line->tags[n] >= 0) write_tag(page, s, line, n);
    }
}

/* Lines that have a label and points, where these are few enough. */
static int32_t named_count(const foci_chart *chart)
{
    int32_t count = 0;
    for (int32_t n = 0; n < chart->line_count; n++) count += !chart->lines[n].is_faint;
    return count;
}

static void write_line(foci_page *page, const foci_chart *chart, const scale *s,
                       const foci_chart_line *line)
{
    char command = 'M';
    (void)fprintf(page->file, "<g class=\"series c%d\"><title>", line->number % FOCI_CHART_COLOURS);
    foci_page_text(page, line->name);
    (void)fputs("</title>\n", page->file);
    if (line->low && line->high && line->count > 1) write_band(page, s, line);
    (void)fprintf(page->file, "<path class=\"line%s d%d\" d=\"", line->is_faint ? " faint" : "",
                  line->number % FOCI_CHART_DASHES);
    for (int32_t n = 0; n < line->count; n++) {
        if (!is_shown(s, line, n)) continue;
        (void)fprintf(page->file, "%c%.1f %.1f", command, px(s, line->x[n]), py(s, line->y[n]));
        command = 'L';
    }
    (void)fputs("\"/>\n", page->file);
    const bool is_read = line->has_marks || line->count == 1;
    if (!line->is_faint && (is_read || named_count(chart) <= FOCI_CHART_LABELS))
        write_points(page, chart, s, line);
    (void)fputs("</g>\n", page->file);
}

/* A name cut between characters, with an ellipsis then; returns how many characters it has. */
static int32_t cut_name(const char *name, char out[4 * LABEL_CHARS + 8])
{
    int32_t count = 0;
    size_t bytes = 0;
    while (bytes < (size_t)4 * LABEL_CHARS && name[bytes]) {
        if (((unsigned char)name[bytes] & 0xC0) != 0x80 && ++count > LABEL_CHARS) break;
        bytes++;
    }
    memcpy(out, name, bytes);
    memcpy(out + bytes, name[bytes] ? "\xE2\x80\xA6" : "", name[bytes] ? 4 : 1);
    return count < LABEL_CHARS ? count : LABEL_CHARS;
}

/* Places labels as near to their lines' ends as they can be without touching: in the order of the
 * ends, first down from the top, then up from the bottom. Returns how many there are. */
static int32_t place_labels(const scale *s, const foci_chart *chart, int32_t *order, double *place)
{
    int32_t count = 0;
    for (int32_t n = 0; n < chart->line_count; n++) {
        const foci_chart_line *line = &chart->lines[n];
        if (line->is_faint) continue;
        const double y = fmin(fmax(py(s, line->y[line->count - 1]), TOP), TOP + HEIGHT);
        int32_t at = count++;
        for (; at > 0 && place[at - 1] > y; at--) {
            place[at] = place[at - 1];
            order[at] = order[at - 1];
        }
        place[at] = y;
        order[at] = n;
    }
    for (int32_t n = 1; n < count; n++) place[n] = fmax(place[n], place[n - 1] + LABEL_STEP);
    double below = TOP + HEIGHT;
    for (int32_t n = count - 1; n >= 0; n--) {
        place[n] = fmin(place[n], below);
        below = place[n] - LABEL_STEP;
    }
    return count;
}

static void write_labels(foci_page *page, const foci_chart *chart, const scale *s)
{
    int32_t order[FOCI_CHART_LABELS];
    double place[FOCI_CHART_LABELS];
    const int32_t count = place_labels(s, chart, order, place);
    for (int32_t n = 0; n < count; n++) {
        const foci_chart_line *line = &chart->lines[order[n]];
        const double x = px(s, line->x[line->count - 1]), y = py(s, line->y[line->count - 1]);
        char name[4 * LABEL_CHARS + 8];
        (void)cut_name(line->name, name);
        (void)fprintf(page->file,
                      "<g class=\"c%d\"><path class=\"lead%s\" d=\"M%.1f %.1fL%d %.1f\"/><text "
                      "class=\"end\" x=\"%d\" y=\"%.1f\">",
                      line->number % FOCI_CHART_COLOURS, x < s->right - FAR ? " far" : "", x + 2.0,
                      fmin(fmax(y, TOP), TOP + HEIGHT), s->right + 14, place[n], s->right + 18,
                      place[n] + 4.5);
        foci_page_text(page, name);
        (void)fputs("</text></g>\n", page->file);
    }
}

static void begin_chart(foci_page *page, const char *id, const char *title, int height)
{
    (void)fprintf(page->file,
                  "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"%s-title\">"
                  "<title id=\"%s-title\">",
                  WIDTH, height, id, id);
    foci_page_text(page, title);
    (void)fputs("</title>\n", page->file);
}

void foci_svg_chart(foci_page *page, const foci_chart *chart)
{
    scale s = {.is_log = chart->is_log_x};
    bool has_labels = named_count(chart) <= FOCI_CHART_LABELS;
    int32_t longest = 0;
    for (int32_t n = 0; n < chart->line_count; n++) {
        char name[4 * LABEL_CHARS + 8];
        if (chart->lines[n].is_faint) continue;
        const int32_t chars = cut_name(chart->lines[n].name, name);
        if (chars > longest) longest = chars;
        has_labels &= chart->lines[n].count > 0;
    }
    s.right = WIDTH - 14 - (has_labels ? 18 + (int)(CHAR_WIDTH * longest) : 0);
    find_x(chart, &s);
    find_y(chart, &s);
    find_left(chart, &s);
    begin_chart(page, chart->id, chart->title, TOP + HEIGHT + FOOT);
    write_y_axis(page, chart, &s);
    write_x_axis(page, chart, &s);
    /* A mark on the side edges is shown whole; a curve's beginning may lie above or below. */
    const int left = chart->has_marks ? s.left - 6 : s.left;
    (void)fprintf(page->file,
                  "<clipPath id=\"%s-clip\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>"
                  "</clipPath>\n<g clip-path=\"url(#%s-clip)\">\n",
                  chart->id, left, TOP, s.right - left + 6, HEIGHT, chart->id);
    if (chart->has_zero)
        (void)fprintf(page->file, "<path class=\"axis\" d=\"M%d %.1fH%d\"/>\n", s.left, py(&s, 0.0),
                      s.right);
    if (chart->has_one)
        (void)fprintf(page->file, "<path class=\"axis\" d=\"M%d %.1fH%d\"/>\n", s.left, py(&s, 1.0),
                      s.right);
    for (int32_t n = 0; n < chart->line_count; n++)
        if (chart->lines[n].count > 0) write_line(page, chart, &s, &chart->lines[n]);
    (void)fputs("</g>\n", page->file);
    if (has_labels) write_labels(page, chart, &s);
    (void)fputs("</svg>\n", page->file);
}

void foci_svg_rows(foci_page *page, const char *id, const char *title, const char *x_label,
                   const foci_chart_row *rows, int32_t row_count)
{
    enum { ROW = 30 };
    const int bottom = TOP + ROW * row_count;
    scale s = {.x_low = (double)INFINITY, .x_high = -(double)INFINITY, .right = WIDTH - 24};
    const int left = 240; /* of the plot; names stand before it */
    for (int32_t n = 0; n < row_count; n++)
        for (int32_t i = 0; i < rows[n].count; i++) {
            s.x_low = fmin(s.x_low, rows[n].values[i]);
            s.x_high = fmax(s.x_high, rows[n].values[i]);
        }
    if (!(s.x_low <= s.x_high)) return;
    const double spread = s.x_high - s.x_low;
    /* A spread of rounding errors would need more steps than a double can count. */
    const double size = fmax(1.0, fabs(s.x_high));
    const double room = spread > 1e-9 * size ? 0.06 * spread : 0.02 * size;
    s.x_low -= room;
    s.x_high += room;
    const double scale_x = (s.right - left) / (s.x_high - s.x_low);
    begin_chart(page, id, title, bottom + FOOT);
    const double step = round_step(s.x_high - s.x_low, TICKS);
    for (int64_t k = first_tick(s.x_low, step); (double)k * step <= s.x_high; k++) {
        const double x = left + ((double)k * step - s.x_low) * scale_x;
        (void)fprintf(page->file,
                      "<path class=\"grid\" d=\"M%.1f %dV%d\"/><text x=\"%.1f\" y=\"%d\" "
                      "text-anchor=\"middle\">%.*f</text>\n",
                      x, TOP, bottom, x, bottom + 18, decimals_of(step), (double)k * step);
    }
    for (int32_t n = 0; n < row_count; n++) {
        const double y = TOP + ROW * (n + 0.5);
        char name[4 * LABEL_CHARS + 8];
        (void)cut_name(rows[n].name, name);
        (void)fprintf(page->file,
                      "<g class=\"c%d\"><text class=\"end\" x=\"%d\" y=\"%.1f\" "
                      "text-anchor=\"end\">",
                      rows[n].number % FOCI_CHART_COLOURS, left - 14, y + 4.5);
        foci_page_text(page, name);
        (void)fputs("</text>\n", page->file);
        for (int32_t i = 0; i < rows[n].count; i++)
            (void)fprintf(page->file,
                          "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"><title>%.4f"
                          "</title></circle>\n",
                          left + (rows[n].values[i] - s.x_low) * scale_x, y, rows[n].values[i]);
        if (rows[n].count > 1)
            (void)fprintf(page->file, "<path class=\"mean\" d=\"M%.1f %.1fv18\"/>\n",
                          left + (rows[n].mean - s.x_low) * scale_x, y - 9.0);
        (void)fputs("</g>\n", page->file);
    }
    (void)fprintf(page->file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
                  (left + s.right) / 2, bottom + 40);
    foci_page_text(page, x_label);
    (void)fputs("</text></svg>\n", page->file);
}

void foci_svg_legend(foci_page *page, const char *name, int32_t number, bool is_alone)
{
    (void)fprintf(
        page->file,
        "<li class=\"c%d\"><svg class=\"key\" viewBox=\"0 0 30 10\" aria-hidden=\"true\">",
        number % FOCI_CHART_COLOURS);
    if (is_alone) {
        begin_mark(page, true, number, 15.0, 5.0);
        (void)fputs("/></svg>", page->file);
    } else {
        (void)fprintf(page->file, "<path class=\"line d%d\" d=\"M1 5H29\"/></svg>",
                      number % FOCI_CHART_DASHES);
    }
    foci_page_text(page, name);
    (void)fputs("</li>\n", page->file);
}
