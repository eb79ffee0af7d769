/* Shards as the stream of tokens that the order of training data reads. */
#ifndef FOCI_TRAIN_SHARD_TOKENS_H
#define FOCI_TRAIN_SHARD_TOKENS_H

#include "io/shards.h"
#include "train/order.h"

/* The shards must stay open, and their context is the one that failures are told to. */
foci_tokens foci_shard_tokens(foci_shards *shards);

#endif /* FOCI_TRAIN_SHARD_TOKENS_H */
