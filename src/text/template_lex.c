/* Source into tokens, with Jinja's rules for white space as transformers sets them: the newline
 * behind a block is dropped (trim_blocks), and so are blanks before one that begins its line
 * (lstrip_blocks). */
#include <string.h>

#include "base/error.h"
#include "text/template_chars.h"
#include "text/template_node.h"

static focal_status fail(const foci_lexer *x, const char *what)
{
    return foci_fail(x->ctx, FOCAL_EFORMAT, "template: line %d: %s", x->line, what);
}

static void advance(foci_lexer *x, const char *to)
{
    if (to > x->at) x->is_line_start = to[-1] == '\n';
    for (; x->at < to; x->at++) x->line += *x->at == '\n';
}

static bool starts(const foci_lexer *x, const char *at, const char *what)
{
    const size_t bytes = strlen(what);
    return bytes <= (size_t)(x->end - at) && memcmp(at, what, bytes) == 0;
}

static const char *skip_space(const foci_lexer *x, const char *at)
{
    const foci_chars rest = {at, (size_t)(x->end - at)};
    return foci_chars_strip(rest, true, false).data;
}

/* The closing mark ("%}" and its like) at `at`, with what its sign takes away behind it; NULL when
 * there is none. */
static const char *closing_end(const foci_lexer *x, const char *at, const char *mark)
{
    const bool is_block = mark[0] != '}';
    if (*at == '-' && starts(x, at + 1, mark)) return skip_space(x, at + 3);
    if (is_block && *at == '+' && starts(x, at + 1, mark)) return at + 3;
    if (!starts(x, at, mark)) return NULL;
    at += 2;
    return is_block && at < x->end && *at == '\n' ? at + 1 : at;
}

/* Behind the tag of that one word ("raw") when it opens at `at`; NULL otherwise. trims tells
 * whether its end takes a newline with it. */
static const char *tag_end(const foci_lexer *x, const char *at, const char *word, bool trims)
{
    if (!starts(x, at, "{%")) return NULL;
    at += 2;
    if (at < x->end && (*at == '-' || *at == '+')) at++;
    at = skip_space(x, at);
    if (!starts(x, at, word)) return NULL;
    at = skip_space(x, at + strlen(word));
    if (at == x->end) return NULL;
    if (trims) return closing_end(x, at, "%}");
    if (starts(x, at, "-%}")) return skip_space(x, at + 3);
    return starts(x, at, "%}") ? at + 2 : NULL;
}

/* Text before a tag, without the blanks that the tag takes away. */
static foci_chars trim_before(const foci_lexer *x, foci_chars text, char sign, bool is_print)
{
    if (sign == '-') return foci_chars_strip(text, false, true);
    if (sign == '+' || is_print) return text;
    const char *newline = text.bytes ? memrchr(text.data, '\n', text.bytes) : NULL;
    if (!newline && !x->is_line_start) return text;
    const size_t line = newline ? (size_t)(newline + 1 - text.data) : 0;
    const foci_chars blanks = {text.data + line, text.bytes - line};
    if (foci_chars_strip(blanks, true, false).bytes == 0) text.bytes = line;
    return text;
}

static focal_status skip_comment(foci_lexer *x)
{
    for (const char *at = x->at; at + 1 < x->end; at++) {
        const char *end = closing_end(x, at, "#}");
        if (!end) continue;
        advance(x, end);
        return FOCAL_OK;
    }
    return fail(x, "a comment has no end '#}'");
}

static const char *find_tag(const foci_lexer *x)
{
    for (const char *at = x->at; at + 1 < x->end; at++) {
        at = memchr(at, '{', (size_t)(x->end - at) - 1);
        if (!at) break;
        if (at[1] == '{' || at[1] == '%' || at[1] == '#') return at;
    }
    return x->end;
}

