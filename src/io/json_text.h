/* JSON as text, straight into a file that is being written: the caller says the brackets and
 * commas, strings are escaped here. Needs no library. */
#ifndef FOCI_IO_JSON_TEXT_H
#define FOCI_IO_JSON_TEXT_H

#include "io/file.h"
#include "io/names.h"

void foci_json_put(foci_writer *writer, const char *text); /* as it is */
/* In quotes. The text must be UTF-8; control characters, quotes and backslashes are escaped. */
void foci_json_put_text(foci_writer *writer, foci_text text);
void foci_json_put_int(foci_writer *writer, int64_t value);
/* The shortest digits that are this number in float32, with a point or an exponent; finite. */
void foci_json_put_real(foci_writer *writer, double value);
void foci_json_put_bool(foci_writer *writer, bool value);

#endif /* FOCI_IO_JSON_TEXT_H */
