/* The texts of multiple choice as ids: prefix, context and choice, and where the choice begins. */
#ifndef FOCI_EVAL_MC_TEXT_H
#define FOCI_EVAL_MC_TEXT_H

#include "focal/eval.h"

/* All zero, but for the first three, is closed. */
typedef struct foci_mc_texts {
    focal_ctx *ctx;
    const focal_tokenizer *tokenizer;
    bool joins_bare;                    /* as in the options */
    focal_buffer text;                  /* the prefix, and behind it what is being made into ids */
    size_t prefix_bytes, context_bytes; /* of text: the prefix, and prefix and context */
    focal_ids context_ids;              /* of the last context, up to its last character */
} foci_mc_texts;

/* Takes the prefix, its last prefix_tokens at most. Close it whatever open says. */
focal_status foci_mc_texts_open(foci_mc_texts *texts, const focal_mc_options *options);
void foci_mc_texts_close(foci_mc_texts *texts);

/* The ids of the prefix alone, into an empty list. */
focal_status foci_mc_prefix_ids(foci_mc_texts *texts, focal_ids *ids);
/* Those of a whole text, instead of what the list holds. */
focal_status foci_mc_text_ids(foci_mc_texts *texts, const focal_mc_item *item, int32_t choice,
                              focal_ids *ids);
/* The same, and the place of the choice's first id, which is 1 or more. Choice 0 of an item comes
 * first. */
focal_status foci_mc_text_split(foci_mc_texts *texts, const focal_mc_item *item, int32_t choice,
                                focal_ids *ids, int32_t *from);

/* Bytes of a choice without white space before it. */
int32_t foci_mc_choice_bytes(focal_mc_text choice);
/* How many ids two lists begin with together. */
int64_t foci_mc_common(const focal_ids *a, const focal_ids *b);

#endif /* FOCI_EVAL_MC_TEXT_H */
