/* Hand-written matchers of the GPT-2, Llama 3 and Qwen 2 patterns. The alternatives stand in the
 * order of the patterns, which the comments repeat. */
#include "text/scan.h"

#include <string.h>

#include "text/unicode.h"
#include "text/utf8.h"

const char foci_gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const char foci_llama3_pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const char foci_qwen2_pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

typedef struct text_view {
    const char *data;
    size_t bytes;
} text_view;

/* Classes of ASCII: l letter, n number, s space, o other. */
static const char ascii_class[129] = "ooooooooosssssoooooooooooooooooo"
                                     "sooooooooooooooonnnnnnnnnnoooooo"
                                     "ollllllllllllllllllllllllllooooo"
                                     "ollllllllllllllllllllllllllooooo";

foci_scan foci_scan_of(const char *source, size_t bytes)
{
    if (bytes == strlen(foci_gpt2_pattern) && memcmp(source, foci_gpt2_pattern, bytes) == 0)
        return FOCI_SCAN_GPT2;
    if (bytes == strlen(foci_llama3_pattern) && memcmp(source, foci_llama3_pattern, bytes) == 0)
        return FOCI_SCAN_LLAMA3;
    if (bytes == strlen(foci_qwen2_pattern) && memcmp(source, foci_qwen2_pattern, bytes) == 0)
        return FOCI_SCAN_QWEN2;
    return FOCI_SCAN_NONE;
}

/* The class of the character at `at`, 0 at the end, and its length. */
static char class_at(text_view text, size_t at, size_t *length)
{
    *length = 1;
    if (at >= text.bytes) return 0;
    const unsigned char lead = (unsigned char)text.data[at];
    if (lead < 0x80) return ascii_class[lead];
    switch (foci_char_class_of(foci_utf8_decode(text.data + at, text.bytes - at, length))) {
    case FOCI_CHAR_LETTER:
        return 'l';
    case FOCI_CHAR_NUMBER:
        return 'n';
    case FOCI_CHAR_SPACE:
        return 's';
    default:
        return 'o';
    }
}

/* Where the run of one class ends that covers `at`. */
static size_t run_end(text_view text, size_t at, char class)
{
    size_t length;
    while (class_at(text, at, &length) == class) at += length;
    return at;
}

static bool is_newline(char c)
{
    return c == '\r' || c == '\n';
}

/* The end of 's 't 're 've 'm 'll 'd at `at`, or `at`. Without regard to case, a long s is one too:
 * it folds to s. */
static size_t contraction_end(text_view text, size_t at, bool any_case)
{
    const size_t left = text.bytes - at;
    if (left < 2 || text.data[at] != '\'') return at;
    char a = text.data[at + 1], b = '\0';
    if (left > 2) b = text.data[at + 2];
    if (any_case) {
        if (a == '\xC5' && b == '\xBF') return at + 3;
        if (a >= 'A' && a <= 'Z') a = (char)(a - 'A' + 'a');
        if (b >= 'A' && b <= 'Z') b = (char)(b - 'A' + 'a');
    }
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return at + 2;
    if ((b == 'e' && (a == 'r' || a == 'v')) || (a == 'l' && b == 'l')) return at + 3;
    return at;
}

/* \s+(?!\S)|\s+: all of a run of space that ends the text, else all but the last character, which
 * goes with the word behind it; of a single one, that one. */
static size_t space_end(text_view text, size_t at)
{
    size_t end = at, last = at, length;
    while (class_at(text, end, &length) == 's') {
        last = end;
        end += length;
    }
    return end == text.bytes || last == at ? end : last;
}

static size_t gpt2_end(text_view text, size_t at)
{
    size_t length;
    const size_t contraction = contraction_end(text, at, false);
    if (contraction > at) return contraction;
    /* ` ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+` */
    const size_t from = text.data[at] == ' ' ? at + 1 : at;
    const char class = class_at(text, from, &length);
    if (class != 0 && class != 's') return run_end(text, from + length, class);
    return space_end(text, at);
}

/* \s*[\r\n]+: to behind the last line end of a run of space, or `at`. */
static size_t lines_end(text_view text, size_t at)
{
    size_t end = at, length;
    for (size_t n = at; class_at(text, n, &length) == 's'; n += length)
        if (is_newline(text.data[n])) end = n + 1;
    return end;
}

static size_t llama3_end(text_view text, size_t at, int most_digits)
{
    size_t length, next_length;
    const size_t contraction = contraction_end(text, at, true);
    if (contraction > at) return contraction;
    /* `[^\r\n\p{L}\p{N}]?\p{L}+` */
    const char class = class_at(text, at, &length);
    if (class == 'l') return run_end(text, at + length, 'l');
    const char next = class_at(text, at + length, &next_length);
    if (next == 'l' && class != 'n' && !is_newline(text.data[at]))
        return run_end(text, at + length + next_length, 'l');
    if (class == 'n') { /* `\p{N}{1,3}` or `\p{N}` */
        size_t end = at + length;
        for (int n = 1; n < most_digits && class_at(text, end, &length) == 'n'; n++) end += length;
        return end;
    }
    /* ` ?[^\s\p{L}\p{N}]+[\r\n]*` */
    if (class == 'o' || (text.data[at] == ' ' && next == 'o')) {
        size_t end = run_end(text, at + length, 'o');
        while (end < text.bytes && is_newline(text.data[end])) end++;
        return end;
    }
    const size_t lines = lines_end(text, at);
    return lines > at ? lines : space_end(text, at);
}

size_t foci_scan_next(foci_scan scan, const char *data, size_t bytes, size_t at)
{
    const text_view text = {data, bytes};
    if (scan == FOCI_SCAN_GPT2) return gpt2_end(text, at);
    return llama3_end(text, at, scan == FOCI_SCAN_LLAMA3 ? 3 : 1);
}

/* The class of the character that ends at `at`, 0 when there is none. */
static char class_before(text_view text, size_t at)
{
    size_t begin = at - 1, length;
    while (begin > 0 && at - begin < FOCI_UTF8_MOST && (text.data[begin] & 0xC0) == 0x80) begin--;
    if (foci_utf8_decode(text.data + begin, at - begin, &length) < 0 || begin + length != at)
        return 0;
    return class_at((text_view){text.data, at}, begin, &length);
}

bool foci_scan_cuts(foci_scan scan, const char *data, size_t bytes, size_t at)
{
    const text_view text = {data, bytes};
    size_t length;
    if (at < 1 || at >= bytes || foci_utf8_decode(data + at, bytes - at, &length) < 0) return false;
    const char before = class_before(text, at), behind = class_at(text, at, &length);
    /* No alternative goes on behind letters or numbers but with their like. */
    if (before == 'l' || before == 'n') return behind != before;
    /* Other signs take line ends along, but for GPT-2. */
    if (before == 'o') return behind == 's' && (scan == FOCI_SCAN_GPT2 || !is_newline(data[at]));
    /* Line ends end what they are in, but for GPT-2, which looks at what is behind the space. */
    return scan != FOCI_SCAN_GPT2 && data[at - 1] == '\n' && behind != 's';
}
