/* UTF-8 and the few facts about characters that templates need. */
#include "text/template_chars.h"

#include <string.h>

#include "base/error.h"

/* Bytes of the valid sequence at `at`, 0 when there is none: no overlong form, no surrogate,
 * nothing beyond U+10FFFF. */
static size_t sequence_bytes(const unsigned char *at, size_t left)
{
    if (at[0] < 0x80) return 1;
    const size_t bytes = at[0] >= 0xF0 ? 4 : at[0] >= 0xE0 ? 3 : 2;
    if (at[0] < 0xC2 || at[0] > 0xF4 || bytes > left) return 0;
    for (size_t n = 1; n < bytes; n++)
        if ((at[n] & 0xC0) != 0x80) return 0;
    if (at[0] == 0xE0 && at[1] < 0xA0) return 0;
    if (at[0] == 0xED && at[1] > 0x9F) return 0;
    if (at[0] == 0xF0 && at[1] < 0x90) return 0;
    if (at[0] == 0xF4 && at[1] > 0x8F) return 0;
    return bytes;
}

bool foci_char_check(foci_chars text, size_t *at)
{
    size_t n = 0;
    while (n < text.bytes) {
        const size_t bytes = sequence_bytes((const unsigned char *)text.data + n, text.bytes - n);
        if (bytes == 0) {
            *at = n;
            return false;
        }
        n += bytes;
    }
    return true;
}

void foci_one_line(char *text)
{
    size_t left = strlen(text), bytes;
    for (; left > 0; text += bytes, left -= bytes) {
        bytes = sequence_bytes((const unsigned char *)text, left);
        if (bytes == 0) {
            bytes = 1;
            *text = '?';
        }
        if ((unsigned char)*text < ' ') *text = ' ';
    }
}

