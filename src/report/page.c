/* Writing a page: to a temporary name, synced, renamed. */
#include "report/page.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

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

focal_status foci_page_close(focal_ctx *ctx, foci_page *page, focal_status status)
{
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
    (void)remove(page->temporary);
}

void foci_page_text(foci_page *page, const char *text)
{
    for (; text && *text; text++) {
        switch (*text) {
        case '&':
            (void)fputs("&amp;", page->file);
            break;
        case '<':
            (void)fputs("&lt;", page->file);
            break;
        case '>':
            (void)fputs("&gt;", page->file);
            break;
        case '"':
            (void)fputs("&quot;", page->file);
            break;
        default:
            (void)fputc(*text, page->file);
        }
    }
}
