/* Commands of a sweep: words with names filled in, and folders as their files. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/utf8.h"
#include "train/run_line.h"
#include "train/sweep_state.h"

static focal_status add_word(focal_sweep *sweep, const char *word, focal_sweep_command *command)
{
    if (command->count == FOCAL_SWEEP_WORDS)
        return foci_fail(sweep->ctx, FOCAL_EINVAL, "%s: a command of more than %d words",
                         sweep->path, FOCAL_SWEEP_WORDS);
    command->count++;
    return foci_buffer_put(sweep->ctx, &command->words, word, strlen(word) + 1);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names of the files in a folder, hidden ones left out, in order. The caller frees both, whatever
 * it says. */
static focal_status list_folder(focal_sweep *sweep, const char *folder, focal_buffer *text,
                                const char ***names, size_t *count)
{
    DIR *stream = opendir(folder);
    if (!stream) return foci_fail(sweep->ctx, FOCAL_EIO, "%.512s: %s", folder, strerror(errno));
    focal_status status = FOCAL_OK;
    const struct dirent *entry;
    *count = 0;
    while (status == FOCAL_OK && (entry = readdir(stream))) {
        char path[FOCI_SWEEP_PATH];
        struct stat info;
        if (entry->d_name[0] == '.' ||
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path ||
            stat(path, &info) != 0 || !S_ISREG(info.st_mode))
            continue;
        status = foci_buffer_put(sweep->ctx, text, path, strlen(path) + 1);
        ++*count;
    }
    (void)closedir(stream);
    if (status != FOCAL_OK) return status;
    if (*count == 0)
        return foci_fail(sweep->ctx, FOCAL_EIO, "%.512s: there is no file in it", folder);
    *names = foci_alloc(sweep->ctx, *count, sizeof **names);
    if (!*names) return FOCAL_ENOMEM;
    const char *at = text->data;
    for (size_t n = 0; n < *count; n++, at += strlen(at) + 1) (*names)[n] = at;
    qsort(*names, *count, sizeof **names, compare_names);
    return FOCAL_OK;
}

static focal_status add_folder(focal_sweep *sweep, const char *folder, focal_sweep_command *command)
{
    focal_buffer text = {0};
    const char **names = NULL;
    size_t count = 0;
    focal_status status = list_folder(sweep, folder, &text, &names, &count);
    if (status == FOCAL_OK && count > (size_t)(FOCAL_SWEEP_WORDS - command->count))
        status = foci_fail(sweep->ctx, FOCAL_EINVAL,
                           "%s: with the %zu files of %.512s a command has %zu words, %d are the "
                           "most",
                           sweep->path, count, folder, (size_t)command->count + count,
                           FOCAL_SWEEP_WORDS);
    for (size_t n = 0; status == FOCAL_OK && n < count; n++)
        status = add_word(sweep, names[n], command);
    foci_free(sweep->ctx, names);
    focal_buffer_free(sweep->ctx, &text);
    return status;
}

static bool is_input(const focal_sweep *sweep, foci_text word)
{
    for (int32_t n = 0; n < sweep->file.input_count; n++) {
        const foci_text name = sweep->file.inputs[n].name;
        if (word.bytes == name.bytes + 2 && word.data[0] == '{' &&
            word.data[word.bytes - 1] == '}' && memcmp(word.data + 1, name.data, name.bytes) == 0)
            return true;
    }
    return false;
}

static focal_status fill_words(focal_sweep *sweep, const foci_sweep_command *source,
                               const foci_sweep_places *places, focal_sweep_command *command)
{
    foci_text words = source->words, word;
    char place[FOCI_SWEEP_PATH + FOCI_SWEEP_LABEL + 16];
    (void)snprintf(place, sizeof place, "%s: %s%.*s", sweep->path,
                   source->is_after ? "after" : "prepare ", (int)source->output.bytes,
                   source->output.data);
    while (foci_line_word(&words, &word)) {
        char filled[FOCI_SWEEP_PATH];
        struct stat info;
        const bool may_be_folder = is_input(sweep, word);
        if (word.bytes >= 2 && word.data[0] == '"' && word.data[word.bytes - 1] == '"')
            word = (foci_text){word.data + 1, word.bytes - 2};
        FOCAL_TRY(foci_sweep_check_text(sweep, place, word, places));
        FOCAL_TRY(foci_sweep_fill(sweep, word, places, filled));
        if (may_be_folder && stat(filled, &info) == 0 && S_ISDIR(info.st_mode))
            FOCAL_TRY(add_folder(sweep, filled, command));
        else
            FOCAL_TRY(add_word(sweep, filled, command));
    }
    return FOCAL_OK;
}

focal_status focal_sweep_command_at(focal_sweep *sweep, focal_sweep_when when, int32_t n,
                                    int32_t run, focal_sweep_command *command, bool *is_there)
{
    foci_sweep_places places = {0};
    const foci_sweep_command *found = NULL;
    command->words.bytes = 0;
    command->count = 0;
    command->output[0] = '\0';
    for (int32_t i = 0; i < sweep->file.command_count; i++) {
        const foci_sweep_command *own = &sweep->file.commands[i];
        if (own->is_after == (when == FOCAL_SWEEP_AFTER) && n-- == 0) found = own;
    }
    *is_there = found != NULL;
    if (!found) return FOCAL_OK;
    if (found->is_after) {
        char name[FOCAL_SWEEP_NAME];
        if (run < 0 || run >= sweep->run_count)
            return foci_fail(sweep->ctx, FOCAL_EINVAL, "sweep: run %d of %d", run,
                             sweep->run_count);
        (void)foci_sweep_name(&sweep->file, run, name, sizeof name);
        (void)snprintf(places.run, sizeof places.run, "%s/%s", sweep->folder, name);
    } else {
        (void)snprintf(places.out, sizeof places.out, "%s/data/%.*s", sweep->folder,
                       (int)found->output.bytes, found->output.data);
        (void)snprintf(command->output, sizeof command->output, "%s", places.out);
    }
    return fill_words(sweep, found, &places, command);
}
