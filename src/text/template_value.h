/* What a template computes with: Python's values as far as chat templates use them. Values are
 * small, copied freely, and point into a store; none but a namespace ever changes. */
#ifndef FOCI_TEXT_TEMPLATE_VALUE_H
#define FOCI_TEXT_TEMPLATE_VALUE_H

#include "text/template_store.h"

typedef enum foci_kind {
    FOCI_V_MISSING, /* an argument that was not given; never seen by a template */
    FOCI_V_UNDEFINED,
    FOCI_V_NONE,
    FOCI_V_BOOL,
    FOCI_V_INT,
    FOCI_V_FLOAT,
    FOCI_V_STRING,
    FOCI_V_LIST,
    FOCI_V_TUPLE,
    FOCI_V_RANGE,
    FOCI_V_DICT,
    FOCI_V_SERIES, /* dict.items() and its like, and what map() and its like hand out */
    FOCI_V_NAMESPACE,
    FOCI_V_LOOP,
    FOCI_V_MACRO,
    FOCI_V_FUNCTION,
    FOCI_V_METHOD
} foci_kind;

/* How an undefined value came about, for the message of who uses it. */
typedef enum foci_undefined {
    FOCI_UNDEFINED_NAME,      /* no such variable */
    FOCI_UNDEFINED_ATTRIBUTE, /* no such attribute or element of a `of` */
    FOCI_UNDEFINED_UNSAFE,    /* an attribute that changes its object or is private */
    FOCI_UNDEFINED_HINT       /* text says it all */
} foci_undefined;

typedef enum foci_series_kind {
    FOCI_SERIES_KEYS,
    FOCI_SERIES_VALUES,
    FOCI_SERIES_ITEMS,
    FOCI_SERIES_ONCE /* a generator: no length, no index, read once */
} foci_series_kind;

typedef struct foci_range foci_range;
typedef struct foci_dict foci_dict;
typedef struct foci_series foci_series;
typedef struct foci_method foci_method;

typedef struct foci_value {
    uint8_t kind;   /* foci_kind */
    uint8_t how;    /* undefined: foci_undefined */
    uint8_t of;     /* undefined attribute: the foci_kind it was looked for in */
    bool is_markup; /* string: came from safe or escape */
    union {
        bool truth;
        int64_t number;
        double real;
        foci_chars text; /* string, and the name or hint of an undefined */
        struct {
            const struct foci_value *items;
            int64_t count;
        } list; /* and tuple */
        const foci_range *range;
        foci_dict *dict; /* and namespace */
        foci_series *series;
        struct foci_loop *loop;
        const struct foci_macro *macro;
        const struct foci_builtin *function;
        const foci_method *method;
    } as;
} foci_value;

struct foci_range {
    int64_t start, stop, step, count;
};

typedef struct foci_entry {
    foci_value key, value;
} foci_entry;

/* In the order of insertion. */
struct foci_dict {
    foci_entry *entries;
    int64_t count, room;
};

struct foci_series {
    foci_series_kind kind;
    const foci_value *items;
    int64_t count;
    bool is_spent; /* a generator that was read */
};

struct foci_method {
    const struct foci_builtin *builtin;
    foci_value self;
};

foci_value foci_none(void);
foci_value foci_missing(void);
foci_value foci_bool(bool truth);
foci_value foci_int(int64_t number);
foci_value foci_float(double real);
foci_value foci_string(foci_chars text); /* borrows */
foci_value foci_list(const foci_value *items, int64_t count);
foci_value foci_undefined_hint(const char *hint); /* a literal */

/* An empty dict; NULL with the store's status and message. */
foci_dict *foci_dict_new(foci_store *store);
/* Behind the entries there are, without looking for an equal key. */
focal_status foci_dict_add(foci_store *store, foci_dict *dict, foci_value key, foci_value value);
focal_status foci_dict_put(foci_store *store, foci_dict *dict, const char *key, foci_value value);
/* The entry of a string key; NULL: none. */
foci_entry *foci_dict_find(const foci_dict *dict, foci_chars key);

/* Python's name of a kind: "str", "dict". */
const char *foci_kind_name(int kind);
bool foci_is_number(foci_value value); /* bool, int or float */
bool foci_is_list(foci_value value);   /* list or tuple */
int64_t foci_as_int(foci_value value); /* of a bool or int */
double foci_as_real(foci_value value); /* of a number */
foci_value foci_range_at(const foci_range *range, int64_t index);

#endif /* FOCI_TEXT_TEMPLATE_VALUE_H */
