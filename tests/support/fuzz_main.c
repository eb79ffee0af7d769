/* Runs a fuzz target over files and folders of files, so that ordinary builds test the corpora
 * without libFuzzer. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_FILE_BYTES = 1 << 20, MAX_NAME_BYTES = 4096 };

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(MAX_FILE_BYTES);
    if (!file || !data) {
        (void)fprintf(stderr, "%s: %s\n", path, strerror(errno));
        if (file) (void)fclose(file);
        free(data);
        return -1;
    }
    const size_t size = fread(data, 1, MAX_FILE_BYTES, file);
    (void)fclose(file);
    /* Exactly as many bytes as the target may read, so that ASan sees the first one too many. */
    uint8_t *exact = malloc(size ? size : 1);
    if (exact) {
        memcpy(exact, data, size);
        (void)LLVMFuzzerTestOneInput(exact, size);
    }
    free(data);
    free(exact);
    return exact ? 0 : -1;
}

/* The number of files that ran, or -1. */
static int run_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir) {
        (void)fprintf(stderr, "%s: %s\n", folder, strerror(errno));
        return -1;
    }
    int count = 0;
    for (const struct dirent *entry = readdir(dir); entry && count >= 0; entry = readdir(dir)) {
        char path[MAX_NAME_BYTES];
        if (entry->d_name[0] == '.') continue;
        const int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        const int is_fine = length > 0 && length < MAX_NAME_BYTES && run_file(path) == 0;
        count = is_fine ? count + 1 : -1;
    }
    (void)closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    for (int n = 1; n < argc; n++) {
        const int count = run_folder(argv[n]);
        if (count <= 0) {
            (void)fprintf(stderr, "%s: no input was run\n", argv[n]);
            return 1;
        }
        (void)printf("%s: %d inputs\n", argv[n], count);
    }
    return argc > 1 ? 0 : 2;
}
