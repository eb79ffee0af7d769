/* Text from a file or from standard input, a piece at a time; compressed files are known by their
 * first bytes, which no UTF-8 text has, and expanded. */
#ifndef FOCI_IO_INPUT_H
#define FOCI_IO_INPUT_H

#include "focal/base.h"

typedef struct foci_input foci_input;

/* path "-" is standard input. FOCAL_EIO, or FOCAL_EUNSUPPORTED for a compression that this build
 * lacks. path is kept for messages and must outlive the input. */
focal_status foci_input_open(focal_ctx *ctx, const char *path, foci_input **out);
/* Up to `room` bytes; *got is 0 at the end only. FOCAL_EFORMAT on data that are damaged or end in
 * the middle. */
focal_status foci_input_read(foci_input *input, char *data, size_t room, size_t *got);
void foci_input_close(foci_input *input); /* NULL is fine */

const char *foci_input_name(const foci_input *input); /* the path, or "standard input" */
int64_t foci_input_position(const foci_input *input); /* bytes of the file read so far */
int64_t foci_input_size(const char *path);            /* of a regular file; else 0 */

#endif /* FOCI_IO_INPUT_H */
