#!/usr/bin/env python3
"""Puts focal's attention beside PyTorch's scaled_dot_product_attention, in one process, by turns.

Usage: attn_pytorch.py [--library build/libfocal.so] [-t 2] [--rounds 15] [--json]
Prints, for the same causal problem (9 query heads on 3 key heads x 64, batch 1):
  forward at 8,192 tokens: focal in float32 and bfloat16 against the faster of PyTorch's two;
  forward and backward at 4,096 tokens: each type against PyTorch's same type.
PyTorch gets its best form of several: tensors laid out (1,H,T,D), grouped heads by enable_gqa or
by repeating keys and values beforehand (not in the time). Times are medians.
"""
import argparse
import ctypes
import json
import math
import pathlib
import statistics
import sys
import time

import torch_cpu

ONEDNN_LIMIT = torch_cpu.make_safe()
try:
    import torch
    import torch.nn.functional as functional
except ImportError:
    sys.exit("attn_pytorch.py: PyTorch is needed: pip install torch")

HEADS, KV_HEADS, WIDTH = 9, 3, 64
F32, BF16 = 0, 1
DTYPES = {"f32": (F32, torch.float32), "bf16": (BF16, torch.bfloat16)}
FORWARD_FLOPS, BACKWARD_FLOPS = 4 * WIDTH, 10 * WIDTH


class CtxOptions(ctypes.Structure):  # focal_ctx_options (include/focal/base.h)
    _fields_ = [("threads", ctypes.c_int32), ("kernel", ctypes.c_char_p),
                ("user", ctypes.c_void_p), ("alloc", ctypes.c_void_p),
                ("release", ctypes.c_void_p)]


class AttnArgs(ctypes.Structure):  # focal_attn_args (include/focal/attn.h)
    _fields_ = [
        ("T", ctypes.c_int32), ("S", ctypes.c_int32), ("H", ctypes.c_int32),
        ("G", ctypes.c_int32), ("D", ctypes.c_int32), ("Dv", ctypes.c_int32),
        ("dtype", ctypes.c_int), ("q", ctypes.c_void_p), ("k", ctypes.c_void_p),
        ("v", ctypes.c_void_p), ("q_stride", ctypes.c_int64), ("k_stride", ctypes.c_int64),
        ("v_stride", ctypes.c_int64), ("out_stride", ctypes.c_int64),
        ("is_bidirectional", ctypes.c_bool), ("has_window", ctypes.c_bool),
        ("window", ctypes.c_int32), ("sinks", ctypes.c_int32), ("softcap", ctypes.c_float),
        ("keys", ctypes.c_void_p), ("gate", ctypes.c_void_p), ("seq_count", ctypes.c_int32),
        ("seqs", ctypes.c_void_p), ("page_rows", ctypes.c_int32), ("out", ctypes.c_void_p),
        ("lse", ctypes.c_void_p)]


class AttnGrads(ctypes.Structure):  # focal_attn_grads
    _fields_ = [(name, ctypes.c_void_p) for name in ("dout", "dq", "dk", "dv", "dgq", "dgk")]


class Focal:
    """The library and one context."""

    def __init__(self, path, threads):
        self.lib = ctypes.CDLL(str(path.resolve()))
        self.lib.focal_ctx_error.restype = ctypes.c_char_p
        self.lib.focal_attn_kernel_name.restype = ctypes.c_char_p
        self.ctx = ctypes.c_void_p()
        error = ctypes.c_char_p()
        options = CtxOptions(threads=threads)
        if self.lib.focal_ctx_open(ctypes.byref(options), ctypes.byref(self.ctx),
                                   ctypes.byref(error)):
            sys.exit(f"attn_pytorch.py: {error.value.decode()}")

    def check(self, status):
        if status:
            sys.exit(f"attn_pytorch.py: {self.lib.focal_ctx_error(self.ctx).decode()}")

    def forward(self, args):
        self.check(self.lib.focal_attn_forward(self.ctx, ctypes.byref(args)))

    def backward(self, args, grads):
        self.check(self.lib.focal_attn_backward(self.ctx, ctypes.byref(args), ctypes.byref(grads)))

    def kernel(self, args):
        name = self.lib.focal_attn_kernel_name(self.ctx, ctypes.byref(args))
        return name.decode() if name else "?"


