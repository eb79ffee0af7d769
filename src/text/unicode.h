/* What Unicode says of characters: classes, lower case, normal forms. utf8proc is behind it;
 * unicode_none.c stands in where that is missing. */
#ifndef FOCI_TEXT_UNICODE_H
#define FOCI_TEXT_UNICODE_H

#include "focal/tokenizer.h"

/* False in the stand-in, whose classes know ASCII alone: who needs them must ask first. */
bool foci_unicode_is_here(void);
/* FOCAL_EUNSUPPORTED, naming what is missing, unless it is here. */
focal_status foci_unicode_need(focal_ctx *ctx, const char *what);

typedef enum foci_char_class {
    FOCI_CHAR_OTHER,
    FOCI_CHAR_LETTER,      /* L* */
    FOCI_CHAR_NUMBER,      /* N* */
    FOCI_CHAR_SPACE,       /* White_Space */
    FOCI_CHAR_PUNCTUATION, /* P* */
    FOCI_CHAR_MARK         /* M* */
} foci_char_class;

foci_char_class foci_char_class_of(int32_t character);
/* What \w means in the regular expressions of tokenizer files. */
bool foci_is_word(int32_t character);
/* Writes the one or two characters of the lower case. */
int32_t foci_lower(int32_t character, int32_t out[2]);

typedef enum foci_normal_form { FOCI_NFC, FOCI_NFD, FOCI_NFKC, FOCI_NFKD } foci_normal_form;

/* Appends the normal form of text. Bytes that are not UTF-8 are copied, and what stands before and
 * behind them is normalised by itself. Time is linear in the text. */
focal_status foci_normalize(focal_ctx *ctx, foci_normal_form form, const char *text, size_t bytes,
                            focal_buffer *out);

#endif /* FOCI_TEXT_UNICODE_H */
