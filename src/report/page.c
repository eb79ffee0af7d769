/* Writing a page: to a temporary name, synced, renamed; what all pages look like. */
#include "report/page.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "io/names.h"

/* What all pages have: light and dark, text, tables, boxes. */
static const char style_of_all[] =
    ":root{color-scheme:light dark;--page:#fbfbf9;--card:#fff;--ink:#1c1c1a;--soft:#5d5d57;"
    "--line:#e3e2dc}\n"
    "@media (prefers-color-scheme:dark){:root{--page:#161615;--card:#1f1f1d;--ink:#f0efea;"
    "--soft:#a8a79f;--line:#34332f}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);"
    "font:16px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",sans-serif}\n"
    "main{max-width:70rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}\n"
    "h1{font-size:1.9rem;line-height:1.2;margin:0 0 .4rem;letter-spacing:-.01em}\n"
    "h2{font-size:1.15rem;margin:0 0 .35rem}p{margin:0 0 .8rem;max-width:46rem}\n"
    ".soft{color:var(--soft)}section{background:var(--card);border:1px solid var(--line);"
    "border-radius:12px;padding:1.25rem 1.4rem;margin-top:1.25rem}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;min-width:36rem;"
    "font-variant-numeric:tabular-nums}\n"
    "caption{text-align:left;color:var(--soft);padding-bottom:.5rem}\n"
    "th,td{text-align:right;padding:.45rem .7rem;border-bottom:1px solid var(--line);"
    "white-space:nowrap}tr:last-child>*{border-bottom:0}\n"
    "th:first-child,td:first-child{text-align:left;padding-left:0}thead th{color:var(--soft);"
    "font-weight:500;font-size:.88rem}tbody th{font-weight:500}\n"
    "figure{margin:0}figcaption{color:var(--soft);font-size:.92rem;margin-top:.6rem}\n"
    "svg{display:block;width:100%;height:auto}svg text{fill:var(--soft);font:13px system-ui,"
    "sans-serif}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;list-style:none;margin:.4rem 0 .2rem;"
    "padding:0;font-size:.92rem}.legend li{display:flex;align-items:center;gap:.45rem}\n"
    ".note{border-color:#c98500;background:color-mix(in srgb,#e69f00 9%,var(--card))}"
    ".note ul{margin:.3rem 0 0;padding-left:1.2rem}.note li{overflow-wrap:anywhere}\n"
    "details{margin-top:.7rem}summary{cursor:pointer;color:var(--soft)}"
    "pre{overflow-x:auto;background:var(--page);border:1px solid var(--line);border-radius:8px;"
    "padding:.7rem .9rem;font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;"
    "margin:.5rem 0}td.left,th.left{text-align:left}small{color:var(--soft)}"
    "h3{font-size:1rem;margin:1.1rem 0 .3rem}@media print{section{break-inside:avoid}}\n";

