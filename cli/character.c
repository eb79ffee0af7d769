/* UTF-8, a character at a time. */
#include "character.h"

size_t character_read(const char *text, size_t bytes, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    const size_t length = at[0] < 0x80                    ? 1
                          : at[0] >= 0xC2 && at[0] < 0xE0 ? 2
                          : at[0] >= 0xE0 && at[0] < 0xF0 ? 3
                          : at[0] >= 0xF0 && at[0] < 0xF5 ? 4
                                                          : 0;
    *code = at[0];
    if (length < 2 || length > bytes) return length == 1 ? 1 : 0;
    *code &= 0xFFU >> (length + 1);
    for (size_t n = 1; n < length; n++) {
        if ((at[n] & 0xC0U) != 0x80U) return 0;
        *code = *code << 6 | (at[n] & 0x3FU);
    }
    const int is_bad =
        *code < least[length] || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000);
    return is_bad ? 0 : length;
}
