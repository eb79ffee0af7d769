#!/usr/bin/env python3
"""Shows that exported tokenizers give the same ids in the programs that they are for.

    GGUF -> tokenizer.json   transformers' AutoTokenizer on what was written, against llama.cpp on
                             the GGUF file, for the whole of TEXT in pieces and the golden texts;
                             then the same file as GGUF again, in llama.cpp
    tokenizer.json -> GGUF   llama.cpp on what was written, against the tokenizers package on the
                             file under tests/golden/tokenizers, for the golden texts and TEXT

Prints a line a tokenizer: texts compared, texts with other ids, and the first of those. Exit status
1 when there is one that tokenizer_export.h does not speak of. Needs the packages transformers and
llama-cpp-python, a compiler, and a build with libfocal.a.

Usage: check_tokenizer_export.py BUILD TEXT [GGUF...]"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unicodedata

import tokenizers
from llama_cpp import Llama
from transformers import AutoTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests/golden/tokenizers"
PIECE = 4000  # characters of TEXT that are compared at a time
TYPES = {"llama": "llama", "gemma3": "gemma3_text", "qwen2": "qwen2"}  # GGUF's name, config.json's

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/ctx.h"
#include "text/tokenizer_export.h"

static foci_json *parse(focal_ctx *ctx, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    foci_json *root = NULL;
    if (foci_read_file(ctx, path, 1 << 28, &text, &bytes) == FOCAL_OK)
        (void)foci_json_parse(ctx, path, text, bytes, &root);
    foci_free(ctx, text);
    return root;
}

/* gguf FILE FOLDER, or json FILE VOCAB CONFIG GGUF */
int main(int count, char **words)
{
    focal_ctx *ctx = NULL;
    focal_status status = count < 4 ? FOCAL_EINVAL : focal_ctx_open(NULL, &ctx, NULL);
    if (status == FOCAL_OK && strcmp(words[1], "gguf") == 0) {
        foci_gguf *gguf = NULL;
        status = foci_gguf_open(ctx, words[2], &gguf);
        if (status == FOCAL_OK) status = foci_tokenizer_write_json(ctx, gguf, words[3]);
        foci_gguf_close(gguf);
    } else if (status == FOCAL_OK) {
        foci_gguf_writer *writer = NULL;
        foci_json *json = parse(ctx, words[2]), *config = parse(ctx, words[4]);
        status = foci_gguf_writer_new(ctx, &writer);
        if (status == FOCAL_OK)
            status = foci_gguf_put_text(writer, "general.architecture", foci_text_of("llama"));
        if (status == FOCAL_OK)
            status = foci_tokenizer_put_gguf(ctx, words[2], json, config, atol(words[3]), writer);
        if (status == FOCAL_OK) status = foci_gguf_writer_commit(writer, words[5], NULL, NULL);
        foci_gguf_writer_free(writer);
        foci_json_free(json);
        foci_json_free(config);
    }
    if (status != FOCAL_OK) fprintf(stderr, "%s\n", ctx ? focal_ctx_error(ctx) : "usage");
    focal_ctx_close(ctx);
    return status != FOCAL_OK;
}
"""


def build_program(build, folder):
    source, program = folder / "convert.c", folder / "convert"
    source.write_text(PROGRAM, encoding="utf-8")
    libraries = subprocess.run(["pkg-config", "--libs", "jansson", "libpcre2-8", "libutf8proc"],
                               check=True, capture_output=True, text=True).stdout.split()
    if "dnnl" in subprocess.run(["nm", "-u", build / "libfocal.a"], capture_output=True,
                                text=True, check=True).stdout:
        libraries += ["-ldnnl", "-l:libgomp.so.1"]
    subprocess.run(["cc", "-std=c17", "-O1", "-D_GNU_SOURCE", f"-I{ROOT}/include", f"-I{ROOT}/src",
                    source, build / "libfocal.a", *libraries, "-lpthread", "-lm", "-o", program],
                   check=True)
    return program


