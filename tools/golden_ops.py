#!/usr/bin/env python3
"""Writes the golden vectors of the small operations: tests/golden/ops.manifest and ops.bin.

Inputs are float32 numbers. A result `out` is float64, computed by PyTorch from docs/MATH.md, 4, or
by PyTorch's own function; a result `model` is float32 as transformers' modules compute it, which is
what focal must agree with to rounding. Usage: tools/golden_ops.py [FOLDER]
"""
import pathlib
import struct
import sys

import torch
import torch.nn.functional as F
from transformers import GPTNeoXConfig, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.cohere import modeling_cohere
from transformers.models.gemma2.modeling_gemma2 import Gemma2RMSNorm
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.llama import modeling_llama

torch.set_num_threads(1)
torch.set_grad_enabled(False)


class Golden:
    """Cases with parameters and tensors, in the form that tests/support/golden.c reads."""

    def __init__(self):
        self.lines, self.data = ["focal golden 1"], []

    def add(self, name, parameters, **tensors):
        self.lines.append(f"case {name} " + " ".join(repr(float(x)) for x in parameters))
        for tensor, x in tensors.items():
            x = torch.as_tensor(x).double().reshape(-1).tolist()
            self.lines.append(f"tensor {tensor} {len(self.data)} {len(x)}")
            self.data += x

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ops.manifest").write_text("\n".join(self.lines) + "\n")
        (folder / "ops.bin").write_bytes(struct.pack(f"<{len(self.data)}d", *self.data))


def norm(golden, name, seed, kind, rows, width, offset, weighted, biased, epsilon, spread=1.0):
    """kind 0: RMSNorm, 1: LayerNorm."""
    torch.manual_seed(seed)
    x = spread * torch.randn(rows, width) + (2.0 if kind else 0.0)
    w = torch.randn(width) * 0.5 + (1.0 - offset) if weighted else None
    b = torch.randn(width) if biased else None
    wide = x.double()
    if kind:
        module = torch.nn.LayerNorm(width, eps=epsilon)
        out = F.layer_norm(wide, (width,), None if w is None else w.double(),
                           None if b is None else b.double(), epsilon)
        module.bias.data = torch.zeros(width) if b is None else b
    else:
        module = (Gemma2RMSNorm if offset else modeling_llama.LlamaRMSNorm)(width, eps=epsilon)
        out = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
        out = out if w is None else out * (offset + w.double())
    module.weight.data = torch.ones(width) - offset if w is None else w
    tensors = dict(x=x, out=out, model=module(x))
    if weighted:
        tensors.update(weight=w)
    if biased:
        tensors.update(bias=b)
    golden.add(name, [kind, rows, width, offset, epsilon], **tensors)


KINDS = {"default": 0, "linear": 1, "llama3": 2, "yarn": 3}


