#!/usr/bin/env python3
"""focal's tokenizer beside the tokenizers package: one thread each, one text, one run.

Prints MB/s of both (the best of the repeats, taken in turns) and their ratio, and fails when the ids
differ. The vocabulary is a GGUF file's: byte-level with one of the splitters below, or SentencePiece's
with scores, from which the merges are made as transformers makes them. The package gets it through
its own API. Its cache of words stays warm between repeats, focal's begins empty.

    tokenizer.py --build BUILD --model MODEL.gguf TEXT...

BUILD is a CMake build directory with libfocal.a; bench/tokenize.c is compiled against it.
Needs the packages gguf, numpy and tokenizers.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import gguf  # noqa: E402
import numpy  # noqa: E402
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = ["jansson", "libpcre2-8", "libutf8proc", "dnnl"]
BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False)
SPLITTERS = {
    "gpt-2": BYTE_LEVEL,
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), BYTE_LEVEL]),
    "qwen2": pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
}
CONTROL, USER = 3, 4  # token types of GGUF


def compile_ours(build, folder):
    """The program that tokenizes with libfocal.a."""
    flags = []
    for library in LIBRARIES:
        found = subprocess.run(["pkg-config", "--libs", library], capture_output=True, text=True)
        flags += found.stdout.split()
    program = folder / "tokenize"
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-D_GNU_SOURCE", f"-I{ROOT}/include",
                    f"-I{ROOT}/src", ROOT / "bench/tokenize.c", build / "libfocal.a", *flags, "-lm",
                    "-lpthread", "-o", program], check=True)
    return program


def byte_level(fields, tokens):
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    splitter = fields["tokenizer.ggml.pre"].contents()
    if splitter not in SPLITTERS:
        sys.exit(f"no splitter for '{splitter}' here, only {', '.join(SPLITTERS)}")
    tokenizer = Tokenizer(models.BPE({t: n for n, t in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = SPLITTERS[splitter]
    return tokenizer


def sentencepiece(fields, tokens):
    vocabulary = {t: n for n, t in enumerate(tokens)}
    scores = fields["tokenizer.ggml.scores"].contents()
    merges = []
    for token, number in vocabulary.items():
        pairs = [(token[:n], token[n:]) for n in range(1, len(token))]
        pairs = [(a, b) for a, b in pairs if a in vocabulary and b in vocabulary]
        merges += [(-scores[number], vocabulary[a], vocabulary[b], a, b) for a, b in pairs]
    merges = [(a, b) for *_, a, b in sorted(merges)]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    return tokenizer


def open_theirs(path):
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    has_scores = fields["tokenizer.ggml.model"].contents() == "llama"
    tokenizer = (sentencepiece if has_scores else byte_level)(fields, tokens)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t, k in zip(tokens, kinds) if k == CONTROL])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t, k in zip(tokens, kinds) if k == USER])
    tokenizer.encode_special_tokens = True
    return tokenizer


def run_ours(program, model, text, ids):
    out = subprocess.run([program, model, text, "1", ids], check=True, capture_output=True, text=True)
    return float(dict(line.split(" ", 1) for line in out.stdout.splitlines())["seconds"])


def run_theirs(tokenizer, text):
    begin = time.perf_counter()
    encoding = tokenizer.encode(text, add_special_tokens=False)
    return time.perf_counter() - begin, encoding


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--model", required=True)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("texts", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    theirs = open_theirs(options.model)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = compile_ours(options.build, folder)
        for path in options.texts:
            text = path.read_bytes().decode("utf-8")
            ours_best = theirs_best = float("inf")
            for _ in range(options.repeats):
                ours_best = min(ours_best, run_ours(program, options.model, path, folder / "ids"))
                seconds, encoding = run_theirs(theirs, text)
                theirs_best = min(theirs_best, seconds)
            size = path.stat().st_size / 1e6
            print(f"{path.name}: {len(encoding.ids)} ids; focal {size / ours_best:.1f} MB/s, "
                  f"tokenizers {size / theirs_best:.1f} MB/s, ratio {theirs_best / ours_best:.1f}")
            if numpy.fromfile(folder / "ids", dtype=numpy.int32).tolist() != encoding.ids:
                sys.exit(f"{path.name}: the ids differ")


if __name__ == "__main__":
    main()
