#!/usr/bin/env python3
"""Writes tests/golden/backward: gradients of the tiny models of tests/golden/models.

For each model the loss of its golden ids, as two sequences of 30 and 18 tokens, averaged over the
targets, and of every parameter's gradient (float64, by PyTorch and transformers) four marks: two
sums with weights cos(0.7 n + 0.1) and sin(1.3 n), n counting elements as they lie in the file, the
sum of absolute values, and the norm. Parameters are in the order of their names as bytes.
Usage: tools/golden_backward.py; needs torch, transformers and safetensors.
"""
import pathlib
import struct

import torch
import transformers

import golden_models

SPANS = [(0, 30), (30, 18)]
ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden"


def marks(gradient):
    g = gradient.reshape(-1)
    n = torch.arange(g.numel(), dtype=torch.float64)
    return [(g * torch.cos(0.7 * n + 0.1)).sum().item(), (g * torch.sin(1.3 * n)).sum().item(),
            g.abs().sum().item(), g.norm().item()]


def gradients(name, row):
    folder = ROOT / "models" / name
    model = golden_models.reload(row, folder, "config_5.json")
    data = struct.unpack(f"<{golden_models.TOKENS}d",
                         (folder / "expected.bin").read_bytes()[:8 * golden_models.TOKENS])
    ids = torch.tensor([int(x) for x in data])
    count = sum(length - 1 for _, length in SPANS)
    loss = 0.0
    with golden_models.doubles():
        for start, length in SPANS:
            part = ids[start:start + length]
            logits = model(part[None], use_cache=False).logits[0]
            loss = loss + torch.nn.functional.cross_entropy(logits[:-1], part[1:],
                                                            reduction="sum") / count
    loss.backward()
    named = sorted(model.named_parameters(), key=lambda pair: pair[0].encode())
    return loss.item(), [mark for _, x in named for mark in marks(x.grad)]


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    lines, data = ["focal golden 1"], []
    for name, row in golden_models.MODELS.items():
        loss, values = gradients(name, row)
        lines += [f"case {name} {len(values) // 4}", f"tensor loss {len(data)} 1",
                  f"tensor marks {len(data) + 1} {len(values)}"]
        data += [loss, *values]
        print(f"{name:8} loss {loss:.4f}, {len(values) // 4} parameters")
    (ROOT / "backward.manifest").write_text("\n".join(lines) + "\n")
    (ROOT / "backward.bin").write_bytes(struct.pack(f"<{len(data)}d", *data))


if __name__ == "__main__":
    main()
