/* JSON as our loaders read it: parsed once into a tree of borrowed values. Jansson is behind it;
 * json_none.c stands in where that is missing, and every parse then says so. */
#ifndef FOCI_IO_JSON_H
#define FOCI_IO_JSON_H

#include "focal/base.h"

typedef struct foci_json foci_json; /* a value; the tree keeps it alive */

typedef enum foci_json_type {
    FOCI_JSON_NULL,
    FOCI_JSON_BOOL,
    FOCI_JSON_INT,
    FOCI_JSON_REAL,
    FOCI_JSON_STRING,
    FOCI_JSON_ARRAY,
    FOCI_JSON_OBJECT
} foci_json_type;

/* Parses bytes of text; `what` names them in messages. Refuses duplicate keys, depth beyond 512,
 * more than 4 million values, text behind the value, invalid UTF-8, NUL in a key and numbers beyond
 * int64 or double, with FOCAL_EFORMAT. Free the tree by its root. */
focal_status foci_json_parse(focal_ctx *ctx, const char *what, const char *text, size_t bytes,
                             foci_json **root);
void foci_json_free(foci_json *root); /* NULL is fine */

/* Each takes NULL for "not there" and hands back NULL or the fallback then, or on another type. */
foci_json_type foci_json_kind(const foci_json *value);          /* NULL: FOCI_JSON_NULL */
bool foci_json_is(const foci_json *value, foci_json_type type); /* false for NULL */
const foci_json *foci_json_get(const foci_json *object, const char *key);
int64_t foci_json_count(const foci_json *value); /* of an array or an object; else 0 */
const foci_json *foci_json_at(const foci_json *array, int64_t index);
const char *foci_json_string(const foci_json *value); /* NUL-terminated UTF-8, may hold NULs */
size_t foci_json_length(const foci_json *value);      /* bytes of a string, else 0 */
int64_t foci_json_int(const foci_json *value, int64_t fallback);
double foci_json_real(const foci_json *value, double fallback); /* an integer will do */
bool foci_json_bool(const foci_json *value, bool fallback);

/* Members in file order: start with NULL, then hand in what came before; NULL at the end. */
typedef struct foci_json_member {
    void *place; /* NULL: before the first */
    const char *key;
    size_t key_length;
    const foci_json *value;
} foci_json_member;
bool foci_json_next(const foci_json *object, foci_json_member *member);

/* The text of an object or an array on one line, reals to 15 digits; free it with foci_free. */
focal_status foci_json_print(focal_ctx *ctx, const foci_json *value, char **text, size_t *bytes);

/* The text of an object with its member `key` replaced by a string, or that member added; free it
 * with foci_free. */
focal_status foci_json_print_with(focal_ctx *ctx, const foci_json *object, const char *key,
                                  const char *string, char **text, size_t *bytes);

#endif /* FOCI_IO_JSON_H */