class Problem:
    """The same numbers in both libraries' layouts: (T,H,D) here, (1,H,T,D) there."""

    def __init__(self, focal, tokens, dtype):
        code, kind = DTYPES[dtype]
        self.focal, self.tokens, self.dtype = focal, tokens, dtype
        gen = torch.Generator().manual_seed(1)
        make = lambda heads: torch.randn(tokens, heads, WIDTH, generator=gen).to(kind)
        self.q, self.k, self.v = make(HEADS), make(KV_HEADS), make(KV_HEADS)
        self.q = (self.q.float() / math.sqrt(WIDTH)).to(kind)
        self.dout = make(HEADS)
        self.out, self.dq = torch.empty_like(self.q), torch.empty_like(self.q)
        self.dk, self.dv = torch.empty_like(self.k), torch.empty_like(self.v)
        self.lse = torch.empty(tokens, HEADS)
        self.args = AttnArgs(T=tokens, S=tokens, H=HEADS, G=KV_HEADS, D=WIDTH, dtype=code,
                             q=self.q.data_ptr(), k=self.k.data_ptr(), v=self.v.data_ptr(),
                             out=self.out.data_ptr(), lse=self.lse.data_ptr())
        self.grads = AttnGrads(dout=self.dout.data_ptr(), dq=self.dq.data_ptr(),
                               dk=self.dk.data_ptr(), dv=self.dv.data_ptr())
        theirs = lambda x: x.transpose(0, 1).contiguous()[None]
        self.tq, self.tk, self.tv, self.tdout = map(theirs, (self.q, self.k, self.v, self.dout))
        repeat = HEADS // KV_HEADS
        self.rk = self.tk.repeat_interleave(repeat, 1).contiguous()
        self.rv = self.tv.repeat_interleave(repeat, 1).contiguous()

    def forms(self):
        """PyTorch's ways to say it: name -> function of q, k, v."""
        attend = functional.scaled_dot_product_attention
        ways = {"repeated": (lambda q, k, v: attend(q, k, v, is_causal=True, scale=1.0),
                             (self.tq, self.rk, self.rv))}
        try:
            attend(self.tq[:, :, :4], self.tk[:, :, :4], self.tv[:, :, :4], is_causal=True,
                   enable_gqa=True)
            ways["gqa"] = (lambda q, k, v: attend(q, k, v, is_causal=True, scale=1.0,
                                                  enable_gqa=True), (self.tq, self.tk, self.tv))
        except TypeError:
            pass  # older PyTorch has no enable_gqa
        return ways

    def torch_forward(self, form):
        run, tensors = form
        with torch.no_grad():
            return run(*tensors)

    def torch_both(self, form):
        run, tensors = form
        leaves = [t.detach().requires_grad_() for t in tensors]
        out = run(*leaves)
        return torch.autograd.grad(out, leaves, self.tdout)

    def focal_forward(self):
        self.focal.forward(self.args)

    def focal_both(self):
        self.focal.forward(self.args)
        self.focal.backward(self.args, self.grads)

    def difference(self, both):
        """The largest difference of outputs and gradients, as a share of the largest value."""
        def compare(ours, theirs):
            theirs = theirs[0].transpose(0, 1).float()
            return ((ours.float() - theirs).abs().max() / theirs.abs().max()).item()

        form = next(reversed(self.forms().values()))  # gqa, where there is one
        self.focal_forward()
        worst = compare(self.out, self.torch_forward(form))
        if both and form[1][1] is self.tk:
            self.focal_both()
            for ours, theirs in zip((self.dq, self.dk, self.dv), self.torch_both(form)):
                worst = max(worst, compare(ours, theirs))
        return worst

    def pairs(self):
        return HEADS * self.tokens * (self.tokens + 1) // 2


def interleave(contestants, rounds):
    """Median seconds of each, run by turns; two rounds of warm-up."""
    times = {name: [] for name in contestants}
    for n in range(rounds + 2):
        for name, run in contestants.items():
            time.sleep(0.02)  # until the other's threads have stopped spinning
            begin = time.perf_counter()
            run()
            if n >= 2:
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in times.items()}


def contest(problems, both, rounds):
    contestants = {}
    for dtype, problem in problems.items():
        ours = problem.focal_both if both else problem.focal_forward
        theirs = problem.torch_both if both else problem.torch_forward
        contestants[f"focal {dtype}"] = ours
        for name, form in problem.forms().items():
            contestants[f"torch {dtype} {name}"] = lambda run=theirs, form=form: run(form)
    return interleave(contestants, rounds)


def best_torch(times, dtypes):
    name = min((n for n in times if n.startswith("torch") and n.split()[1] in dtypes),
               key=times.get)
    return name, times[name]


def report(title, problems, both, rounds, wanted, as_json):
    times = contest(problems, both, rounds)
    flops = FORWARD_FLOPS + (BACKWARD_FLOPS if both else 0)
    if not as_json:
        print(f"{title}: median of {rounds}")
        for name, seconds in times.items():
            rate = flops * next(iter(problems.values())).pairs() / seconds * 1e-9
            print(f"  {name:22} {1e3 * seconds:9.1f} ms {rate:7.1f} GFLOP/s")
    for dtype, problem in problems.items():
        # forward: against PyTorch's faster type; forward and backward: against the same type
        name, seconds = best_torch(times, [dtype] if both else list(problems))
        ratio = seconds / times[f"focal {dtype}"]
        if as_json:
            print(json.dumps({"what": title, "dtype": dtype, "tokens": problem.tokens,
                              "kernel": problem.focal.kernel(problem.args),
                              "focal_ms": 1e3 * times[f"focal {dtype}"], "torch": name,
                              "torch_ms": 1e3 * seconds, "ratio": ratio,
                              "wanted": wanted[dtype], "difference": problem.difference(both)}))
        else:
            print(f"  {dtype}: focal is {ratio:.2f}x as fast as {name} (must reach "
                  f"{wanted[dtype]}x); results differ by {problem.difference(both):.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--library", type=pathlib.Path, default=root / "build" / "libfocal.so")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tokens", type=int, default=8192, help="of forward; half of it for both")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.library.exists():
        sys.exit(f"attn_pytorch.py: {options.library} is not there: run make first")
    torch.set_num_threads(options.threads)
    focal = Focal(options.library, options.threads)
    if not options.json:
        print(f"PyTorch {torch.__version__}{ONEDNN_LIMIT}, {options.threads} threads, heads {HEADS}/{KV_HEADS} x "
              f"{WIDTH}, causal")
    make = lambda tokens: {dtype: Problem(focal, tokens, dtype) for dtype in DTYPES}
    report("forward", make(options.tokens), False, options.rounds, {"f32": 1.2, "bf16": 2.2},
           options.json)
    report("forward and backward", make(options.tokens // 2), True, options.rounds,
           {"f32": 1.2, "bf16": 1.7}, options.json)


if __name__ == "__main__":
    main()
