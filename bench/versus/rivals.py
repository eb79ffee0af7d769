#!/usr/bin/env python3
"""A rival of focal in a process of its own: it opens a model, then measures what it is asked for.

    rivals.py llama|transformers --model FILE.gguf -t THREADS --context TOKENS [--ubatch N,N...]
    rivals.py llama ... --first TEXT-FILE

Each line of standard input is a question in JSON, {"kind": "pp", "count": 512, "depth": 0}: a
prompt of 512 tokens at once ("tg": one after the other) behind depth others. A line answers it:
{"ts": tokens a second, "peak_mb": most memory so far, "python_mb": memory before the model}. The
first line says who is there. Between questions the process sleeps in a read.

--first reads a text, writes one token and ends; the time begins when the library is loaded, so that
Python's own start is not in it. Whatever else is printed goes to standard error. Needs the package
llama-cpp-python, or torch, transformers, accelerate and gguf.
"""
import argparse
import ctypes
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import random
import sys
import time
import types

import torch_cpu


def memory_mb(field):
    """VmHWM, the most memory of this process so far, or VmRSS, what it has now."""
    for line in pathlib.Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


class Llama:
    """llama.cpp by its C functions alone: one context, one sequence, as llama-bench calls them."""

    def __init__(self, options):
        api = self.api = load_llama()
        self.python_mb = memory_mb("VmRSS")
        self.loaded = time.perf_counter()
        self.silent = api.llama_log_callback(lambda level, text, user: None)
        api.llama_log_set(self.silent, None)
        api.llama_backend_init()
        self.model = api.llama_model_load_from_file(options.model.encode(),
                                                    model_params(api, options.load))
        if not self.model:
            sys.exit(f"rivals.py: llama.cpp cannot open {options.model}")
        self.vocab = api.llama_model_get_vocab(self.model)
        self.words = api.llama_vocab_n_tokens(self.vocab)
        self.options, self.context = options, None
        sizes = [int(size) for size in options.ubatch.split(",")]
        self.ubatch = sizes[0]
        if len(sizes) > 1:
            self.ubatch = max(sizes, key=self.try_ubatch)
        self.open_context(self.ubatch)
        version = importlib.metadata.version("llama-cpp-python")
        self.name = f"llama-cpp-python {version}, flash attention, n_ubatch {self.ubatch}"

    def open_context(self, ubatch):
        api = self.api
        if self.context:
            api.llama_free(self.context)
        params = api.llama_context_default_params()
        params.n_ctx = -(-self.options.context // 256) * 256
        params.n_batch = params.n_ubatch = min(ubatch, params.n_ctx)
        params.n_threads = params.n_threads_batch = self.options.threads
        params.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_ENABLED
        self.context = api.llama_init_from_model(self.model, params)
        if not self.context:
            sys.exit("rivals.py: llama.cpp cannot make a context")
        self.batch, self.length = params.n_batch, 0

    def try_ubatch(self, ubatch):
        """Tokens a second of a prompt with batches of that size."""
        count = min(2048, self.options.context)
        self.open_context(ubatch)
        self.read(32)  # touches the weights
        self.truncate(0)
        begin = time.perf_counter()
        self.read(count)
        return count / (time.perf_counter() - begin)

    def truncate(self, length):
        self.api.llama_memory_seq_rm(self.api.llama_get_memory(self.context), 0, length, -1)
        self.length = min(self.length, length)

    def decode(self, ids):
        api = self.api
        array = (api.llama_token * len(ids))(*ids)
        for start in range(0, len(ids), self.batch):
            count = min(self.batch, len(ids) - start)
            offset = start * ctypes.sizeof(api.llama_token)
            part = (api.llama_token * count).from_buffer(array, offset)
            if api.llama_decode(self.context, api.llama_batch_get_one(part, count)):
                sys.exit("rivals.py: llama_decode failed")
        api.llama_synchronize(self.context)
        self.length += len(ids)

    def read(self, count):
        self.decode([random.randrange(self.words) for _ in range(count)])

    def first(self, path):
        """Tokens of the prompt, and seconds until one more is there."""
        api, text = self.api, pathlib.Path(path).read_bytes()
        ids = (api.llama_token * (len(text) + 8))()
        count = api.llama_tokenize(self.vocab, text, len(text), ids, len(ids), True, False)
        self.decode(ids[:count])
        token = api.llama_sampler_sample(api.llama_sampler_init_greedy(), self.context, -1)
        assert 0 <= token < self.words
        return {"prompt_tokens": count, "seconds": time.perf_counter() - self.loaded}


def model_params(api, load):
    """The defaults, or with the file read into memory instead of mapped."""
    params = api.llama_model_default_params()
    if load == "read" and hasattr(params, "use_mmap"):
        params.use_mmap = False
    elif load == "read":
        params.load_mode = api.LLAMA_LOAD_MODE_NONE
    return params


def load_llama():
    """The package's C functions without the rest of it, which would bring numpy and more along."""
    spec = importlib.util.find_spec("llama_cpp")
    if not spec:
        sys.exit("rivals.py: the package llama-cpp-python is missing")
    package = types.ModuleType("llama_cpp")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["llama_cpp"] = package
    import llama_cpp.llama_cpp as api
    if not hasattr(api, "LLAMA_FLASH_ATTN_TYPE_ENABLED"):
        sys.exit("rivals.py: this llama-cpp-python is too old; 0.3.17 or later is needed")
    return api


class Transformers:
    """transformers in bfloat16 with scaled_dot_product_attention, a prompt in one pass."""

    def __init__(self, options):
        os.environ["HF_HUB_OFFLINE"] = "1"
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        os.environ["TQDM_DISABLE"] = "1"
        limit = torch_cpu.make_safe()
        import torch
        import transformers
        self.torch, self.transformers = torch, transformers
        transformers.logging.set_verbosity_error()
        torch.set_num_threads(options.threads)
        self.python_mb = memory_mb("VmRSS")
        path = pathlib.Path(options.model).resolve()
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.bfloat16, attn_implementation="sdpa")
        self.model.eval()
        self.truncate(0)
        self.name = (f"transformers {transformers.__version__}, torch {torch.__version__}, sdpa"
                     f"{limit}")

    def truncate(self, length):
        if length == 0:
            self.cache, self.length = self.transformers.DynamicCache(), 0
        elif length < self.length:
            self.cache.crop(length - self.length)
            self.length = length

    def read(self, count):
        ids = self.torch.randint(self.model.config.vocab_size, (1, count))
        with self.torch.inference_mode():
            self.model(ids, past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        self.length += count


def measure(rival, kind, count, depth):
    """Tokens a second. What earlier questions left in the cache serves as depth."""
    rival.truncate(depth)
    if rival.length < depth:
        rival.read(depth - rival.length)
    step = count if kind == "pp" else 1
    begin = time.perf_counter()
    for _ in range(0, count, step):
        rival.read(step)
    seconds = time.perf_counter() - begin
    assert rival.length == depth + count
    return count / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rival", choices=["llama", "transformers"])
    parser.add_argument("--model", required=True)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=8448)
    parser.add_argument("--ubatch", default="512", help="sizes to try; the fastest is kept")
    parser.add_argument("--load", default="map", choices=["map", "read"])
    parser.add_argument("--first", metavar="FILE", help="time to the first token behind this text")
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(row):
        print(json.dumps(row), file=answers, flush=True)

    rival = (Llama if options.rival == "llama" else Transformers)(options)
    if options.first:
        answer(rival.first(options.first))
        return
    rival.read(32)
    answer({"name": rival.name, "ubatch": getattr(rival, "ubatch", None)})
    for line in sys.stdin:
        speed = measure(rival, **json.loads(line))
        answer({"ts": speed, "peak_mb": memory_mb("VmHWM"), "python_mb": rival.python_mb})


if __name__ == "__main__":
    main()
