/* The table of element types, and what is asked of it. */
#include <strings.h>

#include "base/error.h"
#include "focal/base.h"

static const struct {
    const char *name;
    int32_t elements;
    size_t bytes;
} types[] = {
#define TYPE_ROW(symbol, value, text, elements, bytes) [value] = {text, elements, bytes},
    FOCAL_DTYPE_LIST(TYPE_ROW)
#undef TYPE_ROW
};

static bool is_type(focal_dtype dtype)
{
    return (size_t)dtype < FOCAL_COUNT(types);
}

const char *focal_dtype_name(focal_dtype dtype)
{
    return is_type(dtype) ? types[dtype].name : "?";
}

bool focal_dtype_parse(const char *name, focal_dtype *dtype)
{
    for (size_t n = 0; name && n < FOCAL_COUNT(types); n++) {
        if (strcasecmp(name, types[n].name) != 0) continue;
        *dtype = (focal_dtype)n;
        return true;
    }
    return false;
}

size_t focal_dtype_bytes(focal_dtype dtype)
{
    return is_type(dtype) && types[dtype].elements == 1 ? types[dtype].bytes : 0;
}

int32_t focal_dtype_block(focal_dtype dtype)
{
    return is_type(dtype) ? types[dtype].elements : 0;
}

size_t focal_dtype_block_bytes(focal_dtype dtype)
{
    return is_type(dtype) ? types[dtype].bytes : 0;
}