focal_status foci_page_open(focal_ctx *ctx, const char *path, foci_page *page)
{
    page->path = path;
    const int length =
        snprintf(page->temporary, sizeof page->temporary, "%s.%ld.tmp", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof page->temporary)
        return foci_fail(ctx, FOCAL_EIO, "report: the file name is longer than %zu bytes",
                         sizeof page->temporary - 32);
    /* The finished page is renamed over path: a device or a link there would be lost. */
    struct stat there;
    if (lstat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return foci_fail(ctx, FOCAL_EIO, "report: %s is not an ordinary file", path);
    page->file = fopen(page->temporary, "wbx");
    if (!page->file)
        return foci_fail(ctx, FOCAL_EIO, "report: %s cannot be written: %s", path, strerror(errno));
    return FOCAL_OK;
}

static ssize_t write_stream(void *cookie, const char *text, size_t bytes)
{
    const foci_page *page = cookie;
    page->write(page->user, text, bytes);
    return (ssize_t)bytes;
}

focal_status foci_page_stream(focal_ctx *ctx, void (*write)(void *, const char *, size_t),
                              void *user, foci_page *page)
{
    page->path = NULL;
    page->user = user;
    page->write = write;
    const cookie_io_functions_t functions = {.write = write_stream};
    page->file = fopencookie(page, "wb", functions);
    if (!page->file) return foci_fail(ctx, FOCAL_ENOMEM, "report: no memory to write with");
    return FOCAL_OK;
}

focal_status foci_page_close(focal_ctx *ctx, foci_page *page, focal_status status)
{
    if (!page->path) {
        const bool is_whole = fclose(page->file) == 0;
        if (status == FOCAL_OK && !is_whole)
            return foci_fail(ctx, FOCAL_ENOMEM, "report: no memory to write with");
        return status;
    }
    errno = 0;
    bool is_written = fflush(page->file) == 0 && !ferror(page->file);
    is_written = is_written && fsync(fileno(page->file)) == 0;
    int error = errno;
    if (fclose(page->file) != 0 && is_written) {
        is_written = false;
        error = errno;
    }
    if (status == FOCAL_OK && is_written) {
        if (rename(page->temporary, page->path) == 0) return FOCAL_OK;
        error = errno;
    }
    (void)remove(page->temporary);
    if (status != FOCAL_OK) return status;
    return foci_fail(ctx, FOCAL_EIO, "report: %s cannot be written: %s", page->path,
                     strerror(error));
}

void foci_page_drop(foci_page *page)
{
    (void)fclose(page->file);
    if (page->path) (void)remove(page->temporary);
}

/* Bytes of the character at the head of text when it can stand in a page as it is, else 0. */
static size_t plain_bytes(const char *text)
{
    size_t bytes = 1;
    if (*text == '\n' || *text == '\t') return 1;
    while (bytes < 4 && ((unsigned char)text[bytes] & 0xC0) == 0x80) bytes++;
    return foci_text_is_plain((foci_text){text, bytes}) ? bytes : 0;
}

void foci_page_text(foci_page *page, const char *text)
{
    while (text && *text) {
        const size_t bytes = plain_bytes(text);
        if (*text == '&')
            (void)fputs("&amp;", page->file);
        else if (*text == '<')
            (void)fputs("&lt;", page->file);
        else if (*text == '>')
            (void)fputs("&gt;", page->file);
        else if (*text == '"')
            (void)fputs("&quot;", page->file);
        else if (bytes == 0)
            (void)fputs("\xEF\xBF\xBD", page->file);
        else
            (void)fwrite(text, 1, bytes, page->file);
        text += bytes > 0 ? bytes : 1;
    }
}

static bool is_plain_word(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "._,=/+-";
    return *word && word[strspn(word, plain)] == '\0';
}

bool foci_word_quote(const char *word, char *out, size_t room)
{
    static const char quote[] = "'\\''";
    const bool is_plain = is_plain_word(word);
    size_t used = 0;
    if (4 * strlen(word) + 3 > room) return false; /* at worst each letter is a quote */
    if (!is_plain) out[used++] = '\'';
    for (; *word; word++) {
        const bool is_quote = *word == '\'';
        const size_t bytes = is_quote ? sizeof quote - 1 : 1;
        memcpy(out + used, is_quote ? quote : word, bytes);
        used += bytes;
    }
    if (!is_plain) out[used++] = '\'';
    out[used] = '\0';
    return true;
}

void foci_page_word(foci_page *page, const char *word)
{
    const bool is_plain = is_plain_word(word);
    if (!is_plain) (void)fputs("'", page->file);
    for (; *word; word++) {
        char letter[5] = {*word};
        const bool has_more = (unsigned char)*word >= 0xC0;
        /* a character is kept together: what is no UTF-8 is then seen to be none */
        for (int n = 1; has_more && n < 4 && ((unsigned char)word[1] & 0xC0) == 0x80; n++)
            letter[n] = *++word;
        if (letter[0] == '\'')
            (void)fputs("'\\''", page->file);
        else
            foci_page_text(page, letter);
    }
    if (!is_plain) (void)fputs("'", page->file);
}

void foci_page_number(foci_page *page, double value, int decimals)
{
    if (isnan(value)) {
        (void)fputs("&ndash;", page->file);
        return;
    }
    if (value < 0.0) (void)fputs("&minus;", page->file);
    (void)fprintf(page->file, "%.*f", decimals, fabs(value));
}

void foci_page_begin(foci_page *page, const char *title, const char *subtitle, const char *style,
                     const char *more_style)
{
    (void)fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
                page->file);
    foci_page_text(page, title);
    (void)fprintf(page->file,
                  "</title>\n<style>\n%s%s%s</style></head>\n<body><main>\n<header><h1>",
                  style_of_all, style, more_style);
    foci_page_text(page, title);
    (void)fputs("</h1>\n<p class=\"soft\">", page->file);
    foci_page_text(page, subtitle);
    (void)fputs("</p></header>\n", page->file);
}

void foci_page_end(foci_page *page)
{
    (void)fputs("</main></body></html>\n", page->file);
}
