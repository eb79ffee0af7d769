/* after.jsonl: a file that other commands have made is made anew. */
#include "sweep_after.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json_text.h"
#include "model_file.h"

#define HEAD "{\"command\": "

char *after_head(const focal_sweep_command *command)
{
    char *line = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&line, &bytes);
    if (!file) return NULL;
    char *words = malloc(command->words.bytes + 1);
    for (size_t n = 0; words && n < command->words.bytes; n++)
        if (command->words.data[n])
            words[n] = command->words.data[n];
        else
            words[n] = ' ';
    (void)fputs(HEAD, file);
    if (words) json_write_text(file, words, command->words.bytes - 1);
    (void)fputs("}\n", file);
    const bool is_whole = fclose(file) == 0 && words;
    free(words);
    if (is_whole) return line;
    free(line);
    return NULL;
}

/* Whether the next line of that kind is `head`; *text goes on behind it. */
static bool has_next(const char **text, const char *head)
{
    const char *at = *text;
    while (at && strncmp(at, HEAD, strlen(HEAD)) != 0) {
        at = strchr(at, '\n');
        if (at) at++;
    }
    if (!at || !*at || (head && strncmp(at, head, strlen(head)) != 0)) return false;
    *text = strchr(at, '\n');
    return *text != NULL;
}

bool after_is_done(focal_ctx *ctx, focal_sweep *sweep, int32_t run, const char *path)
{
    focal_sweep_command command = {0};
    size_t bytes = 0;
    if (access(path, R_OK) != 0) return false;
    char *file = cli_read_text(path, CLI_PROMPT_BYTES, &bytes);
    char *text = file ? strndup(file, bytes) : NULL; /* with a NUL behind it */
    free(file);
    bool is_done = text != NULL, is_there = true;
    const char *at = text;
    for (int32_t n = 0; is_done; n++) {
        is_done = focal_sweep_command_at(sweep, FOCAL_SWEEP_AFTER, n, run, &command, &is_there) ==
                  FOCAL_OK;
        if (!is_done || !is_there) break;
        char *head = after_head(&command);
        is_done = head && has_next(&at, head);
        free(head);
    }
    is_done = is_done && !has_next(&at, NULL);
    free(text);
    focal_buffer_free(ctx, &command.words);
    return is_done;
}
