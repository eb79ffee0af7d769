/* What is written beside an adapter's numbers, of either kind, and their rounding. */
#include <stdio.h>
#include <string.h>

#include "base/bf16.h"
#include "base/error.h"
#include "io/json_text.h"
#include "model/adapter_layout.h"
#include "text/utf8.h"

bool foci_is_fingerprint(const char *text)
{
    const size_t digits = FOCI_FINGERPRINT_BYTES - 1;
    return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

focal_status foci_adapter_check_note(focal_ctx *ctx, const foci_adapter_note *note)
{
    const char *digits = note->fingerprint ? note->fingerprint : "";
    const size_t bytes = note->settings ? strlen(note->settings) : 0;
    if (note->dtype != FOCAL_F32 && note->dtype != FOCAL_BF16)
        return foci_fail(ctx, FOCAL_EINVAL, "adapter: %s is not f32 or bf16",
                         focal_dtype_name(note->dtype));
    if (!foci_is_fingerprint(digits))
        return foci_fail(ctx, FOCAL_EINVAL, "adapter: '%.40s' is no fingerprint of a model",
                         digits);
    if (note->settings &&
        (bytes < 2 || note->settings[0] != '{' || note->settings[bytes - 1] != '}'))
        return foci_fail(ctx, FOCAL_EINVAL, "adapter: the settings are no JSON object");
    return FOCAL_OK;
}

foci_text foci_adapter_base_text(const char *name)
{
    const size_t most = FOCI_BASE_NAME_BYTES - 1, length = name ? strlen(name) : 0;
    foci_text text = {name, length};
    if (length > 0) text.bytes = foci_utf8_valid(name, length < most ? length : most);
    if (!foci_text_is_plain(text)) text.bytes = 0;
    return text;
}

void foci_adapter_version(char version[FOCI_VERSION_BYTES])
{
    (void)snprintf(version, FOCI_VERSION_BYTES, "%d.%d.%d", FOCAL_VERSION_MAJOR,
                   FOCAL_VERSION_MINOR, FOCAL_VERSION_PATCH);
}

void foci_adapter_put_key(foci_writer *file, const char *key)
{
    foci_json_put(file, ",\n  \"");
    foci_json_put(file, key);
    foci_json_put(file, "\": ");
}

focal_status foci_adapter_round(focal_ctx *ctx, const char *path, const float *numbers,
                                int64_t count, uint16_t *rounded)
{
    for (int64_t n = 0; n < count; n++) {
        rounded[n] = foci_bf16_from_float(numbers[n]);
        if ((rounded[n] & 0x7FFFU) == 0x7F80U)
            return foci_fail(ctx, FOCAL_EINVAL, "%s: %g is beyond the largest bf16", path,
                             (double)numbers[n]);
    }
    return FOCAL_OK;
}
