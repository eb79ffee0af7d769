/* The whole public API. */
#ifndef FOCAL_FOCAL_H
#define FOCAL_FOCAL_H

#include "focal/attn.h"
#include "focal/base.h"
#include "focal/bench.h"
#include "focal/chat.h"
#include "focal/corpus.h"
#include "focal/eval.h"
#include "focal/export.h"
#include "focal/generate.h"
#include "focal/keys.h"
#include "focal/model.h"
#include "focal/plan.h"
#include "focal/quant.h"
#include "focal/report.h"
#include "focal/route.h"
#include "focal/sweep.h"
#include "focal/tokenizer.h"

#endif /* FOCAL_FOCAL_H */
