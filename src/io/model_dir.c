/* Looking into a model directory. Nothing in it is ever run: pickle files and configs that ask for
 * code are refused, with a sentence that says so. */
#include "io/model_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/file.h"

enum { MAX_SMALL_BYTES = 16 << 20, MAX_TOKENIZER_BYTES = 256 << 20 };

/* What lies in the directory beside the files that have a fixed name. */
typedef struct listing {
    int64_t safetensors_count, pickle_count;
    char *safetensors; /* the path of one of them */
} listing;

static char *path_of(const foci_model_dir *dir, const char *name)
{
    return foci_path_join(dir->ctx, dir->path, strlen(dir->path), name);
}

static focal_status find_file(const foci_model_dir *dir, const char *name, char **path,
                              struct stat *info)
{
    *path = path_of(dir, name);
    if (!*path) return FOCAL_ENOMEM;
    if (stat(*path, info) == 0) return FOCAL_OK;
    const int error = errno;
    focal_status status = FOCAL_OK;
    if (error != ENOENT) status = foci_fail(dir->ctx, FOCAL_EIO, "%s: %s", *path, strerror(error));
    foci_free(dir->ctx, *path);
    *path = NULL;
    return status;
}

/* The path of a file when it is there, else NULL. */
static focal_status locate(const foci_model_dir *dir, const char *name, char **path)
{
    struct stat info;
    return find_file(dir, name, path, &info);
}

/* The text of a file when it is there, else NULL. */
static focal_status read_text(const foci_model_dir *dir, const char *name, char **text,
                              size_t *bytes)
{
    char *path = NULL;
    *text = NULL;
    *bytes = 0;
    FOCAL_TRY(locate(dir, name, &path));
    if (!path) return FOCAL_OK;
    const focal_status status = foci_read_file(dir->ctx, path, MAX_SMALL_BYTES, text, bytes);
    foci_free(dir->ctx, path);
    return status;
}

/* The object in a file when it is there, else NULL. */
static focal_status read_object(const foci_model_dir *dir, const char *name, foci_json **root)
{
    char *path = path_of(dir, name), *text = NULL;
    size_t bytes = 0;
    if (!path) return FOCAL_ENOMEM;
    focal_status status = read_text(dir, name, &text, &bytes);
    if (status == FOCAL_OK && text) {
        status = foci_json_parse(dir->ctx, path, text, bytes, root);
        if (status == FOCAL_OK && !foci_json_is(*root, FOCI_JSON_OBJECT))
            status = foci_fail(dir->ctx, FOCAL_EFORMAT, "%s: must be an object", path);
        /* transformers names here the classes of *.py files it would import. */
        const foci_json *wanted = foci_json_get(*root, "auto_map");
        if (status == FOCAL_OK && wanted && !foci_json_is(wanted, FOCI_JSON_NULL))
            status =
                foci_fail(dir->ctx, FOCAL_EFORMAT,
                          "%s: asks to run code of its own (auto_map), which is never done", path);
    }
    foci_free(dir->ctx, text);
    foci_free(dir->ctx, path);
    return status;
}

static bool is_pickle(const char *name)
{
    static const char *const patterns[] = {"*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle"};
    for (size_t n = 0; n < FOCAL_COUNT(patterns); n++)
        if (fnmatch(patterns[n], name, 0) == 0) return true;
    return false;
}

static bool is_weights(const char *name)
{
    /* An adapter lies beside a model without being one. */
    return fnmatch("*.safetensors", name, FNM_PERIOD) == 0 && strncmp(name, "adapter_", 8) != 0;
}

static focal_status list_files(const foci_model_dir *dir, listing *list)
{
    DIR *stream = opendir(dir->path);
    if (!stream) return foci_fail(dir->ctx, FOCAL_EIO, "%s: %s", dir->path, strerror(errno));
    focal_status status = FOCAL_OK;
    for (const struct dirent *file = readdir(stream); file; file = readdir(stream)) {
        if (is_pickle(file->d_name)) list->pickle_count++;
        if (!is_weights(file->d_name)) continue;
        list->safetensors_count++;
        if (list->safetensors) continue;
        list->safetensors = path_of(dir, file->d_name);
        if (!list->safetensors) {
            status = FOCAL_ENOMEM;
            break;
        }
    }
    (void)closedir(stream);
    return status;
}

