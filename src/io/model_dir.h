/* What a Hugging Face model directory holds: its small files parsed, its large ones located. */
#ifndef FOCI_IO_MODEL_DIR_H
#define FOCI_IO_MODEL_DIR_H

#include "io/json.h"

/* Everything belongs to the directory and lives until it is closed. */
typedef struct foci_model_dir {
    focal_ctx *ctx;
    char *path;
    foci_json *config;           /* config.json */
    foci_json *generation;       /* generation_config.json; NULL: there is none */
    foci_json *tokenizer_config; /* tokenizer_config.json; NULL: there is none */
    char *tokenizer_path;        /* tokenizer.json, not read yet; NULL: there is none */
    char *weights_path;          /* for foci_safetensors_open: a file or an index; NULL: none */
    const char *chat_template;   /* NUL-terminated, any bytes; NULL: there is none */
    size_t chat_template_bytes;
    char *template_text;      /* behind chat_template when it is a file of its own ... */
    foci_json *template_root; /* ... or in one */
} foci_model_dir;

/* Weights are model.safetensors, or else model.safetensors.index.json, or else the one file
 * *.safetensors; several without an index are refused. The chat template is chat_template.jinja,
 * or else the member chat_template of chat_template.json or tokenizer_config.json (where a list of
 * templates has one of the name "default").
 *
 * FOCAL_EIO when path is no directory or config.json cannot be read. FOCAL_EFORMAT, with a sentence
 * that has the file: a small file above 16 MB or that is no JSON object, a tokenizer.json above 256
 * MB, weights only as pickle files, and a config that wants code of its own to run (auto_map). */
focal_status foci_model_dir_open(focal_ctx *ctx, const char *path, foci_model_dir **out);
void foci_model_dir_close(foci_model_dir *dir); /* NULL is fine */

#endif /* FOCI_IO_MODEL_DIR_H */
