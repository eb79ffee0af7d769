/* Documents to train on, written under another name and renamed. */
#include "documents_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "json_text.h"
#include "overwrite.h"

static int failed(const documents_file *documents)
{
    return cli_fail("%s: %s", documents->path, strerror(errno));
}

int documents_open(documents_file *documents, const char *path)
{
    *documents = (documents_file){.path = path};
    const int bytes = snprintf(documents->part, sizeof documents->part, "%s.part", path);
    if (bytes < 0 || (size_t)bytes >= sizeof documents->part)
        return cli_fail("the name of the file is %zu bytes long, at most %zu are possible",
                        strlen(path), sizeof documents->part - sizeof ".part");
    const int code = output_place_check("output", path);
    if (code != CLI_DONE) return code;
    documents->file = fopen(documents->part, "w");
    return documents->file ? CLI_DONE : failed(documents);
}

int documents_put(documents_file *documents, const char *text, size_t bytes)
{
    (void)fputs("{\"text\": ", documents->file);
    json_write_text(documents->file, text, bytes);
    (void)fputs("}\n", documents->file);
    return ferror(documents->file) ? failed(documents) : CLI_DONE;
}

int documents_close(documents_file *documents, int code)
{
    if (!documents->file) return code;
    if (code == CLI_DONE && (fflush(documents->file) != 0 || fsync(fileno(documents->file)) != 0))
        code = failed(documents);
    if (fclose(documents->file) != 0 && code == CLI_DONE) code = failed(documents);
    if (code == CLI_DONE && rename(documents->part, documents->path) != 0) code = failed(documents);
    if (code != CLI_DONE) (void)unlink(documents->part);
    return code;
}
