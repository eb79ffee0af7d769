/* The same bits at any thread count, every kernel of the product; and oneDNN starts no threads of
 * its own, nor changes what the caller has told OpenMP. */
#include "support/check.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "ops/matmul/matmul_kernels.h"
#include "support/matmul_cases.h"

/* clang-format off */
static const matmul_spec specs[] = {
    {.M = 1, .N = 300, .K = 577},
    {.M = 8, .N = 97, .K = 577, .x = FOCAL_BF16, .w = FOCAL_BF16},
    {.M = 90, .N = 500, .K = 577},
    {.M = 90, .N = 500, .K = 577, .x = FOCAL_BF16, .w = FOCAL_BF16, .out = FOCAL_BF16},
    {.M = 300, .N = 33, .K = 100, .has_bias = true, .adds = true}, /* fewer chunks than threads */
    {.M = 80, .N = 200, .K = 320, .w = FOCAL_Q4_1},
    {.M = 80, .N = 200, .K = 320, .x = FOCAL_BF16, .w = FOCAL_Q8_0},
    {.M = 5, .N = 200, .K = 320, .w = FOCAL_Q8_0},
    {.M = 1, .N = 300, .K = 576, .w = FOCAL_Q4_1, .rounds = true},
    {.M = 1, .N = 1003, .K = 576, .w = FOCAL_Q5_0, .rounds = true},
    {.M = 2, .N = 1003, .K = 320, .w = FOCAL_Q4_0, .rounds = true},
    {.M = 6, .N = 501, .K = 320, .w = FOCAL_Q5_1, .rounds = true},
    {.M = 90, .N = 301, .K = 576, .x = FOCAL_BF16, .w = FOCAL_Q4_1, .rounds = true},
    {.M = 300, .N = 33, .K = 512, .x = FOCAL_BF16, .w = FOCAL_Q6_K, .rounds = true},
    {.M = 80, .N = 200, .K = 90, .is_transposed = true, .w = FOCAL_F16},
    {.M = 90, .N = 300, .K = 90, .is_transposed = true, .w = FOCAL_Q4_1},
    {.M = 90, .N = 200, .K = 90, .is_transposed = true, .x_is_transposed = true},
};
/* clang-format on */
static const int32_t thread_counts[] = {2, 3, 7};

static void run_with(int32_t threads, const foci_matmul_kernel *kernel, matmul_case *c)
{
    focal_ctx *ctx = new_ctx(threads);
    matmul_case_clear(c);
    assert_status(ctx, kernel->run(ctx, &c->args), FOCAL_OK);
    focal_ctx_close(ctx);
}

static void same_bits_at_any_thread_count(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t s = 0; s < FOCAL_COUNT(specs); s++) {
        matmul_case *c = matmul_case_new(&specs[s], (uint64_t)s + 1);
        char *one = new_array(c->out_bytes, 1);
        for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
            const foci_matmul_kernel *kernel = foci_matmul_kernels[n];
            if (!kernel->can(ctx, &c->args)) continue;
            run_with(1, kernel, c);
            memcpy(one, c->out, c->out_bytes);
            for (size_t t = 0; t < FOCAL_COUNT(thread_counts); t++) {
                run_with(thread_counts[t], kernel, c);
                if (memcmp(one, c->out, c->out_bytes) != 0)
                    fail_msg("%s gives other bits with %d threads: %s", kernel->name,
                             thread_counts[t], matmul_case_text(c));
            }
            note_ran("matmul threads", kernel->name);
        }
        free(one);
        matmul_case_free(c);
    }
    assert_ran("matmul threads", "ref");
}

/* Threads of this process, or 0 where the system does not tell. */
static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    for (const struct dirent *entry; tasks && (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    if (tasks) (void)closedir(tasks);
    return count;
}

/* Of the OpenMP that oneDNN brings, where it is linked. */
extern int omp_get_max_threads(void) __attribute__((weak));
extern void omp_set_num_threads(int threads) __attribute__((weak));

static void no_kernel_starts_threads(void **state)
{
    focal_ctx *ctx = *state;
    const int before = count_threads();
    if (omp_set_num_threads) omp_set_num_threads(5);
    for (int x = FOCAL_F32; x <= FOCAL_BF16; x++) {
        const matmul_spec spec = {.M = 256, .N = 600, .K = 512, .x = x, .w = x, .out = x};
        matmul_case *c = matmul_case_new(&spec, 1);
        for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
            const foci_matmul_kernel *kernel = foci_matmul_kernels[n];
            if (!kernel->can(ctx, &c->args)) continue;
            assert_status(ctx, kernel->run(ctx, &c->args), FOCAL_OK);
            if (count_threads() != before)
                fail_msg("%s: %d threads, before %d", kernel->name, count_threads(), before);
            if (omp_get_max_threads) assert_int_equal(omp_get_max_threads(), 5);
        }
        matmul_case_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_kernel_starts_threads, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(same_bits_at_any_thread_count, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("matmul_threads", tests, NULL, NULL);
}