static focal_status find_weights(foci_model_dir *dir, listing *list)
{
    FOCAL_TRY(locate(dir, "model.safetensors", &dir->weights_path));
    if (!dir->weights_path)
        FOCAL_TRY(locate(dir, "model.safetensors.index.json", &dir->weights_path));
    if (dir->weights_path) return FOCAL_OK;
    if (list->safetensors_count > 1)
        return foci_fail(dir->ctx, FOCAL_EFORMAT,
                         "%s: holds %lld safetensors files and no model.safetensors.index.json",
                         dir->path, (long long)list->safetensors_count);
    if (list->safetensors_count == 0 && list->pickle_count > 0)
        return foci_fail(dir->ctx, FOCAL_EFORMAT,
                         "%s: holds pickle files, which can run code when read; convert it to "
                         "safetensors",
                         dir->path);
    dir->weights_path = list->safetensors;
    list->safetensors = NULL;
    return FOCAL_OK;
}

static focal_status find_tokenizer(foci_model_dir *dir)
{
    struct stat info;
    FOCAL_TRY(find_file(dir, "tokenizer.json", &dir->tokenizer_path, &info));
    if (dir->tokenizer_path && info.st_size > MAX_TOKENIZER_BYTES)
        return foci_fail(dir->ctx, FOCAL_EFORMAT, "%s: %lld bytes, at most %d are read",
                         dir->tokenizer_path, (long long)info.st_size, MAX_TOKENIZER_BYTES);
    return FOCAL_OK;
}

/* The member chat_template: a string, or the default one of a list of {name, template}. */
static void take_template(foci_model_dir *dir, const foci_json *root)
{
    const foci_json *value = foci_json_get(root, "chat_template");
    if (foci_json_is(value, FOCI_JSON_ARRAY)) {
        const foci_json *list = value;
        value = NULL;
        for (int64_t n = 0; n < foci_json_count(list) && !value; n++) {
            const foci_json *one = foci_json_at(list, n);
            const char *name = foci_json_string(foci_json_get(one, "name"));
            if (name && strcmp(name, "default") == 0) value = foci_json_get(one, "template");
        }
    }
    dir->chat_template = foci_json_string(value);
    dir->chat_template_bytes = foci_json_length(value);
}

static focal_status find_template(foci_model_dir *dir)
{
    FOCAL_TRY(
        read_text(dir, "chat_template.jinja", &dir->template_text, &dir->chat_template_bytes));
    dir->chat_template = dir->template_text;
    if (dir->chat_template) return FOCAL_OK;
    FOCAL_TRY(read_object(dir, "chat_template.json", &dir->template_root));
    take_template(dir, dir->template_root);
    if (!dir->chat_template) take_template(dir, dir->tokenizer_config);
    return FOCAL_OK;
}

static focal_status read_dir(foci_model_dir *dir)
{
    listing list = {.safetensors = NULL};
    FOCAL_TRY(read_object(dir, "config.json", &dir->config));
    focal_status status = list_files(dir, &list);
    if (status == FOCAL_OK && !dir->config)
        status = foci_fail(dir->ctx, FOCAL_EIO, "%s: holds no config.json", dir->path);
    if (status == FOCAL_OK) status = find_weights(dir, &list);
    foci_free(dir->ctx, list.safetensors);
    FOCAL_TRY(status);
    FOCAL_TRY(read_object(dir, "generation_config.json", &dir->generation));
    FOCAL_TRY(read_object(dir, "tokenizer_config.json", &dir->tokenizer_config));
    FOCAL_TRY(find_tokenizer(dir));
    return find_template(dir);
}

focal_status foci_model_dir_open(focal_ctx *ctx, const char *path, foci_model_dir **out)
{
    *out = NULL;
    foci_model_dir *dir = foci_alloc(ctx, 1, sizeof *dir);
    if (!dir) return FOCAL_ENOMEM;
    *dir = (foci_model_dir){.ctx = ctx, .path = foci_alloc(ctx, strlen(path) + 1, 1)};
    focal_status status = FOCAL_ENOMEM;
    if (dir->path) {
        memcpy(dir->path, path, strlen(path) + 1);
        status = read_dir(dir);
    }
    if (status == FOCAL_OK)
        *out = dir;
    else
        foci_model_dir_close(dir);
    return status;
}

void foci_model_dir_close(foci_model_dir *dir)
{
    if (!dir) return;
    foci_json_free(dir->config);
    foci_json_free(dir->generation);
    foci_json_free(dir->tokenizer_config);
    foci_json_free(dir->template_root);
    foci_free(dir->ctx, dir->template_text);
    foci_free(dir->ctx, dir->tokenizer_path);
    foci_free(dir->ctx, dir->weights_path);
    foci_free(dir->ctx, dir->path);
    foci_free(dir->ctx, dir);
}
