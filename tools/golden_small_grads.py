#!/usr/bin/env python3
"""Writes golden gradients of the small operations: tests/golden/small_grads.manifest and .bin.

Inputs are float32 numbers; gradients are float64, by PyTorch's autograd through its own functions or
through docs/MATH.md, 2 and 4. Gradients of parameters are the sums that get added to what is there.
Usage: tools/golden_small_grads.py [FOLDER]
"""
import math
import pathlib
import struct
import sys

import torch
import torch.nn.functional as F

torch.set_num_threads(1)


class Golden:
    """Cases with parameters and tensors, in the form that tests/support/golden.c reads."""

    def __init__(self):
        self.lines, self.data = ["focal golden 1"], []

    def add(self, name, parameters, **tensors):
        self.lines.append(f"case {name} " + " ".join(repr(float(x)) for x in parameters))
        for tensor, x in tensors.items():
            x = torch.as_tensor(x).detach().double().reshape(-1).tolist()
            self.lines.append(f"tensor {tensor} {len(self.data)} {len(x)}")
            self.data += x

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "small_grads.manifest").write_text("\n".join(self.lines) + "\n")
        (folder / "small_grads.bin").write_bytes(struct.pack(f"<{len(self.data)}d", *self.data))


def leaf(x):
    """The float32 numbers of x as doubles that want a gradient."""
    return x.float().double().requires_grad_()


def norm(golden, name, seed, kind, rows, width, offset, weighted, biased, epsilon):
    """kind 0: RMSNorm, 1: LayerNorm."""
    torch.manual_seed(seed)
    x = leaf(3 * torch.randn(rows, width) + 1)
    w = leaf(torch.randn(width)) if weighted else None
    b = leaf(torch.randn(width)) if biased else None
    dy = torch.randn(rows, width)
    scale = None if w is None else w + offset
    out = (F.layer_norm(x, (width,), scale, b, epsilon) if kind
           else F.rms_norm(x, (width,), scale, epsilon))
    out.backward(dy.double())
    tensors = dict(x=x, dy=dy, dx=x.grad)
    if weighted:
        tensors.update(weight=w, dweight=w.grad)
    if biased:
        tensors.update(bias=b, dbias=b.grad)
    golden.add(name, [kind, rows, width, offset, epsilon], **tensors)


