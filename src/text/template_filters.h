/* Between the files of filters. */
#ifndef FOCI_TEXT_TEMPLATE_FILTERS_H
#define FOCI_TEXT_TEMPLATE_FILTERS_H

#include "text/template_run.h"

const foci_builtin *foci_list_filter(foci_chars name);

/* What a filter hands out that jinja2 makes a generator. */
focal_status foci_once(foci_run *run, foci_values values, foci_value *out);

/* Sorts by keys, stable; keys[n] belongs to items[n]. */
focal_status foci_sort(foci_run *run, foci_value *items, foci_value *keys, int64_t count,
                       bool is_reverse);

focal_status foci_filter_sort(foci_run *run, foci_call *call, foci_value *out);
focal_status foci_filter_dictsort(foci_run *run, foci_call *call, foci_value *out);
focal_status foci_filter_min(foci_run *run, foci_call *call, foci_value *out);
focal_status foci_filter_max(foci_run *run, foci_call *call, foci_value *out);
focal_status foci_filter_unique(foci_run *run, foci_call *call, foci_value *out);

#endif /* FOCI_TEXT_TEMPLATE_FILTERS_H */
