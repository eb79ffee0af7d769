#!/usr/bin/env python3
"""Shows that what `focal export` writes loads elsewhere and computes the same there.

Tiny models of every family (tests/golden/models): each is exported to GGUF and from there back to a
directory. The directory's logits in transformers and the GGUF file's in llama.cpp are compared with
those that transformers gives for the original. A real model, when its GGUF file is given: exported
to a directory (greedy ids in transformers) and to the types of GGUF (greedy ids in llama.cpp)
against llama.cpp on the original file.
Usage: tools/check_export.py FOCAL [MODEL.gguf]; needs torch, transformers and llama-cpp-python.
"""
import ctypes
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import llama_cpp
import numpy
import torch
import transformers

FAMILIES = ["llama", "llama3", "linear", "mistral", "qwen2", "yarn", "qwen3", "olmo2", "gemma2",
            "gemma3", "gpt2"]
TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_K", "q3_K", "q4_K",
         "q5_K", "q6_K", "iq4_nl"]
PROMPT = "The capital of France is"
TOKENS = 24  # fewer than the smallest context
# transformers in float32 against itself through our files: the same numbers but for the order of
# sums. llama.cpp looks gelu up in a table of float16, which is most of the distance there is.
SAME, NEAR = 1e-6, 2e-3
# llama.cpp has no window in llama's own, and takes 1 / sqrt(D) for Gemma: what it cannot be told
# is left out here, of both sides.
CHANGES = {"mistral": {"sliding_window": None}, "gemma2": {"query_pre_attn_scalar": 16},
           "gemma3": {"query_pre_attn_scalar": 8}}


def export(focal, source, target, *options):
    subprocess.run([focal, "export", source, target, *options], check=True,
                   stderr=subprocess.DEVNULL)


def transformers_logits(folder, ids):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


class Llama:
    """A model in llama.cpp, by its C functions: tiny models have no vocabulary."""

    def __init__(self, path, context=256):
        options = llama_cpp.llama_model_default_params()
        options.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
        if not self.model:
            raise RuntimeError("llama.cpp does not load it")
        options = llama_cpp.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_threads = context, context, 2
        options.flash_attn_type = 0
        options.type_k = options.type_v = 0  # float32
        self.context = llama_cpp.llama_init_from_model(self.model, options)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.size = llama_cpp.llama_vocab_n_tokens(self.vocab)

    def close(self):
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)

    def read(self, ids, first):
        """The logits of all ids, which stand behind `first` others."""
        batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for n, token in enumerate(ids):
            batch.token[n], batch.pos[n], batch.n_seq_id[n] = token, first + n, 1
            batch.seq_id[n][0], batch.logits[n] = 0, 1
        if llama_cpp.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama.cpp does not read it")
        rows = [numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(self.context, n),
                                         (self.size,)).copy() for n in range(len(ids))]
        llama_cpp.llama_batch_free(batch)
        return numpy.array(rows)

    def tokenize(self, text):
        data, room = text.encode(), 256
        ids = (ctypes.c_int32 * room)()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), ids, room, True, True)
        return list(ids[:count])

    def greedy(self, ids, count):
        out, first = [], 0
        for _ in range(count):
            row = self.read(ids, first)[-1]
            first += len(ids)
            ids = [int(row.argmax())]
            out += ids
        return out


def distance(got, expected):
    return float(numpy.abs(got - expected).max() / numpy.abs(expected).max())


def check_family(focal, models, name, work):
    source = work / name
    shutil.copytree(models / name, source)
    ids = numpy.random.default_rng(7).integers(3, 96, TOKENS).tolist()
    expected = transformers_logits(source, ids)
    export(focal, source, work / f"{name}.gguf")
    export(focal, work / f"{name}.gguf", work / f"{name}-back")
    export(focal, source, work / f"{name}-copy")
    back = distance(transformers_logits(work / f"{name}-back", ids), expected)
    copy = distance(transformers_logits(work / f"{name}-copy", ids), expected)
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, **CHANGES.get(name, {})}))
    expected = transformers_logits(source, ids)
    export(focal, source, work / f"{name}-plain.gguf", "--type", "f32")
    model = Llama(work / f"{name}-plain.gguf")
    llama = distance(model.read(ids, 0), expected)
    model.close()
    good = back < SAME and copy < SAME and llama < NEAR
    print(f"{name:9} transformers {back:.1e} (through GGUF) {copy:.1e} (copied)   "
          f"llama.cpp {llama:.1e}  {'good' if good else 'BAD'}", flush=True)
    return good


def check_real(focal, path, work):
    model = Llama(path)
    ids = model.tokenize(PROMPT)
    expected = model.greedy(ids, 16)
    model.close()
    print(f"{path.name}: {ids} -> {expected}")
    export(focal, path, work / "real")
    tokenizer = transformers.AutoTokenizer.from_pretrained(work / "real")
    own = tokenizer(PROMPT)["input_ids"]
    hf = transformers.AutoModelForCausalLM.from_pretrained(work / "real", dtype=torch.float32).eval()
    with torch.no_grad():
        out = hf.generate(torch.tensor([ids]), max_new_tokens=16, do_sample=False)
    got = out[0, len(ids):].tolist()
    same = expected[:len(got)] == got
    print(f"directory  transformers: prompt ids {'equal' if own == ids else own}, greedy ids "
          f"{'equal' if same else got}: {tokenizer.decode(got)!r}", flush=True)
    good = same and own == ids
    export(focal, work / "real", work / "again.gguf", "--type", "bf16")
    for kind in ["again", *TYPES]:
        file = work / f"{kind}.gguf"
        if kind != "again":
            export(focal, path, file, "--type", kind)
        model = Llama(file)
        own, got = model.tokenize(PROMPT), model.greedy(ids, 16)
        model.close()
        equal = next((n for n in range(16) if got[n] != expected[n]), 16)
        print(f"{kind:7} {file.stat().st_size / 1e6:8.1f} MB  llama.cpp: prompt ids "
              f"{'equal' if own == ids else own}, {equal} of 16 greedy ids equal", flush=True)
        # The original is q4_1: what has fewer bits may part, the rest may not.
        good &= own == ids and (equal == 16 or kind.startswith(("q2", "q3", "q4", "iq4")))
        file.unlink()
    return good


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    focal = pathlib.Path(sys.argv[1]).resolve()
    models = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/models"
    quiet = llama_cpp.llama_log_callback(lambda level, text, user: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    good = True
    with tempfile.TemporaryDirectory() as work:
        for name in FAMILIES:
            good &= check_family(focal, models, name, pathlib.Path(work))
        if len(sys.argv) > 2:
            good &= check_real(focal, pathlib.Path(sys.argv[2]), pathlib.Path(work))
    sys.exit(not good)


if __name__ == "__main__":
    main()