def gates(golden):
    torch.manual_seed(5)
    values = torch.cat([torch.linspace(-12, 12, 97), torch.randn(31),
                        torch.tensor([0.0, 1e-30, -1e-30, 80.0, -80.0, 3e4, -3e4])])
    functions = {"silu": F.silu, "gelu": F.gelu,
                 "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}
    for number, (name, f) in enumerate(functions.items()):
        gate, up = leaf(values), leaf(torch.randn(values.numel()))
        dout = torch.randn(values.numel())
        (f(gate) * up).backward(dout.double())
        golden.add(f"gate_{name}", [number, values.numel()], gate=gate, up=up, dout=dout,
                   dgate=gate.grad, dup=up.grad)


def rope(golden, name, seed, style, T, H, D, rotated, scale, per_head):
    """q -> q' = factor * scale * rotated q; dots are q' . dq'."""
    torch.manual_seed(seed)
    pairs = rotated // 2
    angle = torch.arange(T)[:, None] * 10.0 ** (-4 * torch.arange(pairs) / pairs)
    cos, sin = angle.cos().float(), angle.sin().float()
    q = leaf(torch.randn(T, H, D))
    factors = torch.rand(T, H) + 0.5 if per_head else torch.rand(T, 1) + 0.5
    c, s = cos.double()[:, None], sin.double()[:, None]
    i = torch.arange(pairs) * 2 if style else torch.arange(pairs)
    j = i + 1 if style else i + pairs
    turned = q.clone()
    turned[..., i] = q[..., i] * c - q[..., j] * s
    turned[..., j] = q[..., j] * c + q[..., i] * s
    scale = torch.tensor(scale).double()
    out = turned * scale * factors.double()[..., None]
    dout = torch.randn(T, H, D)
    out.backward(dout.double())
    golden.add(name, [style, T, H, D, rotated, per_head, float(scale)], cos=cos, sin=sin, x=q,
               factors=factors, out=out, dout=dout, dx=q.grad,
               dots=(out.detach() * dout.double()).sum(-1))


def temperature(golden, name, seed, kind, heads, T=11, H=3, C=7, D=16, starts=(0, 4, 11), bias=0.6):
    """kind 0: constant, 1: learned, 2: learned-paper, 3: per head, 4: length. The loss is any
    function of q'; what the temperature's gradient needs of it is dots = q' . dq'."""
    torch.manual_seed(seed)
    root = math.sqrt(D)
    h, u = leaf(torch.randn(T, C)), leaf(0.3 * torch.randn(C))
    a, lt = leaf(torch.tensor([bias])), leaf(0.3 * torch.randn(H))
    mask = torch.tensor(heads, dtype=torch.bool)
    positions = torch.cat([torch.arange(n) for n in torch.tensor(starts).diff()]) * 5
    clip = lambda x, low, high: x + (x.clamp(low, high) - x).detach()
    if kind == 1:
        tau = root * clip(h @ u + a, 0.2, 1.2)[:, None].expand(T, H)
    elif kind == 2:
        # at other bounds than the default ones, so that a mean falls between them
        mean = torch.cat([(h[i:j] @ u).mean().expand(j - i) for i, j in zip(starts, starts[1:])])
        tau = clip(mean, 0.05, 0.5)[:, None].expand(T, H)
    elif kind == 3:
        tau = root * lt.exp()[None].expand(T, H)
    else:
        t = torch.tensor(0.4).double()
        if kind == 4:
            t = t / (1 + 0.1 * torch.log(torch.clamp((positions.double() + 1) / 8, min=1)))[:, None]
        tau = root * t.expand(T, H)
    tau = torch.where(mask[None], tau, torch.tensor(root).double())
    q = leaf(torch.randn(T, H, D))
    out = q / tau[..., None]
    loss = (out * torch.randn(T, H, D).double()).sum() + (out ** 3).sum() / 10
    (dout,) = torch.autograd.grad(loss, out, retain_graph=True)
    loss.backward()
    zero = lambda x: torch.zeros_like(x) if x.grad is None else x.grad
    golden.add(name, [kind, T, H, C, root, len(starts) - 1], h=h, u=u, a=a, lt=lt, heads=heads,
               positions=positions, starts=torch.tensor(starts), factors=1 / tau,
               dots=(out * dout).sum(-1), dh=zero(h), du=zero(u), da=zero(a), dlt=zero(lt))


def embed(golden):
    torch.manual_seed(9)
    V, C, T = 6, 5, 9
    ids = torch.tensor([3, 0, 3, 5, 3, 0, 1, 5, 3])
    table, dx = leaf(torch.randn(V, C)), torch.randn(T, C)
    (F.embedding(ids, table) * 2.5).backward(dx.double())
    golden.add("embed", [V, C, T, 2.5], ids=ids, dx=dx, dtable=table.grad)


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
    golden = Golden()
    norm(golden, "norm_rms", 1, 0, 5, 19, 0, True, False, 1e-5)
    norm(golden, "norm_rms_bare", 2, 0, 3, 16, 0, False, False, 1e-6)
    norm(golden, "norm_gemma", 3, 0, 4, 24, 1, True, False, 1e-6)
    norm(golden, "norm_layer", 4, 1, 5, 33, 0, True, True, 1e-5)
    norm(golden, "norm_layer_bare", 5, 1, 3, 20, 0, False, False, 0.5)
    gates(golden)
    rope(golden, "rope_halves", 11, 0, 5, 2, 16, 16, 0.25, False)
    rope(golden, "rope_pairs", 12, 1, 4, 3, 12, 12, 1.0, True)
    rope(golden, "rope_partial", 13, 0, 5, 2, 20, 10, 0.5, True)
    every, some = [1, 1, 1], [0, 1, 1]
    temperature(golden, "temperature_constant", 21, 0, some)
    temperature(golden, "temperature_learned", 22, 1, every)
    temperature(golden, "temperature_learned_some", 23, 1, some, bias=0.9)
    temperature(golden, "temperature_paper", 24, 2, every)
    temperature(golden, "temperature_paper_some", 25, 2, some)
    temperature(golden, "temperature_per_head", 26, 3, every)
    temperature(golden, "temperature_per_head_some", 27, 3, some)
    temperature(golden, "temperature_length", 28, 4, every)
    embed(golden)
    golden.write(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default)


if __name__ == "__main__":
    main()
