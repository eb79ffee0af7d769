/* LoRA adapters for tests: those that peft wrote (tools/golden_lora.py), in folders where they can
 * be damaged. */
#ifndef FOCAL_TESTS_LORA_GOLDEN_H
#define FOCAL_TESTS_LORA_GOLDEN_H

#include "focal/model.h"
#include "support/folder.h"

enum { LORA_TOKENS = 48, LORA_VOCAB = 96 };

/* "tests/golden/adapters/NAME", "tests/golden/models/NAME"; valid until the second call after it.
 */
const char *lora_path(const char *name);
const char *lora_model_path(const char *name);

/* A copy of the two files of an adapter. */
folder lora_copy(const char *name);

focal_model *lora_open_model(focal_ctx *ctx, const char *path, focal_dtype precision);
/* Logits of all tokens, read in two parts. */
void lora_logits(focal_model *model, const int32_t *ids, float *logits);

/* The text of a golden adapter, and what peft computes of it. */
typedef struct lora_expected {
    int32_t ids[LORA_TOKENS];
    double logits[LORA_TOKENS * LORA_VOCAB];
} lora_expected;
void lora_read_expected(const char *name, lora_expected *to);

/* The largest distance, in parts of the largest logit. */
double lora_distance(const float *got, const double *want);

#endif /* FOCAL_TESTS_LORA_GOLDEN_H */
