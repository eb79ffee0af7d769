/* Shards as a stream of tokens. */
#include "train/shard_tokens.h"

static focal_status read_ids(void *user, int64_t begin, int64_t count, int32_t *ids)
{
    return foci_shards_read(user, begin, count, ids);
}

/* Document n begins at foci_shards_begin(n); the first one not before `begin` is that of the token
 * there, or the next. */
static focal_status find_starts(void *user, int64_t begin, int64_t end, int64_t room,
                                int64_t *starts, int64_t *count)
{
    const foci_shards *shards = user;
    *count = 0;
    if (begin >= end) return FOCAL_OK;
    int64_t document = foci_shards_document(shards, begin);
    if (foci_shards_begin(shards, document) < begin) document++;
    for (int64_t at = foci_shards_begin(shards, document); at < end;
         at = foci_shards_begin(shards, ++document)) {
        if (*count < room) starts[*count] = at;
        ++*count;
    }
    return FOCAL_OK;
}

foci_tokens foci_shard_tokens(foci_shards *shards)
{
    return (foci_tokens){shards, foci_shards_describe(shards).token_count, read_ids, find_starts};
}
