#!/usr/bin/env python3
"""Steps of training beside PyTorch: the same model, the same tokens a step, by turns.

    train_pytorch.py --focal PROGRAM [-t THREADS] [--dtype bf16|f32] [--rounds N] [--no-compile] [--json]

The model is that of `focal bench train`: Qwen3's layers, query-key norm without gain, tied embedding,
AdamW with decay, gradients clipped at 1. PyTorch runs it as it is fastest here: eager or compiled, its
own causal attention, fused AdamW, and beside focal in bf16 with autocast around float32 weights or without; every
way is timed and the best one counts. A way that needs more than 5 times as long as the best so far is left out: on
processors without bfloat16, autocast takes minutes a step. Prints tokens a second of both, the ratio, and the most memory that each process had, PyTorch's in one of its own that
runs nothing but the best way; needs torch.
"""
import argparse
import json
import signal
import statistics
import subprocess
import sys
import time

import torch_cpu

torch_cpu.make_safe()
import torch
from torch import nn
from torch.nn import functional as F

SHAPE = dict(layers=8, width=512, ffn=1408, vocab=16384, heads=8, length=512, batch=4)


class Block(nn.Module):
    def __init__(self, width, ffn, heads):
        super().__init__()
        self.heads, self.dim = heads, width // heads
        self.norms = nn.ModuleList([nn.RMSNorm(width, eps=1e-6) for _ in range(2)])
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, ffn, bias=False) for _ in range(2))
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, x, cos, sin):
        B, T, C = x.shape
        h = self.norms[0](x)
        q, k, v = (p(h).view(B, T, self.heads, self.dim).transpose(1, 2)
                   for p in (self.q, self.k, self.v))
        q, k = (F.rms_norm(y.float(), (self.dim,), eps=1e-6) for y in (q, k))
        q, k = (y * cos + torch.cat((-y[..., self.dim // 2:], y[..., :self.dim // 2]), -1) * sin
                for y in (q, k))
        a = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(B, T, C))
        h = self.norms[1](x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self, layers, width, ffn, vocab, heads, length, batch):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList([Block(width, ffn, heads) for _ in range(layers)])
        self.norm = nn.RMSNorm(width, eps=1e-6)
        dim = width // heads
        angles = torch.outer(torch.arange(length).float(),
                             10000.0 ** (-torch.arange(0, dim, 2).float() / dim))
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, targets):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = F.linear(self.norm(x), self.embed.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class Rival:
    def __init__(self, dtype, compiles):
        torch.manual_seed(1)
        self.name = f"{'compiled' if compiles else 'eager'} {dtype}"
        self.dtype = dtype
        self.model = Model(**SHAPE)
        self.step_model = torch.compile(self.model) if compiles else self.model
        matrices = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() <= 1]
        self.optimiser = torch.optim.AdamW([dict(params=matrices, weight_decay=0.1),
                                            dict(params=others, weight_decay=0.0)],
                                           lr=1e-3, betas=(0.9, 0.95), fused=True)
        size = (SHAPE["batch"], SHAPE["length"])
        self.ids = torch.randint(SHAPE["vocab"], size)
        self.targets = torch.randint(SHAPE["vocab"], size)

    def step(self):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.dtype == "bf16"):
            loss = self.step_model(self.ids, self.targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def rate(self, steps):
        start = time.perf_counter()
        for _ in range(steps):
            self.step()
        return steps * SHAPE["batch"] * SHAPE["length"] / (time.perf_counter() - start)


class TooSlow(Exception):
    pass


def give_up(_signal, _frame):
    raise TooSlow


def is_fast_enough(rival, best):
    """Warms a rival up; best has the least seconds of a step of those before, or nothing."""
    print(f"train_pytorch.py: warming {rival.name}", file=sys.stderr)
    try:
        if best:  # compiling takes a minute by itself
            signal.setitimer(signal.ITIMER_REAL, 10 * min(best) + 180)
        rival.step()
        start = time.perf_counter()
        if best:
            signal.setitimer(signal.ITIMER_REAL, 5 * min(best))
        rival.step()
        best.append(time.perf_counter() - start)
        return True
    except TooSlow:
        print(f"train_pytorch.py: {rival.name} is too slow, left out", file=sys.stderr)
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def focal_row(program, dtype, threads, steps):
    shape = [word for key, value in SHAPE.items() for word in (f"--{key}", str(value))]
    command = [program, "bench", "train", *shape, "--dtype", dtype, "-t", str(threads), "--runs",
               str(steps), "--seconds", "0", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def peak_bytes():
    """Of this process; getrusage would say what the one had that started it."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def print_peak(way):
    """What a process of its own says of a way of PyTorch: the memory after loading torch, and the most."""
    before = peak_bytes()
    rival = Rival(way.split()[1], way.startswith("compiled"))
    rival.rate(3)
    print(json.dumps([before, peak_bytes()]))


def torch_peak(way, o):
    command = [sys.executable, __file__, "--focal", o.focal, "-t", str(o.threads), "--dtype", o.dtype,
               "--peak-of", way]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--focal", required=True, metavar="PROGRAM")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=["bf16", "f32"], default="bf16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="of a contestant in a round")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--peak-of", metavar="WAY", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.set_flush_denormal(True)
    if o.peak_of:
        return print_peak(o.peak_of)
    signal.signal(signal.SIGALRM, give_up)
    best_step = []
    rivals = []
    for dtype in sorted({"f32", o.dtype}, reverse=True):
        for compiles in [False] if o.no_compile else [False, True]:
            rival = Rival(dtype, compiles)
            if not is_fast_enough(rival, best_step):
                break  # compiled it would be too: products that the CPU has no instructions for
            rivals.append(rival)
    ours, fractions, theirs = [], [], {rival.name: [] for rival in rivals}
    for n in range(o.rounds):
        print(f"train_pytorch.py: round {n + 1}", file=sys.stderr)
        row = focal_row(o.focal, o.dtype, o.threads, o.steps)
        ours.append(row["tokens_per_second"])
        fractions.append(row["peak_fraction"])
        for rival in rivals:
            theirs[rival.name].append(rival.rate(o.steps))
    best = max(theirs, key=lambda name: statistics.median(theirs[name]))
    ratio = statistics.median(a / b for a, b in zip(ours, theirs[best]))
    result = dict(dtype=o.dtype, threads=o.threads, focal=statistics.median(ours),
                  peak_fraction=statistics.median(fractions), torch=statistics.median(theirs[best]),
                  torch_way=best, torch_version=torch.__version__, ratio=ratio,
                  all_ways={name: statistics.median(rates) for name, rates in theirs.items()})
    result["focal_bytes"] = row["memory_bytes"]
    if not o.no_memory:
        result["torch_bytes_loaded"], result["torch_bytes"] = torch_peak(best, o)
    if o.json:
        print(json.dumps(result))
        return None
    print(f"focal {result['focal']:.0f} tokens/s ({100 * result['peak_fraction']:.0f} % of peak), "
          f"PyTorch {result['torch_version']} {best} {result['torch']:.0f}: {ratio:.2f}x; "
          f"memory {result['focal_bytes'] / 1e9:.2f} GB"
          + ("" if o.no_memory else f" and {result['torch_bytes'] / 1e9:.2f} GB"))
    return None


if __name__ == "__main__":
    main()
