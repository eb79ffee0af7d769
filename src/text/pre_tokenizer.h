/* How text is split before byte-level BPE: GGUF has only a name for it, tokenizer.json the patterns
 * themselves. One table says what the names mean, in both directions. */
#ifndef FOCI_TEXT_PRE_TOKENIZER_H
#define FOCI_TEXT_PRE_TOKENIZER_H

#include "io/file.h"
#include "io/json.h"
#include "io/names.h"

enum { FOCI_PRE_PATTERNS = 5 };

typedef struct foci_pre_tokenizer {
    const char *name;                        /* tokenizer.ggml.pre */
    const char *patterns[FOCI_PRE_PATTERNS]; /* split one after the other; NULL behind the last */
    bool ignore_merges, add_bos;             /* what comes with the name */
} foci_pre_tokenizer;

/* The pattern of single numbers, by this very pointer wherever the table has it. */
extern const char foci_number_pattern[];

/* The row of a name, "default" where it has no data; NULL: not known. */
const foci_pre_tokenizer *foci_pre_find(foci_text name);

/* The row that splits as the pre_tokenizer of a tokenizer.json does and treats merges alike.
 * FOCAL_EUNSUPPORTED, naming the part, when no name stands for it. */
focal_status foci_pre_of_json(focal_ctx *ctx, const char *what, const foci_json *root,
                              bool ignore_merges, const foci_pre_tokenizer **out);

/* Writes the value of the key pre_tokenizer. */
void foci_pre_put_json(const foci_pre_tokenizer *pre, foci_writer *writer);

#endif /* FOCI_TEXT_PRE_TOKENIZER_H */
