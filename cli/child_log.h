/* What children said, in files that go on from child to child. */
#ifndef CLI_CHILD_LOG_H
#define CLI_CHILD_LOG_H

#include <stdint.h>

enum { CHILD_LINE_BYTES = 256 };

/* Where the next child will begin to write; 0 where there is no file. */
int64_t child_log_end(const char *path);

/* The last line behind byte `begin` that begins so; "" when there is none. */
void child_log_last(const char *path, int64_t begin, const char *beginning,
                    char out[CHILD_LINE_BYTES]);

/* Why a child that began to write there ended with that code, which is not 0. */
void child_log_failure(const char *path, int64_t begin, int code, char out[CHILD_LINE_BYTES]);

#endif /* CLI_CHILD_LOG_H */
