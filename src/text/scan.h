/* The three splitting patterns that most models share, written out: exact, and several times
 * faster than a regular expression. */
#ifndef FOCI_TEXT_SCAN_H
#define FOCI_TEXT_SCAN_H

#include "focal/base.h"

/* The patterns as tokenizer files write them. */
extern const char foci_gpt2_pattern[], foci_llama3_pattern[], foci_qwen2_pattern[];

typedef enum foci_scan {
    FOCI_SCAN_NONE,
    FOCI_SCAN_GPT2,
    FOCI_SCAN_LLAMA3,
    FOCI_SCAN_QWEN2
} foci_scan;

/* Which of the patterns this is. */
foci_scan foci_scan_of(const char *source, size_t bytes);

/* Where the match that begins at `at` ends: these patterns match everywhere. text is valid UTF-8
 * and at < bytes. */
size_t foci_scan_next(foci_scan scan, const char *data, size_t bytes, size_t at);

/* True when a match surely ends at `at` (0 < at < bytes), whatever stands farther away: the text
 * may be cut there, and both parts are matched as the whole is. False when in doubt, and where the
 * text that is there so far does not say. */
bool foci_scan_cuts(foci_scan scan, const char *data, size_t bytes, size_t at);

#endif /* FOCI_TEXT_SCAN_H */
