/* CRC32C: known values, pieces, and the instruction against the tables. */
#include "support/check.h"

#include <string.h>

#include "base/ctx.h"
#include "train/crc32c.h"

static void known_values(void **state)
{
    focal_ctx *ctx = *state;
    uint8_t bytes[32];
    /* RFC 3720, B.4, and the check value of the catalogues. */
    assert_int_equal(foci_crc32c(ctx, 0, "123456789", 9), 0xE3069283);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(foci_crc32c(ctx, 0, bytes, 32), 0x8A9136AA);
    memset(bytes, 0xFF, sizeof bytes);
    assert_int_equal(foci_crc32c(ctx, 0, bytes, 32), 0x62A8AB43);
    for (int n = 0; n < 32; n++) bytes[n] = (uint8_t)n;
    assert_int_equal(foci_crc32c_ref(0, bytes, 32), 0x46DD794E);
    assert_int_equal(foci_crc32c(ctx, 0, bytes, 0), 0);
}

static void every_way_agrees(void **state)
{
    focal_ctx *ctx = *state;
    uint8_t bytes[300];
    for (size_t n = 0; n < sizeof bytes; n++) bytes[n] = (uint8_t)(n * n * 7 + n / 3);
    for (size_t begin = 0; begin < 9; begin++) {
        for (size_t count = 0; count < 290; count++) {
            const uint32_t expected = foci_crc32c_ref(0, bytes + begin, count);
            assert_int_equal(foci_crc32c(ctx, 0, bytes + begin, count), expected);
            const uint32_t half = foci_crc32c(ctx, 0, bytes + begin, count / 2);
            assert_int_equal(foci_crc32c(ctx, half, bytes + begin + count / 2, count - count / 2),
                             expected);
            if (foci_has(ctx, FOCI_AVX2))
                assert_int_equal(foci_crc32c_avx2(0, bytes + begin, count), expected);
        }
    }
    foci_ctx_mask_features(ctx, 0);
    assert_int_equal(foci_crc32c(ctx, 0, "123456789", 9), 0xE3069283);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(known_values, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(every_way_agrees, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("crc32c", tests, NULL, NULL);
}
