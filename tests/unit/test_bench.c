/* The yardsticks give plausible rates whatever the machine has, and refuse bad calls. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "bench/yardstick_kernels.h"
#include "focal/bench.h"

static void peaks_are_plausible(void **state)
{
    const unsigned sets[] = {0, FOCI_AVX2, FOCI_AVX2 | FOCI_AVX512, ~0U};
    for (size_t n = 0; n < FOCAL_COUNT(sets); n++) {
        double f32 = 0.0, bf16 = 0.0;
        foci_ctx_mask_features(*state, sets[n]);
        assert_int_equal(focal_bench_peak(*state, FOCAL_F32, &f32), FOCAL_OK);
        assert_int_equal(focal_bench_peak(*state, FOCAL_BF16, &bf16), FOCAL_OK);
        /* Two threads of any machine: a loop that a compiler left out would be far above. */
        assert_true(f32 > 0.01 && f32 < 1e4);
        assert_true(bf16 > 0.01 && bf16 < 1e4);
    }
}

/* Every chain of s = s / 2 + 1 arrives at 2. */
static void plain_loop_does_its_work(void **state)
{
    (void)state;
    assert_true(foci_peak_plain(0) == FOCI_PEAK_CHAINS * (FOCI_PEAK_CHAINS - 1) / 2.0F);
    assert_true(foci_peak_plain(100) == 2.0F * FOCI_PEAK_CHAINS);
}

static void read_is_plausible(void **state)
{
    const size_t bytes = 3 * 1024 * 1024 + 64 + 17; /* no whole number of pieces or lines */
    char *block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(block);
    memset(block, 1, bytes);
    double rate = 0.0;
    assert_int_equal(focal_bench_read(*state, block, bytes, &rate), FOCAL_OK);
    assert_true(rate > 0.001 && rate < 1e6);
    assert_int_equal(focal_bench_read(*state, block, 64, &rate), FOCAL_OK);
    free(block);
}

static void bad_calls_are_refused(void **state)
{
    double rate;
    char block[64] = {0};
    assert_int_equal(focal_bench_peak(*state, FOCAL_F32, NULL), FOCAL_EINVAL);
    assert_int_equal(focal_bench_peak(*state, (focal_dtype)7, &rate), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(*state), "bench: unknown element type 7");
    assert_int_equal(focal_bench_read(*state, NULL, 64, &rate), FOCAL_EINVAL);
    assert_int_equal(focal_bench_read(*state, block, 63, &rate), FOCAL_EINVAL);
    assert_int_equal(focal_bench_read(*state, block, 64, NULL), FOCAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(peaks_are_plausible, open_ctx, close_ctx),
        cmocka_unit_test(plain_loop_does_its_work),
        cmocka_unit_test_setup_teardown(read_is_plausible, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_calls_are_refused, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}
