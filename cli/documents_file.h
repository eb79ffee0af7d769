/* A file of documents to train on: {"text": ...} a line, there when it is whole. */
#ifndef CLI_DOCUMENTS_FILE_H
#define CLI_DOCUMENTS_FILE_H

#include <stdio.h>

#include "model_file.h"

typedef struct documents_file {
    const char *path;
    char part[CLI_PATH_BYTES]; /* its name until then */
    FILE *file;
} documents_file;

/* Each returns an exit code, after saying what is wrong. */
int documents_open(documents_file *documents, const char *path);
int documents_put(documents_file *documents, const char *text, size_t bytes);
/* Ends it: under its name when code is CLI_DONE, else it is removed. */
int documents_close(documents_file *documents, int code);

#endif /* CLI_DOCUMENTS_FILE_H */
