/* Outputs and the commands that made them, in the words of after.jsonl. */
#include "sweep_made.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "model_file.h"
#include "sweep_after.h"

enum { NOTE_PATH_BYTES = sizeof((focal_sweep_command *)0)->output + 8 };

static void note_path(const focal_sweep_command *command, char path[NOTE_PATH_BYTES])
{
    (void)snprintf(path, NOTE_PATH_BYTES, "%s.made", command->output);
}

static bool is_noted(const char *path, const char *head)
{
    size_t bytes = 0;
    char *note = access(path, R_OK) == 0 ? cli_read_text(path, CLI_PROMPT_BYTES, &bytes) : NULL;
    const bool is_same = note && bytes == strlen(head) && memcmp(note, head, bytes) == 0;
    free(note);
    return is_same;
}

int made_check(const focal_sweep_command *command, bool *is_there)
{
    char path[NOTE_PATH_BYTES];
    *is_there = access(command->output, F_OK) == 0;
    if (!*is_there) return CLI_DONE;
    note_path(command, path);
    char *head = after_head(command);
    int code = head ? CLI_DONE : cli_fail("no memory for a command");
    if (head && !is_noted(path, head))
        code = cli_fail("%s was made by another command (%s): take another -o, or remove it",
                        command->output, path);
    free(head);
    return code;
}

int made_check_all(focal_ctx *ctx, focal_sweep *sweep)
{
    focal_sweep_command command = {0};
    bool is_there = true, is_made = false;
    int code = CLI_DONE;
    for (int32_t n = 0; code == CLI_DONE && is_there; n++) {
        const focal_status status =
            focal_sweep_command_at(sweep, FOCAL_SWEEP_PREPARE, n, -1, &command, &is_there);
        if (status != FOCAL_OK)
            code = cli_fail_ctx(ctx, status);
        else if (is_there)
            code = made_check(&command, &is_made);
    }
    focal_buffer_free(ctx, &command.words);
    return code;
}

int made_note(const focal_sweep_command *command)
{
    char path[NOTE_PATH_BYTES];
    char *head = after_head(command);
    if (!head) return cli_fail("no memory for a command");
    note_path(command, path);
    FILE *file = fopen(path, "w");
    if (file) (void)fputs(head, file);
    free(head);
    const bool is_written = file && !ferror(file);
    if (file && fclose(file) == 0 && is_written) return CLI_DONE;
    return cli_fail("%s: %s", path, strerror(errno));
}
