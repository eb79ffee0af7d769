/* Whether this process may use AMX: tiles of eight registers, 16 rows of 64 bytes. */
#ifndef FOCI_BASE_AMX_H
#define FOCI_BASE_AMX_H

#include <stdbool.h>

/* Asks the system for the tiles' state, which it gives to programs that ask, for all threads of the
 * process. Bfloat16 products are there too where it is true. */
bool foci_amx_ask(void);

#endif /* FOCI_BASE_AMX_H */
