/* What a model's files say about choosing tokens and ending texts. */
#ifndef FOCI_MODEL_SUGGESTION_H
#define FOCI_MODEL_SUGGESTION_H

#include "focal/model.h"
#include "io/gguf.h"
#include "io/json.h"

/* From a parsed generation_config.json; `what` names it in messages. Its eos_token_id (a number or
 * a list, below V) become ends of the tokenizer, which may be NULL. A key that is null counts as
 * missing. FOCAL_EFORMAT on a value of another type or out of range. */
focal_status foci_suggestion_from_json(focal_ctx *ctx, const char *what, const foci_json *root,
                                       int32_t V, focal_tokenizer *tokenizer,
                                       focal_suggestion *out);

/* From the keys general.sampling.* of a file. */
focal_status foci_suggestion_from_gguf(focal_ctx *ctx, const foci_gguf *gguf,
                                       focal_suggestion *out);

#endif /* FOCI_MODEL_SUGGESTION_H */
