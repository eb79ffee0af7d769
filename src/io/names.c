/* Names in sorted arrays. A hash table would need a secret to be safe from files that are made to
 * collide; sorting needs none. */
#include "io/names.h"

#include <string.h>

foci_text foci_text_of(const char *string)
{
    return (foci_text){string, strlen(string)};
}

/* Any total order will do; lengths first is the cheapest. */
static int compare(foci_text a, foci_text b)
{
    if (a.bytes != b.bytes) return a.bytes < b.bytes ? -1 : 1;
    return a.bytes > 0 ? memcmp(a.data, b.data, a.bytes) : 0;
}

bool foci_text_equal(foci_text a, foci_text b)
{
    return compare(a, b) == 0;
}

/* Bytes of the UTF-8 sequence at the head of text, 0 when there is none; *code is its character. */
static size_t read_character(const uint8_t *text, size_t bytes, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t head = text[0];
    const size_t length = head < 0x80           ? 1
                          : (head >> 5) == 0x06 ? 2
                          : (head >> 4) == 0x0E ? 3
                          : (head >> 3) == 0x1E ? 4
                                                : 0;
    if (length == 0 || length > bytes) return 0;
    uint32_t value = length == 1 ? head : head & (0x7FU >> length);
    for (size_t n = 1; n < length; n++) {
        if ((text[n] & 0xC0) != 0x80) return 0;
        value = value << 6 | (text[n] & 0x3FU);
    }
    const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
    if (value < least[length] || value > 0x10FFFF || is_surrogate) return 0;
    *code = value;
    return length;
}

bool foci_text_is_plain(foci_text text)
{
    const uint8_t *bytes = (const uint8_t *)text.data;
    for (size_t at = 0; at < text.bytes;) {
        uint32_t code = 0;
        const size_t length = read_character(bytes + at, text.bytes - at, &code);
        if (length == 0 || code < 0x20 || (code >= 0x7F && code <= 0x9F)) return false;
        at += length;
    }
    return true;
}

/* Lets the name at `at` sink to its place in the heap names[0..count). */
static void sink(foci_name *names, int64_t at, int64_t count)
{
    const foci_name moved = names[at];
    for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && compare(names[child].text, names[child + 1].text) < 0) child++;
        if (compare(moved.text, names[child].text) >= 0) break;
        names[at] = names[child];
        at = child;
    }
    names[at] = moved;
}

/* Heap sort: the C library's may take memory behind the context's back, or n^2 steps. */
void foci_names_sort(foci_name *names, int64_t count)
{
    for (int64_t n = count / 2; n-- > 0;) sink(names, n, count);
    for (int64_t last = count - 1; last > 0; last--) {
        const foci_name largest = names[0];
        names[0] = names[last];
        names[last] = largest;
        sink(names, 0, last);
    }
}

const foci_name *foci_names_repeated(const foci_name *names, int64_t count)
{
    for (int64_t n = 1; n < count; n++)
        if (foci_text_equal(names[n - 1].text, names[n].text)) return &names[n];
    return NULL;
}

int64_t foci_names_find(const foci_name *names, int64_t count, foci_text text)
{
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = compare(names[middle].text, text);
        if (order == 0) return names[middle].index;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}
