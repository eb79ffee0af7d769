/* Lines and words. */
#include "train/run_line.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool foci_line_next(foci_text *text, foci_text *line)
{
    if (text->bytes == 0) return false;
    const char *end = memchr(text->data, '\n', text->bytes);
    const size_t bytes = end ? (size_t)(end - text->data) : text->bytes;
    const size_t taken = end ? bytes + 1 : bytes;
    *line = (foci_text){text->data, bytes};
    if (bytes > 0 && line->data[bytes - 1] == '\r') line->bytes--;
    *text = (foci_text){text->data + taken, text->bytes - taken};
    return true;
}

bool foci_line_is_plain(foci_text line)
{
    size_t begin = 0;
    for (size_t n = 0; n <= line.bytes; n++) {
        if (n < line.bytes && line.data[n] != '\t') continue;
        if (n > begin && !foci_text_is_plain((foci_text){line.data + begin, n - begin}))
            return false;
        begin = n + 1;
    }
    return true;
}

foci_text foci_line_trim(foci_text text)
{
    while (text.bytes > 0 && is_blank(text.data[0]))
        text = (foci_text){text.data + 1, text.bytes - 1};
    while (text.bytes > 0 && is_blank(text.data[text.bytes - 1])) text.bytes--;
    return text;
}

foci_text foci_line_bare(foci_text line)
{
    bool is_quoted = false;
    for (size_t n = 0; n < line.bytes; n++) {
        const char c = line.data[n];
        if (is_quoted && c == '\\') {
            n++;
        } else if (c == '"') {
            is_quoted = !is_quoted;
        } else if (c == '#' && !is_quoted && (n == 0 || is_blank(line.data[n - 1]))) {
            line.bytes = n;
            break;
        }
    }
    return foci_line_trim(line);
}

bool foci_line_word(foci_text *text, foci_text *word)
{
    const foci_text rest = foci_line_trim(*text);
    bool is_quoted = false;
    size_t n = 0;
    for (; n < rest.bytes && (is_quoted || !is_blank(rest.data[n])); n++) {
        if (is_quoted && rest.data[n] == '\\' && n + 1 < rest.bytes)
            n++;
        else if (rest.data[n] == '"')
            is_quoted = !is_quoted;
    }
    *word = (foci_text){rest.data, n};
    *text = (foci_text){rest.data + n, rest.bytes - n};
    return n > 0;
}

bool foci_line_cut(foci_text text, char mark, foci_text *before, foci_text *behind)
{
    const char *at = text.bytes > 0 ? memchr(text.data, mark, text.bytes) : NULL;
    if (!at) return false;
    const size_t bytes = (size_t)(at - text.data);
    *before = foci_line_trim((foci_text){text.data, bytes});
    *behind = foci_line_trim((foci_text){at + 1, text.bytes - bytes - 1});
    return true;
}
