/* Signals that ask a long command to end. It saves or removes what it has, and its exit code says
 * which one came. */
#ifndef CLI_STOP_H
#define CLI_STOP_H

#include <stdbool.h>

/* From here on SIGINT, SIGTERM and SIGHUP are noted and do nothing else; a second SIGINT, two
 * seconds later or more, ends the program at once. A SIGHUP that was ignored stays so: nohup asked
 * for that. */
void stop_catch(void);

/* The same signals, with another handler. */
void stop_catch_with(void (*handler)(int));

/* Whether one came, and the exit code of it: 128 and its number, or -1 when none did. */
bool stop_is_asked(void);
int stop_code(void);

#endif /* CLI_STOP_H */
