/* Lines of run files and sweep files, and the words in them. */
#ifndef FOCI_TRAIN_RUN_LINE_H
#define FOCI_TRAIN_RUN_LINE_H

#include "io/names.h"

/* Takes the next line off the text, without its end; false: there is none. */
bool foci_line_next(foci_text *text, foci_text *line);
/* Tabs may stand between words; everything else must fit into a message of one line. */
bool foci_line_is_plain(foci_text line);
/* Without blanks at both ends; and without the comment, which begins with a # at the start or
 * behind a blank, outside double quotes. */
foci_text foci_line_trim(foci_text text);
foci_text foci_line_bare(foci_text line);

/* Takes the next word off a trimmed text: up to a blank outside double quotes, which stay in it.
 * False: there is none. */
bool foci_line_word(foci_text *text, foci_text *word);
/* Cuts at the first `mark`; false, and both untouched, when it is not there. Both parts are
 * trimmed. */
bool foci_line_cut(foci_text text, char mark, foci_text *before, foci_text *behind);

#endif /* FOCI_TRAIN_RUN_LINE_H */
