/* The folder of a run that began with texts: which texts they were, so that the same command goes
 * on and another one does not. */
#ifndef CLI_TEXT_FOLDER_H
#define CLI_TEXT_FOLDER_H

#include "train.h"

enum { TEXT_PATH_BYTES = 4096 };

/* Sees that every text is a file that can be read and looks like text. *bytes is what they hold
 * together, compressed ones guessed. Returns an exit code; says what is wrong. */
int text_check(const cli_texts *texts, int64_t *bytes);

/* Makes the folder with a record of the texts and the request, or sees that it is the folder of the
 * same request. Says what differs; returns an exit code. */
int text_folder_open(const train_request *request);

/* "FOLDER/NAME"; an exit code when that is too long. */
int text_path(const char *folder, const char *name, char path[TEXT_PATH_BYTES]);
bool text_has(const char *folder, const char *name);

/* Removes what a killed process left half-written of its shards. */
void text_sweep(const char *folder);

#endif /* CLI_TEXT_FOLDER_H */