def table(golden, name, rotated, **rope):
    """Frequencies and the attention factor of transformers."""
    kind = rope.get("rope_type", "default")
    config = LlamaConfig(hidden_size=4 * rotated, num_attention_heads=4, head_dim=rotated,
                         max_position_embeddings=131072, rope_parameters={"rope_type": kind, **rope})
    make = (modeling_llama.LlamaRotaryEmbedding.compute_default_rope_parameters
            if kind == "default" else ROPE_INIT_FUNCTIONS[kind])
    inv_freq, attention = make(config)
    fields = ["factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor",
              "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "attention_factor"]
    golden.add(name, [rotated, KINDS[kind], rope["rope_theta"], not rope.get("truncate", True),
                      *[rope.get(field) or 0.0 for field in fields]],
               inv_freq=inv_freq, attention=[attention])


POSITIONS = [0, 1, 2, 17, 511, 8191, 65535, 131071, 1000000]


def rotation(golden, name, seed, style, H, D, part, base):
    """style 0: halves, 1: pairs. cos and sin are those of the models' own classes, in float32."""
    torch.manual_seed(seed)
    rotated = int(D * part)
    positions = torch.tensor([POSITIONS])
    config = GPTNeoXConfig(hidden_size=H * D, num_attention_heads=H,
                           rope_parameters={"rope_type": "default", "rope_theta": base,
                                            "partial_rotary_factor": part})
    embedding = modeling_gpt_neox.GPTNeoXRotaryEmbedding(config)
    x = torch.randn(1, len(POSITIONS), H, D)
    cos, sin = embedding(x, positions)
    pairs = rotated // 2
    if style:
        cos, sin = (t[..., :pairs].repeat_interleave(2, -1) for t in (cos, sin))
    module = modeling_cohere if style else modeling_gpt_neox
    model, _ = module.apply_rotary_pos_emb(x, x, cos, sin, unsqueeze_dim=2)
    inv_freq = embedding.inv_freq
    # The same in float64, from the float32 angle.
    angle = (positions[0, :, None].float() * inv_freq).double()
    c, s = angle.cos()[:, None], angle.sin()[:, None]
    wide = x[0].double()
    i = torch.arange(pairs) * 2 if style else torch.arange(pairs)
    j = i + 1 if style else i + pairs
    out = wide.clone()
    out[..., i] = wide[..., i] * c - wide[..., j] * s
    out[..., j] = wide[..., j] * c + wide[..., i] * s
    golden.add(name, [style, len(POSITIONS), H, D, rotated, base], positions=POSITIONS,
               inv_freq=inv_freq, cos=cos[0, :, ::2] if style else cos[0, :, :pairs],
               sin=sin[0, :, ::2] if style else sin[0, :, :pairs], x=x, model=model, out=out)


def activations(golden):
    torch.manual_seed(31)
    grid = torch.cat([torch.linspace(-12, 12, 97), torch.randn(31),
                      torch.tensor([1e-30, -1e-30, 1e-8, -1e-8, 80.0, -80.0, 3e4, -3e4])])
    up = torch.randn(grid.numel())
    functions = {"silu": F.silu, "gelu": F.gelu,
                 "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}
    for number, (name, f) in enumerate(functions.items()):
        # F.gelu's float64 loses the left tail to 1 + erf; erfc and the logistic function do not.
        wide = grid.double()
        exact = (f(wide), 0.5 * wide * torch.erfc(-wide * 0.5**0.5),
                 wide * torch.sigmoid(2 * (2 / torch.pi)**0.5 * (wide + 0.044715 * wide**3)))[number]
        golden.add(f"activation_{name}", [number, grid.numel()], x=grid, up=up, out=exact,
                   gated=exact * up.double(), model=f(grid))


def loss(golden, name, seed, T, V, spread, top):
    torch.manual_seed(seed)
    logits = spread * torch.randn(T, V)
    targets = torch.randint(V, (T,))
    log_probs = torch.log_softmax(logits.double(), -1)
    nll = F.cross_entropy(logits.double(), targets, reduction="none")
    best = log_probs.topk(top, dim=-1)
    cap = 5.0
    golden.add(name, [T, V, top, cap], logits=logits, targets=targets, nll=nll,
               lse=torch.logsumexp(logits.double(), -1), log_probs=log_probs,
               model=torch.log_softmax(logits, -1), ids=best.indices, top=best.values,
               capped=cap * torch.tanh(logits.double() / cap),
               capped_model=cap * torch.tanh(logits / cap))


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
    golden = Golden()
    norm(golden, "norm_rms", 1, 0, 3, 37, 0, True, False, 1e-5)
    norm(golden, "norm_rms_bare", 2, 0, 2, 16, 0, False, False, 1e-6, 0.01)
    norm(golden, "norm_gemma", 3, 0, 3, 24, 1, True, False, 1e-6, 30.0)
    norm(golden, "norm_layer", 4, 1, 3, 33, 0, True, True, 1e-5)
    norm(golden, "norm_layer_bare", 5, 1, 2, 20, 0, False, False, 1e-5, 0.1)
    table(golden, "table_plain", 64, rope_theta=1e5)
    table(golden, "table_wide", 256, rope_theta=1e6)
    table(golden, "table_odd", 80, rope_theta=1e4)
    table(golden, "table_linear", 128, rope_type="linear", rope_theta=1e6, factor=8.0)
    table(golden, "table_llama3", 64, rope_type="llama3", rope_theta=5e5, factor=32.0,
          low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
    table(golden, "table_llama3_wide", 128, rope_type="llama3", rope_theta=5e5, factor=8.0,
          low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
    table(golden, "table_yarn", 128, rope_type="yarn", rope_theta=1e6, factor=4.0,
          original_max_position_embeddings=32768)
    table(golden, "table_yarn_mscale", 64, rope_type="yarn", rope_theta=1e4, factor=40.0,
          original_max_position_embeddings=4096, beta_fast=32.0, beta_slow=1.0, mscale=0.707,
          mscale_all_dim=1.0)
    table(golden, "table_yarn_untruncated", 64, rope_type="yarn", rope_theta=150000.0, factor=32.0,
          original_max_position_embeddings=4096, beta_fast=32.0, beta_slow=1.0, truncate=False)
    table(golden, "table_yarn_given", 96, rope_type="yarn", rope_theta=1e4, factor=16.0,
          original_max_position_embeddings=8192, beta_fast=24.0, beta_slow=2.0,
          attention_factor=1.25)
    table(golden, "table_yarn_short", 16, rope_type="yarn", rope_theta=1e4, factor=0.5,
          original_max_position_embeddings=16)
    rotation(golden, "rope_halves", 11, 0, 2, 16, 1.0, 1e4)
    rotation(golden, "rope_pairs", 12, 1, 2, 12, 1.0, 1e5)
    rotation(golden, "rope_partial", 13, 0, 2, 20, 0.5, 1e4)
    activations(golden)
    loss(golden, "loss_small", 21, 5, 7, 2.0, 7)
    loss(golden, "loss_wide", 22, 3, 301, 8.0, 10)
    golden.write(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default)


if __name__ == "__main__":
    main()