uint32_t foci_char_next(const char **at)
{
    const unsigned char *p = (const unsigned char *)*at;
    if (p[0] < 0x80) {
        *at += 1;
        return p[0];
    }
    if (p[0] < 0xE0) {
        *at += 2;
        return (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    }
    if (p[0] < 0xF0) {
        *at += 3;
        return (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    }
    *at += 4;
    return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 |
           (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
}

uint32_t foci_char_back(const char **at)
{
    do (*at)--;
    while (((unsigned char)**at & 0xC0) == 0x80);
    const char *p = *at;
    return foci_char_next(&p);
}

int foci_char_put(uint32_t c, char out[FOCI_CHAR_BYTES])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const int bytes = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int n = bytes - 1; n > 0; n--) {
        out[n] = (char)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    out[0] = (char)(first[bytes] | c);
    return bytes;
}

int64_t foci_char_count(foci_chars text)
{
    int64_t count = 0;
    for (size_t n = 0; n < text.bytes; n++) count += ((unsigned char)text.data[n] & 0xC0) != 0x80;
    return count;
}

size_t foci_char_offset(foci_chars text, int64_t index)
{
    size_t n = 0;
    for (; n < text.bytes; n++) {
        if (((unsigned char)text.data[n] & 0xC0) == 0x80) continue;
        if (index-- == 0) break;
    }
    return n;
}

bool foci_char_is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

bool foci_char_is_digit(uint32_t c)
{
    return c >= '0' && c <= '9';
}

/* Ranges, first and last. */
typedef struct range {
    uint32_t first, last;
} range;

static bool is_in(uint32_t c, const range *ranges, size_t count)
{
    for (size_t n = 0; n < count; n++)
        if (c >= ranges[n].first && c <= ranges[n].last) return true;
    return false;
}

bool foci_char_is_alpha(uint32_t c)
{
    if (c < 0x80) return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
    /* Blocks without letters; all else counts as a letter. */
    static const range other[] = {
        {0x80, 0xA9},     {0xAB, 0xB4},     {0xB6, 0xB9},       {0xBB, 0xBF},
        {0xD7, 0xD7},     {0xF7, 0xF7},     {0x300, 0x36F},     {0x2000, 0x2070},
        {0x2072, 0x207E}, {0x2080, 0x208F}, {0x20A0, 0x20F0},   {0x2190, 0x2BFF},
        {0x2E00, 0x2E7F}, {0x3000, 0x3004}, {0x3007, 0x3030},   {0xE000, 0xF8FF},
        {0xFE00, 0xFE6F}, {0xFF00, 0xFF20}, {0x1F000, 0x1FAFF}, {0xE0000, 0x10FFFF}};
    return !is_in(c, other, FOCAL_COUNT(other));
}

bool foci_char_is_printable(uint32_t c)
{
    if (c < 0x7F) return c >= 0x20;
    /* Control, format, separator and private characters; repr() writes their numbers. */
    static const range hidden[] = {{0x7F, 0xA0},     {0xAD, 0xAD},       {0x600, 0x605},
                                   {0x61C, 0x61C},   {0x6DD, 0x6DD},     {0x70F, 0x70F},
                                   {0x1680, 0x1680}, {0x180E, 0x180E},   {0x2000, 0x200F},
                                   {0x2028, 0x202F}, {0x205F, 0x206F},   {0x3000, 0x3000},
                                   {0xD800, 0xF8FF}, {0xFEFF, 0xFEFF},   {0xFFF0, 0xFFFB},
                                   {0xFFFE, 0xFFFF}, {0xE0000, 0xE00FF}, {0xE01F0, 0x10FFFF}};
    return !is_in(c, hidden, FOCAL_COUNT(hidden));
}

/* Lower-case letters first..last whose capitals lie `down` below; with a down of 1 they alternate
 * with their capitals, and first is a capital. */
typedef struct case_range {
    uint32_t first, last;
    int32_t down;
} case_range;

static const case_range cases[] = {
    {'a', 'z', 32},      {0xE0, 0xF6, 32},     {0xF8, 0xFE, 32},     {0xFF, 0xFF, -121},
    {0x100, 0x12F, 1},   {0x132, 0x137, 1},    {0x139, 0x148, 1},    {0x14A, 0x177, 1},
    {0x179, 0x17E, 1},   {0x1CD, 0x1DC, 1},    {0x1DE, 0x1EF, 1},    {0x1F8, 0x21F, 1},
    {0x222, 0x233, 1},   {0x3AC, 0x3AC, 38},   {0x3AD, 0x3AF, 37},   {0x3B1, 0x3C1, 32},
    {0x3C3, 0x3CB, 32},  {0x3CC, 0x3CC, 64},   {0x3CD, 0x3CE, 63},   {0x430, 0x44F, 32},
    {0x450, 0x45F, 80},  {0x460, 0x481, 1},    {0x48A, 0x4BF, 1},    {0x4C1, 0x4CE, 1},
    {0x4CF, 0x4CF, 15},  {0x4D0, 0x52F, 1},    {0x561, 0x586, 48},   {0x1E00, 0x1E95, 1},
    {0x1EA0, 0x1EFF, 1}, {0x2170, 0x217F, 16}, {0xFF41, 0xFF5A, 32}, {0x10428, 0x1044F, 40}};

uint32_t foci_char_upper(uint32_t c)
{
    if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
    if (c == 0xB5) return 0x39C;  /* micro is Greek */
    if (c == 0x131) return 'I';   /* dotless i */
    if (c == 0x17F) return 'S';   /* long s */
    if (c == 0x3C2) return 0x3A3; /* final sigma */
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        const case_range *r = &cases[n];
        if (c < r->first || c > r->last) continue;
        if (r->down == 1) return (c - r->first) % 2 ? c - 1 : c;
        return (uint32_t)((int32_t)c - r->down);
    }
    return c;
}

uint32_t foci_char_lower(uint32_t c)
{
    if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        const case_range *r = &cases[n];
        if (r->down == 1 && c >= r->first && c <= r->last) return (c - r->first) % 2 ? c : c + 1;
        const uint32_t small = (uint32_t)((int32_t)c + r->down);
        if (r->down != 1 && small >= r->first && small <= r->last) return small;
    }
    return c;
}

foci_chars foci_chars_strip(foci_chars text, bool left, bool right)
{
    const char *begin = text.data, *end = text.data + text.bytes;
    while (left && begin < end) {
        const char *at = begin;
        if (!foci_char_is_space(foci_char_next(&at))) break;
        begin = at;
    }
    while (right && end > begin) {
        const char *at = end;
        if (!foci_char_is_space(foci_char_back(&at))) break;
        end = at;
    }
    return (foci_chars){begin, (size_t)(end - begin)};
}

focal_status foci_builder_char(foci_builder *builder, uint32_t c, foci_case as)
{
    if (c == 0xDF && as != FOCI_CASE_LOWER)
        return foci_builder_text(builder, as == FOCI_CASE_UPPER ? "SS" : "Ss");
    if (c == 0x130 && as == FOCI_CASE_LOWER) return foci_builder_text(builder, "i\xCC\x87");
    char out[FOCI_CHAR_BYTES];
    const int bytes =
        foci_char_put(as == FOCI_CASE_LOWER ? foci_char_lower(c) : foci_char_upper(c), out);
    return foci_builder_add(builder, out, (size_t)bytes);
}
