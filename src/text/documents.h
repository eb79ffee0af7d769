/* The documents of a corpus, one after the other, in pieces as they are read: checked UTF-8 out of
 * plain files or lines of JSON. */
#ifndef FOCI_TEXT_DOCUMENTS_H
#define FOCI_TEXT_DOCUMENTS_H

#include "focal/corpus.h"

enum { FOCI_LINE_MOST = 256 << 20 }; /* bytes of a line of JSON */

/* Who takes the documents. text gets pieces that may end inside of a character; end follows each
 * document that has text. tokens, for progress, may be NULL. */
typedef struct foci_document_sink {
    focal_status (*text)(void *user, const char *text, size_t bytes);
    focal_status (*end)(void *user);
    void *user;
    const int64_t *tokens;
    size_t read_bytes; /* at a time; 0: as much as is good, else for tests */
} foci_document_sink;

/* Reads all files. counts (read_bytes, text_bytes, documents) may be NULL. */
focal_status foci_documents_read(focal_ctx *ctx, const focal_corpus *corpus,
                                 const foci_document_sink *sink, focal_corpus_progress *counts);

#endif /* FOCI_TEXT_DOCUMENTS_H */
