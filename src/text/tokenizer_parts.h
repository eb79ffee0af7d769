/* The parts of tokenizer.json, each read into what does its work. `what` names the file. */
#ifndef FOCI_TEXT_TOKENIZER_PARTS_H
#define FOCI_TEXT_TOKENIZER_PARTS_H

#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

enum { FOCI_PARTS = 16 };

/* The members of nested Sequences in order; a part that is no Sequence is a list of one. */
typedef struct foci_parts {
    int32_t count;
    const foci_json *part[FOCI_PARTS];
    const char *type[FOCI_PARTS];
} foci_parts;

/* `section` is the key of the file ("normalizer"), `members` that of a Sequence ("normalizers"). A
 * missing section has no parts. */
focal_status foci_parts_of(focal_ctx *ctx, const char *what, const char *section,
                           const char *members, const foci_json *root, foci_parts *out);
focal_status foci_part_unknown(focal_ctx *ctx, const char *what, const char *section,
                               const char *type);

focal_status foci_read_normalizer(focal_ctx *ctx, const char *what, const foci_json *root,
                                  foci_normalizer *out);
/* *is_byte_level is set when the words go to the model as bytes. */
focal_status foci_read_splitter(focal_ctx *ctx, const char *what, const foci_json *root,
                                foci_splitter *out, bool *is_byte_level);
focal_status foci_read_decoder(focal_ctx *ctx, const char *what, const foci_json *root,
                               foci_decoder *out);
/* Which tokens stand before and behind a text. */
focal_status foci_read_template(const char *what, const foci_json *root,
                                focal_tokenizer *tokenizer);

/* Adds a step that splits by a pattern, the hand-written way where it is one of the well-known. */
focal_status foci_split_by_pattern(focal_ctx *ctx, foci_splitter *splitter, const char *source,
                                   size_t bytes);
/* The steps that a name of tokenizer.ggml.pre stands for. */
focal_status foci_splitter_of_pre(focal_ctx *ctx, const foci_pre_tokenizer *pre,
                                  foci_splitter *splitter);

#endif /* FOCI_TEXT_TOKENIZER_PARTS_H */
