/* Members of adapter_config.json, each checked as it is read. */
#ifndef FOCI_MODEL_ADAPTER_MEMBERS_H
#define FOCI_MODEL_ADAPTER_MEMBERS_H

#include "io/json.h"

/* Reads members of the object; the first failure stays. */
typedef struct foci_members {
    focal_ctx *ctx;
    const char *what; /* begins the sentences */
    const foci_json *json;
    focal_status status;
} foci_members;

/* "WHAT: 'KEY' is ..., it must be MUST". */
void foci_member_fail(foci_members *r, const char *key, const char *must);

int32_t foci_member_int(foci_members *r, const char *key, int32_t least, int32_t most);
bool foci_member_bool(foci_members *r, const char *key);
/* A text that can stand in one line; it is printed. */
void foci_member_text(foci_members *r, const char *key, char *to, size_t capacity);
/* The text of an object, or "{}" where it is missing; foci_free() it. */
void foci_member_object(foci_members *r, const char *key, char **to);

/* Fails for a key that is not known: it might change what the adapter computes. What is null or
 * false, or an empty list or object, asks for nothing, whatever its name. */
void foci_members_check_keys(foci_members *r, const char *const *known, size_t count);

#endif /* FOCI_MODEL_ADAPTER_MEMBERS_H */
