/* The folder of a run that began with texts: which texts they were, so that the same command goes
 * on and another one does not. */
#ifndef CLI_TEXT_FOLDER_H
#define CLI_TEXT_FOLDER_H

#include "train.h"

enum { TEXT_PATH_BYTES = 4096 };

/* Sees that every text is a file that can be read and looks like text. *bytes is what they hold
 * together, compressed ones guessed. Returns an exit code; says what is wrong. */
int text_check(const cli_texts *texts, int64_t *bytes);

typedef struct text_folder {
    const char *path;
    int lock; /* file descriptor */
    bool is_made;
} text_folder;

/* Makes the folder with a record of the texts and of what else their tokens depend on (`asked`, one
 * line, which follows "was begun with" in a message), or sees that it is the folder of the same.
 * Where there is neither tokenizer nor settings anything will do, and the shards of something else
 * are removed. Until it is closed no other process trains there. Says what is wrong; returns an
 * exit code, and nothing is open unless that is CLI_DONE. */
int text_folder_open(const train_request *request, const char *asked, text_folder *folder);

/* Before the run, which takes the lock by itself. After a failure, which the code tells, nothing
 * stays where no stage was finished: not even the record of texts that may be at fault. */
void text_folder_close(const text_folder *folder, int code);

/* Whether texts were begun with in a folder that is not yet the folder of a run; and, with an exit
 * code, the sentence that it cannot go on by itself: it lacks what the command line said. */
bool text_folder_is_begun(const char *path);
int text_folder_unready(const char *verb, const char *path);

/* "FOLDER/NAME"; an exit code when that is too long. */
int text_path(const char *folder, const char *name, char path[TEXT_PATH_BYTES]);
bool text_has(const char *folder, const char *name);

/* Removes what a killed process left half-written of its shards. */
void text_sweep(const char *folder);

#endif /* CLI_TEXT_FOLDER_H */
