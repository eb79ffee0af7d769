/* A program of somebody else: valid as C17 and as C++17, it links focal and uses a little of it. */
#include <focal/focal.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    const char *error = NULL;
    focal_ctx *ctx = NULL;
    if (focal_ctx_open(NULL, &ctx, &error) != FOCAL_OK) {
        (void)fprintf(stderr, "%s\n", error);
        return 1;
    }
    const int is_wrong = focal_ctx_threads(ctx) < 1 || strcmp(focal_ctx_error(ctx), "") != 0 ||
                         focal_dtype_bytes(FOCAL_BF16) != 2;
    focal_ctx_close(ctx);
    return is_wrong;
}
