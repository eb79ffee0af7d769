/* Memory whose neighbours cannot be read. */
#include "support/fence.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/check.h"

fence fence_new(const void *from, size_t bytes, bool at_end)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (bytes + page - 1) / page * page;
    fence f = {.bytes = inner + 2 * page};
    f.pages = mmap(NULL, f.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(f.pages, MAP_FAILED);
    assert_int_equal(mprotect(f.pages + page, inner, PROT_READ | PROT_WRITE), 0);
    f.at = f.pages + page + (at_end ? inner - bytes : 0);
    memcpy(f.at, from, bytes);
    assert_int_equal(mprotect(f.pages + page, inner, PROT_READ), 0);
    return f;
}

void fence_free(fence *f)
{
    assert_int_equal(munmap(f->pages, f->bytes), 0);
}
