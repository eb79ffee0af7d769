/* A compiled template from inside: rendering over values that were built by hand. */
#ifndef FOCI_TEXT_TEMPLATE_H
#define FOCI_TEXT_TEMPLATE_H

#include "focal/chat.h"
#include "io/json.h"
#include "text/template_value.h"

typedef struct foci_render {
    const foci_dict *variables;
    const struct tm *now; /* may be NULL */
    int64_t max_steps;    /* each: 0 for the default of focal/chat.h */
    size_t max_output_bytes, max_memory_bytes;
} foci_render;

/* As focal_template_render(), over these variables. All their text must be UTF-8. */
focal_status foci_template_render(focal_template *tpl, const foci_render *render, char **text,
                                  size_t *bytes);

/* A JSON value as a template sees it, in the store; text is borrowed from the tree. FOCAL_EFORMAT
 * when it is nested deeper than 64 levels; `what` names it in the message. */
focal_status foci_value_from_json(foci_store *store, const char *what, const foci_json *json,
                                  foci_value *out);

#endif /* FOCI_TEXT_TEMPLATE_H */