/* Text up to the next tag, and into that tag. */
static focal_status next_text(foci_lexer *x, foci_token *token)
{
    const char *tag = find_tag(x);
    token->kind = FOCI_T_TEXT;
    token->text = (foci_chars){x->at, (size_t)(tag - x->at)};
    if (tag == x->end) {
        advance(x, x->end);
        return FOCAL_OK;
    }
    const char sign = (char)(tag + 2 < x->end ? tag[2] : '\0');
    token->text = trim_before(x, token->text, sign, tag[1] == '{');
    const char *raw = tag_end(x, tag, "raw", false);
    if (raw) {
        advance(x, raw);
        x->state = FOCI_IN_RAW;
        return FOCAL_OK;
    }
    advance(x, tag + 2 + (sign == '-' || sign == '+'));
    if (tag[1] == '#') return skip_comment(x);
    x->state = tag[1] == '{' ? FOCI_IN_PRINT : FOCI_IN_BLOCK;
    x->has_begin = true;
    return FOCAL_OK;
}

static focal_status next_raw(foci_lexer *x, foci_token *token)
{
    for (const char *at = x->at; at < x->end; at++) {
        const char *end = tag_end(x, at, "endraw", true);
        if (!end) continue;
        token->kind = FOCI_T_TEXT;
        token->text = trim_before(x, (foci_chars){x->at, (size_t)(at - x->at)}, at[2], false);
        advance(x, end);
        x->state = FOCI_IN_TEXT;
        return FOCAL_OK;
    }
    return fail(x, "a raw block has no end '{% endraw %}'");
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
}

/* Behind digits that single underscores may part; `at` itself when there is none. */
static const char *skip_digits(const foci_lexer *x, const char *at, int base)
{
    const char *last = at;
    for (; at < x->end; at++) {
        const char c = (char)(*at | 0x20);
        const bool fits =
            base == 16 ? is_digit(*at) || (c >= 'a' && c <= 'f') : *at >= '0' && *at < '0' + base;
        if (fits)
            last = at + 1;
        else if (*at != '_' || at != last)
            break;
    }
    return last;
}

/* Behind the fraction and the exponent of a number whose digits end at `at`; `at` when it is an
 * integer. */
static const char *skip_fraction(const foci_lexer *x, const char *at)
{
    const char *end = at;
    if (at + 1 < x->end && *at == '.' && is_digit(at[1])) end = skip_digits(x, at + 1, 10);
    if (end < x->end && (*end | 0x20) == 'e') {
        const char *digits = end + 1;
        if (digits < x->end && (*digits == '+' || *digits == '-')) digits++;
        if (digits < x->end && is_digit(*digits)) end = skip_digits(x, digits, 10);
    }
    return end;
}

static void take(foci_lexer *x, foci_token *token, foci_token_kind kind, const char *end)
{
    token->kind = kind;
    token->text = (foci_chars){x->at, (size_t)(end - x->at)};
    advance(x, end);
}

static void next_number(foci_lexer *x, foci_token *token)
{
    /* Behind a dot stands an index: "a.0.1" is two of them. */
    const bool is_index = x->at > x->begin && x->at[-1] == '.';
    const char *digits = skip_digits(x, x->at, 10);
    const char *end = is_index ? digits : skip_fraction(x, digits);
    if (end > digits) {
        take(x, token, FOCI_T_FLOAT, end);
        return;
    }
    const char second = (char)(x->at + 1 < x->end ? x->at[1] | 0x20 : '\0');
    if (*x->at == '0') {
        const int base = second == 'b' ? 2 : second == 'o' ? 8 : second == 'x' ? 16 : 1;
        const char *prefixed = base > 1 ? skip_digits(x, x->at + 2, base) : x->at;
        /* "0b" alone is a zero and a name; "00" is zero, "01" two numbers. */
        end = prefixed > x->at + 2 ? prefixed : skip_digits(x, x->at, 1);
    }
    take(x, token, FOCI_T_INT, end);
}

static focal_status next_string(foci_lexer *x, foci_token *token)
{
    const char quote = *x->at;
    for (const char *at = x->at + 1; at < x->end; at++) {
        if (*at == '\\') {
            at++;
        } else if (*at == quote) {
            take(x, token, FOCI_T_STRING, at + 1);
            return FOCAL_OK;
        }
    }
    return fail(x, "a string has no end");
}

