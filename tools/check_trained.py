#!/usr/bin/env python3
"""Shows that what training leaves computes the same in transformers and in llama.cpp as in focal.

Each argument is a model directory or the folder of a run (then its model/). The logits of a text in
focal, float32, are compared with those of transformers on the directory and of llama.cpp on what
`focal export` makes of it in f32, bf16 and f16, and twelve greedy ids with each other. A directory
whose temperature is not part of the weights must be refused by both.
Usage: tools/check_trained.py BUILD FOLDER...; BUILD holds focal and libfocal.so; needs torch,
transformers and llama-cpp-python. Models to try it on: FOCAL_TEST_SAVE=FOLDER BUILD/tests/test_save.
"""
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile

import llama_cpp
import numpy
import torch
import transformers

from check_export import PROMPT, Llama, distance, equal_ids, export, transformers_logits

GREEDY = 12
# The same numbers but for the order of sums; llama.cpp has a table of float16 for gelu, too.
SAME, NEAR = 1e-5, 2e-3
# Weights that were rounded to 8 or 11 bits, and what they are multiplied with: compared with
# focal's on the same file, so what is left is how each rounds what products read.
ROUNDED = {"f32": NEAR, "bf16": 0.05, "f16": 0.02}


class Item(ctypes.Structure):
    _fields_ = [("sequence", ctypes.c_int32), ("count", ctypes.c_int32),
                ("ids", ctypes.POINTER(ctypes.c_int32)), ("logits_count", ctypes.c_int32)]


class Args(ctypes.Structure):
    _fields_ = [("item_count", ctypes.c_int32), ("items", ctypes.POINTER(Item)),
                ("logits", ctypes.c_void_p), ("targets", ctypes.c_void_p), ("nll", ctypes.c_void_p)]


class Options(ctypes.Structure):
    _fields_ = [("precision", ctypes.c_int), ("has_precision", ctypes.c_bool)]


class Focal:
    """Logits by libfocal.so, in float32."""

    def __init__(self, library):
        self.lib = ctypes.CDLL(str(library))
        self.lib.focal_ctx_error.restype = ctypes.c_char_p
        self.ctx = ctypes.c_void_p()
        self.check(self.lib.focal_ctx_open(None, ctypes.byref(self.ctx), None))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.focal_ctx_error(self.ctx).decode())

    def logits(self, path, ids, size):
        model, cache = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.lib.focal_model_open(self.ctx, str(path).encode(),
                                             ctypes.byref(Options(0, True)), ctypes.byref(model)))
        self.check(self.lib.focal_cache_new(model, None, ctypes.byref(cache)))
        rows = numpy.zeros((len(ids), size), numpy.float32)
        item = Item(0, len(ids), (ctypes.c_int32 * len(ids))(*ids), len(ids))
        args = Args(1, ctypes.pointer(item), rows.ctypes.data, None, None)
        self.check(self.lib.focal_forward(model, cache, ctypes.byref(args)))
        self.lib.focal_cache_free(cache)
        self.lib.focal_model_close(model)
        return rows

    def greedy(self, path, ids, size):
        out = list(ids)
        for _ in range(GREEDY):
            out.append(int(self.logits(path, out, size)[-1].argmax()))
        return out[len(ids):]


def transformers_greedy(folder, ids):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        out = model.generate(torch.tensor([ids]), max_new_tokens=GREEDY, do_sample=False,
                             eos_token_id=None, pad_token_id=0)
    return out[0, len(ids):].tolist()


def check_refused(binary, folder, work):
    """What neither program can run must not look as if they could."""
    refused = []
    try:
        transformers.AutoModelForCausalLM.from_pretrained(folder)
    except ValueError:
        refused.append("transformers")
    export(binary, folder, work / "own.gguf")
    try:
        Llama(work / "own.gguf").close()
    except RuntimeError:
        refused.append("llama.cpp")
    print(f"{folder}: own keys, refused by {' and '.join(refused) or 'NONE'}", flush=True)
    return len(refused) == 2


def check_text(build, folder):
    """Whether transformers' tokenizer gives the ids of focal's."""
    if not (folder / "tokenizer.json").exists():
        return True
    ids = transformers.AutoTokenizer.from_pretrained(folder)(PROMPT)["input_ids"]
    out = subprocess.run([build / "focal", "tokenize", "-m", folder, "--json", "--add-special",
                          PROMPT], check=True, capture_output=True)
    own = json.loads(out.stdout)["ids"]
    print(f"  a text is {len(ids)} ids in transformers{'' if ids == own else f', {own} in focal BAD'}",
          flush=True)
    return ids == own


def check_model(build, focal, folder, work):
    config = json.loads((folder / "config.json").read_text())
    if "focal_temperature" in config:
        return check_refused(build / "focal", folder, work)
    size = config["vocab_size"]
    context = config.get("max_position_embeddings") or config.get("n_positions")
    count = min(48, context - GREEDY)
    ids = numpy.random.default_rng(7).integers(0, size, count).tolist()
    expected = focal.logits(folder, ids, size)
    greedy = focal.greedy(folder, ids, size)
    apart = distance(transformers_logits(folder, ids), expected)
    equal = equal_ids(transformers_greedy(folder, ids), greedy)
    good = apart < SAME and equal == GREEDY
    print(f"{folder}: {config['model_type']}, {count} tokens; transformers {apart:.1e} of the "
          f"largest logit, {equal} of {GREEDY} greedy ids", flush=True)
    good &= check_text(build, folder)
    for kind, most in ROUNDED.items():
        file = work / f"{kind}.gguf"
        export(build / "focal", folder, file, "--type", kind, "--force")
        own, own_greedy = focal.logits(file, ids, size), focal.greedy(file, ids, size)
        model = Llama(file)
        apart = distance(model.read(ids, 0), own)
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(model.context), True)
        equal = equal_ids(model.greedy(ids, GREEDY), own_greedy)
        model.close()
        fine = apart < most and (equal == GREEDY or kind != "f32")
        good &= fine
        print(f"  {kind:5} llama.cpp {apart:.1e} from focal on the same file, {equal} of {GREEDY} "
              f"greedy ids; focal {distance(own, expected):.1e} from the directory"
              f"{'' if fine else '  BAD'}", flush=True)
    return good


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1]).resolve()
    quiet = llama_cpp.llama_log_callback(lambda level, text, user: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    focal, good = Focal(build / "libfocal.so"), True
    for name in sys.argv[2:]:
        folder = pathlib.Path(name)
        folder = folder / "model" if (folder / "model" / "config.json").exists() else folder
        with tempfile.TemporaryDirectory() as work:
            good &= check_model(build, focal, folder, pathlib.Path(work))
    sys.exit(not good)


if __name__ == "__main__":
    main()