def show(name, way, seconds, pairs, known=lambda text: False):
    """pairs: (text, expected, got). True when nothing unknown differs."""
    wrong = [(t, e, g) for t, e, g in pairs if e != g]
    bad = [w for w in wrong if not known(w[0])]
    tokens = sum(len(e) for _, e, _ in pairs)
    print(f"{name:32} {way:22} {seconds:6.2f} s {len(pairs):5} texts {tokens:8} ids "
          f"{len(wrong) - len(bad):3} known {len(bad):3} wrong", flush=True)
    for text, expected, got in bad[:3]:
        print(f"    {text[:60]!r}\n      expected {expected[:16]}\n      got      {got[:16]}")
    return not bad


def pieces(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    return [text[n:n + PIECE] for n in range(0, len(text), PIECE)]


def is_changed_by_nfc(text):
    return unicodedata.normalize("NFC", text) != text


def model(path):
    return Llama(str(path), vocab_only=True, verbose=False)


def check_gguf(program, folder, path, texts):
    out = folder / pathlib.Path(path).stem
    out.mkdir()
    start = time.monotonic()
    subprocess.run([program, "gguf", path, out], check=True)
    seconds = time.monotonic() - start
    llama = model(path)
    keys = llama.metadata
    # AutoTokenizer chooses its class with the model's type in mind.
    kind = TYPES[keys["general.architecture"]]
    (out / "config.json").write_text(json.dumps({"model_type": kind}), encoding="utf-8")
    auto = AutoTokenizer.from_pretrained(out)

    def known(text):  # transformers has a class of its own for Qwen2, with NFC, whatever the file says
        return kind == "qwen2" and is_changed_by_nfc(text)

    fine = True
    for special, label in ((True, "with special"), (False, "plain")):
        pairs = []
        for text in texts:
            expected = llama.tokenize(text.encode(), add_bos=special, special=special)
            got = auto.encode(text, add_special_tokens=special, split_special_tokens=not special)
            pairs.append((text, expected, got))
        fine &= show(out.name, f"to JSON, {label}", seconds, pairs, known)
    again = folder / "again.gguf"
    start = time.monotonic()
    subprocess.run([program, "json", out / "tokenizer.json", str(llama.n_vocab()),
                    out / "tokenizer_config.json", again], check=True)
    seconds = time.monotonic() - start
    back = model(again)
    pairs = [(t, llama.tokenize(t.encode(), special=True), back.tokenize(t.encode(), special=True))
             for t in texts]
    fine &= show(out.name, "to JSON and to GGUF", seconds, pairs)
    template = keys.get("tokenizer.chat_template")
    if template != auto.chat_template or template != back.metadata.get("tokenizer.chat_template"):
        print("    the chat template is another one")
        fine = False
    return fine


CONFIGS = {"gpt2": {"eos_token": "<|end|>"}, "llama3": {"bos_token": "<|begin|>"},
           "llama2": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}}


def check_json(program, folder, name, texts):
    path, gguf = GOLDEN / f"{name}.json", folder / f"{name}.gguf"
    config = folder / f"{name}.config.json"
    config.write_text(json.dumps(CONFIGS.get(name, {})), encoding="utf-8")
    own = tokenizers.Tokenizer.from_file(str(path))
    start = time.monotonic()
    subprocess.run([program, "json", path, str(own.get_vocab_size() + 7), config, gguf], check=True)
    seconds = time.monotonic() - start
    llama = model(gguf)
    names = [t.content for t in own.get_added_tokens_decoder().values()]

    def known(text):
        if name == "qwen2":
            return is_changed_by_nfc(text)
        return name == "mistral" and (text[:1] in " ▁" or any(n in text for n in names))

    fine = True
    for special, label in ((True, "with special"), (False, "plain")):
        own.encode_special_tokens = not special
        pairs = [(t, own.encode(t, add_special_tokens=special).ids,
                  llama.tokenize(t.encode(), add_bos=special, special=special)) for t in texts]
        fine &= show(name, f"to GGUF, {label}", seconds, pairs, known)
    return fine


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build, text, files = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3:]
    golden = json.loads((GOLDEN / "vectors.json").read_text(encoding="utf-8"))["texts"]
    texts = [t for t in golden if t] + pieces(text)
    fine = True
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = build_program(build, folder)
        for file in files:
            fine &= check_gguf(program, folder, file, texts)
        for name in ("gpt2", "llama3", "qwen2", "smollm", "llama2", "gemma", "mistral"):
            fine &= check_json(program, folder, name, texts)
    sys.exit(not fine)


os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
main()
