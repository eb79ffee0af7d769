#!/usr/bin/env python3
"""Makes an adapter directory of a router in numpy's format: Wk, Wq, ak, aq, C and b are P_k, P_q, a_k,
a_q, E and beta of docs/MATH.md, 3.1, for each layer and key head, and lt is that of (2.4).
Its tensors are written by the safetensors package, so focal's reader is tried on a file that focal did
not make.
Usage: golden_adapter.py ROUTER.npz OUT --base NAME --fingerprint HEX [--bf16] [--top K ...]
The fingerprint is what `focal info MODEL --json` prints; needs numpy, torch and safetensors.
"tiny" in the place of ROUTER.npz is a router for tests/golden/models/tiny.gguf whose numbers are
counted, so that a test can say them. tests/golden/adapters/tiny was made by
  golden_adapter.py tiny tests/golden/adapters/tiny --base tiny --fingerprint c6ecd68475ba6bbb
    --bf16 --top 2 --top-fit 1 --window 8 --sinks 2"""
import argparse
import json
import pathlib

import numpy
import safetensors.torch
import torch

# Names in the file, beside the arrays. In a file of bfloat16 those of ROUNDED are, the others are not.
NAMES = {"pk": "Wk", "pq": "Wq", "ak": "ak", "aq": "aq", "e": "C", "beta": "b"}
ROUNDED = {"pk", "pq"}


def tiny():
    """Two layers of width 64, 4 heads on 2; 4 groups, router width 8. Element n of array number a
    of a layer (in the order of NAMES, then lt) is ((37 n + 11 a + 5 layer) % 101 - 50) / 64, which
    is exact in bfloat16."""
    shapes = [(2, 2, 64, 8), (2, 2, 64, 8), (2, 2, 1, 8), (2, 2, 1, 8), (2, 2, 4, 8), (2, 2, 4), (2, 4)]
    made = {}
    for place, (name, shape) in enumerate(zip([*NAMES.values(), "lt"], shapes)):
        count = numpy.arange(numpy.prod(shape[1:]))
        rows = [(37 * count + 11 * place + 5 * layer) % 101 - 50 for layer in range(shape[0])]
        made[name] = (numpy.stack(rows) / 64).astype(numpy.float32).reshape(shape)
    return made


def tensor(array, name, is_bf16):
    made = torch.from_numpy(numpy.ascontiguousarray(array, dtype=numpy.float32))
    return made.to(torch.bfloat16) if is_bf16 and name in ROUNDED else made


def tensors(router, is_bf16):
    made = {}
    for layer in range(router["Wk"].shape[0]):
        place = f"base_model.model.layers.{layer}.self_attn."
        for name, array in NAMES.items():
            value = router[array][layer]
            if name in ("ak", "aq"):
                value = value[:, 0]  # (G, 1, R)
            made[f"{place}router.{name}"] = tensor(value, name, is_bf16)
        made[place + "log_temperature"] = tensor(router["lt"][layer], "lt", is_bf16)
    return made


def config(router, options):
    layers, key_heads, width, router_width = router["Wk"].shape
    return {
        "peft_type": "FOCUS",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": options.base,
        "inference_mode": True,
        "focal_version": options.version,
        "fingerprint": options.fingerprint,
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": router["lt"].shape[1],
        "num_key_value_heads": key_heads,
        "groups": router["C"].shape[2],
        "router_width": router_width,
        "scope": "kv",
        "mode": "directed",
        "router_form": "unit",
        "top": options.top,
        "top_fit": options.top_fit,
        "window": options.window,
        "sinks": options.sinks,
        "layers": list(range(layers)),
        "has_temperatures": True,
        "causal": True,
        "fit": {"source": pathlib.Path(options.router).name},
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("router")
    parser.add_argument("out")
    parser.add_argument("--base", required=True)
    parser.add_argument("--fingerprint", required=True)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--version", default="0.1.0")
    for name, number in (("top", 4), ("top-fit", 2), ("window", 128), ("sinks", 4)):
        parser.add_argument("--" + name, type=int, default=number)
    options = parser.parse_args()
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    router = tiny() if options.router == "tiny" else dict(numpy.load(options.router))
    safetensors.torch.save_file(tensors(router, options.bf16), out / "adapter_model.safetensors",
                                metadata={"format": "pt"})
    (out / "adapter_model.safetensors").chmod(0o644)  # the package keeps it to its owner
    (out / "adapter_config.json").write_text(json.dumps(config(router, options), indent=2) + "\n")


if __name__ == "__main__":
    main()
