/* Linux can do it where the file system does. */
#include "io/exchange.h"

#include <fcntl.h>
#include <stdio.h>

bool foci_exchange(const char *a, const char *b)
{
#if defined(__linux__) && defined(RENAME_EXCHANGE)
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0;
#else
    (void)a;
    (void)b;
    return false;
#endif
}
