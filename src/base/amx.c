/* AMX is a state that a process asks the system for. */
#include "base/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    FEATURES = 7, /* the leaf of cpuid; in its last word: */
    AMX_BF16 = 22,
    AMX_TILE = 24,
    REQUEST_STATE = 0x1023, /* ARCH_REQ_XCOMP_PERM, younger than some systems' headers */
    TILE_STATE = 18
};

/* Palettes are not looked up: the first is part of the architecture, and there are virtual machines
 * whose cpuid hides it though tiles work. */
bool foci_amx_ask(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid_count(FEATURES, 0, &a, &b, &c, &d)) return false;
    if (!(d >> AMX_BF16 & 1U) || !(d >> AMX_TILE & 1U)) return false;
    return syscall(SYS_arch_prctl, REQUEST_STATE, TILE_STATE) == 0;
}
#else
bool foci_amx_ask(void)
{
    return false;
}
#endif
