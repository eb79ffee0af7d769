#!/usr/bin/env python3
"""Shows that what `focal export` writes loads elsewhere and computes the same there.

Tiny models of every family (tests/golden/models): each is exported to GGUF and from there back to a
directory. The directory's logits in transformers and the GGUF file's in llama.cpp are compared with
those that transformers gives for the original. A real model, when its GGUF file is given: exported
to a directory (prompt and greedy ids in transformers against llama.cpp on the original) and to every
type of GGUF (prompt ids in llama.cpp; loss and greedy ids there, on the file expanded to float32,
against focal's on the file itself; and the loss on the file itself).
Usage: tools/check_export.py FOCAL [MODEL.gguf [TYPE...]]; needs torch, transformers and llama-cpp-python.
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
TEXT = """Bees are flying insects closely related to wasps and ants, known for their role in
pollination and, in the case of the best-known bee species, for producing honey. Some species live
socially in colonies, while most are solitary. Bees are found on every continent except Antarctica,
in every habitat on the planet that contains insect-pollinated flowering plants."""
TOKENS = 24  # fewer than the smallest context
# transformers in float32 against itself through our files: the same numbers but for the order of
# sums. llama.cpp has another order, too, and a table of float16 for gelu: the families with gelu are
# the ones that are farther than 2e-6.
SAME, NEAR = 1e-6, 2e-3
# On a file expanded to float32 llama.cpp computes what focal computes on the file itself: nats a token.
LOSS = 2e-4
# On the file itself it rounds what a matrix reads: to 8 bits for quantised ones (in blocks of 32, of
# 256 before K types), to float16 or bfloat16 for those. (transformers with these roundings as hooks
# moves as far: q4_0 by 0.0062 nats a token for llama.cpp's 0.0054.) The loss of a token moves at
# random, so the mean of n tokens stays within a few times the spread over sqrt(n) of the expanded
# file's; a wrong scale or a wrong matrix moves all tokens one way.
SPREADS = 4.0
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


def losses_of(rows, ids):
    """Nats of each id behind the first."""
    rows = torch.from_numpy(rows[:-1])
    return torch.nn.functional.cross_entropy(rows, torch.tensor(ids[1:]), reduction="none").double()


def loss_of(rows, ids):
    return losses_of(rows, ids).mean().item()


def focal_greedy(focal, path, count):
    out = subprocess.run([focal, "generate", "-m", path, "-p", PROMPT, "-n", str(count), "--temp",
                          "0", "--precision", "f32", "--json"], check=True, capture_output=True)
    return json.loads(out.stdout)["ids"]


def focal_loss(focal, path, work):
    (work / "text").write_text(TEXT)
    out = subprocess.run([focal, "eval", "ppl", "-m", path, "-f", work / "text", "-c", "256",
                          "--precision", "f32", "--json"], check=True, capture_output=True)
    return json.loads(out.stdout)["loss"]


def equal_ids(got, expected):
    return next((n for n, pair in enumerate(zip(got, expected)) if pair[0] != pair[1]), len(got))


def check_directory(focal, path, ids, expected, work):
    export(focal, path, work / "real")
    tokenizer = transformers.AutoTokenizer.from_pretrained(work / "real")
    own = tokenizer(PROMPT)["input_ids"]
    hf = transformers.AutoModelForCausalLM.from_pretrained(work / "real", dtype=torch.float32).eval()
    with torch.no_grad():
        out = hf.generate(torch.tensor([ids]), max_new_tokens=len(expected), do_sample=False)
    got = out[0, len(ids):].tolist()
    print(f"directory  transformers: prompt ids {'equal' if own == ids else own}, "
          f"{equal_ids(got, expected)} of {len(got)} greedy ids as llama.cpp on the original: "
          f"{tokenizer.decode(got)!r}", flush=True)
    return own == ids and equal_ids(got, expected) == len(got)


def check_type(focal, file, ids, text_ids, work):
    """A file in llama.cpp: its vocabulary; expanded, focal's loss and greedy ids; and its own loss."""
    model = Llama(file)
    own, losses = model.tokenize(PROMPT), losses_of(model.read(text_ids, 0), text_ids)
    model.close()
    expanded = work / "expanded.gguf"
    export(focal, file, expanded, "--type", "f32")
    model = Llama(expanded)
    exact = losses_of(model.read(text_ids, 0), text_ids)
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(model.context), True)
    greedy = model.greedy(ids, 12)
    model.close()
    expanded.unlink()
    apart = abs(exact.mean().item() - focal_loss(focal, file, work))
    equal = equal_ids(greedy, focal_greedy(focal, file, 12))
    moved = losses - exact
    mean, error = moved.mean().item(), moved.std().item() / len(moved) ** 0.5
    good = own == ids and apart < LOSS and equal == 12 and abs(mean) <= SPREADS * error + LOSS
    print(f"{file.stem:7} {file.stat().st_size / 1e6:8.1f} MB  llama.cpp: prompt ids "
          f"{'equal' if own == ids else own}; expanded: loss {exact.mean().item():.4f}, {apart:.0e} from "
          f"focal's, {equal} of 12 greedy ids; as it is: loss {mean:+.4f}, expected within "
          f"{SPREADS * error:.4f}  {'good' if good else 'BAD'}", flush=True)
    return good


def check_real(focal, path, kinds, work):
    model = Llama(path)
    ids, text_ids = model.tokenize(PROMPT), model.tokenize(TEXT)
    loss = loss_of(model.read(text_ids, 0), text_ids)
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(model.context), True)
    expected = model.greedy(ids, 12)
    model.close()
    print(f"{path.name}: loss {loss:.4f} (focal {focal_loss(focal, path, work):.4f}), "
          f"{ids} -> {expected}", flush=True)
    good = check_directory(focal, path, ids, expected, work)
    export(focal, work / "real", work / "again.gguf", "--type", "bf16")
    shutil.rmtree(work / "real")
    for kind in ["again", *kinds]:
        file = work / f"{kind}.gguf"
        if kind != "again":
            export(focal, path, file, "--type", kind)
        good &= check_type(focal, file, ids, text_ids, work)
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
            good &= check_real(focal, pathlib.Path(sys.argv[2]), sys.argv[3:] or TYPES,
                               pathlib.Path(work))
    sys.exit(not good)


if __name__ == "__main__":
    main()