/* Brackets must pair, and tags end only outside of them: "}}" may close two dicts. */
static focal_status next_operator(foci_lexer *x, foci_token *token)
{
    static const char doubles[][3] = {"//", "**", "==", "!=", ">=", "<="};
    const char c = *x->at;
    for (size_t n = 0; n < FOCAL_COUNT(doubles); n++) {
        if (!starts(x, x->at, doubles[n])) continue;
        token->op = FOCI_OP(c, doubles[n][1]);
        take(x, token, FOCI_T_OPERATOR, x->at + 2);
        return FOCAL_OK;
    }
    if (c == '\0' || !strchr("+-/*%~[](){}><=.:|,;", c)) {
        if (c >= ' ' && c <= '~')
            return foci_fail(x->ctx, FOCAL_EFORMAT, "template: line %d: unexpected '%c'", x->line,
                             c);
        return foci_fail(x->ctx, FOCAL_EFORMAT, "template: line %d: unexpected byte 0x%02x",
                         x->line, (unsigned)(unsigned char)c);
    }
    if (c == '(' || c == '[' || c == '{') {
        if (x->depth == FOCI_TEMPLATE_NESTING)
            return foci_fail(x->ctx, FOCAL_EFORMAT,
                             "template: line %d: nested deeper than %d levels", x->line,
                             FOCI_TEMPLATE_NESTING);
        x->open[x->depth++] = (char)(c == '(' ? ')' : c + 2);
    } else if (c == ')' || c == ']' || c == '}') {
        if (x->depth == 0 || x->open[x->depth - 1] != c)
            return foci_fail(x->ctx, FOCAL_EFORMAT, "template: line %d: unexpected '%c'", x->line,
                             c);
        x->depth--;
    }
    token->op = (unsigned char)c;
    take(x, token, FOCI_T_OPERATOR, x->at + 1);
    return FOCAL_OK;
}

static focal_status next_inside(foci_lexer *x, foci_token *token)
{
    const bool is_print = x->state == FOCI_IN_PRINT;
    for (;;) {
        if (x->at == x->end) {
            token->kind = FOCI_T_END;
            return FOCAL_OK;
        }
        const char *closing = x->depth ? NULL : closing_end(x, x->at, is_print ? "}}" : "%}");
        if (closing) {
            take(x, token, is_print ? FOCI_T_PRINT_END : FOCI_T_BLOCK_END, closing);
            x->state = FOCI_IN_TEXT;
            return FOCAL_OK;
        }
        const char *behind = skip_space(x, x->at);
        if (behind == x->at) break;
        advance(x, behind);
        token->line = x->line;
    }
    const char c = *x->at;
    if (is_digit(c)) {
        next_number(x, token);
        return FOCAL_OK;
    }
    if (is_word(c)) {
        const char *end = x->at;
        while (end < x->end && is_word(*end)) end++;
        take(x, token, FOCI_T_NAME, end);
        return FOCAL_OK;
    }
    return c == '"' || c == '\'' ? next_string(x, token) : next_operator(x, token);
}

focal_status foci_lexer_next(foci_lexer *x, foci_token *token)
{
    for (;;) {
        *token = (foci_token){.kind = FOCI_T_END, .line = x->line};
        if (x->has_begin) {
            x->has_begin = false;
            token->kind = x->state == FOCI_IN_PRINT ? FOCI_T_PRINT_BEGIN : FOCI_T_BLOCK_BEGIN;
            return FOCAL_OK;
        }
        if (x->state == FOCI_IN_PRINT || x->state == FOCI_IN_BLOCK) return next_inside(x, token);
        if (x->state == FOCI_IN_TEXT && x->at == x->end) return FOCAL_OK;
        FOCAL_TRY(x->state == FOCI_IN_RAW ? next_raw(x, token) : next_text(x, token));
        if (token->text.bytes) return FOCAL_OK;
    }
}
