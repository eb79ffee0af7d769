#!/usr/bin/env python3
"""Writes the golden vectors of attention: tests/golden/attn.manifest and attn.bin.

Everything is float64, computed with whole T x S matrices and differentiated by PyTorch, so it
shares nothing with the library or with the tests' own oracle. Usage: tools/golden.py [FOLDER]
"""
import math
import pathlib
import struct
import sys

import torch

torch.set_default_dtype(torch.float64)

DEFAULTS = dict(T=7, S=7, H=2, G=1, D=4, Dv=0, both=0, has_window=0, window=0, sinks=0, softcap=0.0,
                K=0, routers=1, shared=0, top=0, gate=0, heat=1.0)
PAPER, LOG, STRAIGHT = 1, 2, 3

CASES = {
    "dense": dict(T=9, S=9),
    "one": dict(T=1, S=1, H=1, D=1),
    "shared_heads": dict(T=8, S=8, H=6, G=2, D=5),
    "bidirectional": dict(T=6, S=9, H=2, G=2, both=1),
    "window_sinks": dict(T=13, S=13, H=2, has_window=1, window=3, sinks=2),
    "window_bidirectional": dict(T=11, S=11, has_window=1, window=2, sinks=1, both=1),
    "softcap": dict(T=9, S=9, softcap=1.5, heat=3.0),
    "value_width": dict(T=7, S=7, H=4, G=2, D=3, Dv=6),
    "cache": dict(T=3, S=12, H=4, G=2),
    "no_keys": dict(T=9, S=4),
    "directed": dict(T=16, S=16, H=4, G=2, has_window=1, window=2, sinks=1, K=4, routers=2, top=2),
    "directed_layer": dict(T=6, S=17, H=4, G=2, has_window=1, window=1, K=5, top=1, softcap=4.0),
    "shared": dict(T=16, S=16, H=2, G=1, has_window=1, window=2, sinks=1, K=5, top=2, shared=1),
    "gate_paper": dict(T=12, S=12, H=4, G=2, has_window=1, window=2, sinks=1, K=3, routers=2,
                       gate=PAPER),
    "gate_paper_softcap": dict(T=5, S=11, H=2, has_window=1, window=1, K=3, gate=PAPER, softcap=2.0,
                               heat=3.0),
    "gate_log": dict(T=12, S=12, H=4, G=2, has_window=1, window=2, sinks=1, K=3, routers=2,
                     gate=LOG),
    "gate_log_layer": dict(T=5, S=11, H=4, G=2, has_window=1, window=0, K=4, gate=LOG),
    "gate_straight": dict(T=12, S=12, H=4, G=2, has_window=1, window=2, sinks=1, K=4, routers=2,
                          top=1, gate=STRAIGHT, heat=0.5),
    "gate_straight_hot": dict(T=14, S=14, H=4, G=2, has_window=1, window=1, K=4, top=2, shared=1,
                              gate=STRAIGHT, heat=5.0, softcap=6.0),
}
PARAMETERS = ("T", "S", "H", "G", "D", "Dv", "both", "has_window", "window", "sinks", "softcap",
              "K", "routers", "shared", "gate")


def bits(membership):
    """(n, routers, K) of 0 and 1 -> (routers, n) of sums of powers of two."""
    powers = 2.0 ** torch.arange(membership.shape[-1])
    return (membership * powers).sum(-1).T.contiguous()


def choose(n, routers, K, top):
    scores = torch.rand(n, routers, K)
    best = scores.topk(top, dim=-1).indices
    return torch.zeros(n, routers, K).scatter_(-1, best, 1.0)


def pairs(c):
    """Which pairs are local (window, sinks, or everything without a window), and distant."""
    i = torch.arange(c["T"])[:, None] + c["S"] - c["T"]
    j = torch.arange(c["S"])[None, :]
    order = torch.ones(c["T"], c["S"], dtype=torch.bool) if c["both"] else j <= i
    if not c["has_window"]:
        return order, torch.zeros_like(order)
    near = (i - j).abs() <= c["window"]
    sink = (j < c["sinks"]) & (j <= i)
    local = order & (near | sink)
    distant = order & ~local if not c["both"] else torch.zeros_like(order)
    return local, distant


def attend(c, q, k, v, visible, logits_hook):
    """out (T,H,Dv), lse (T,H), and the logits before and after the hook, (H,T,S)."""
    share = c["H"] // c["G"]
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    s = torch.einsum("thd,shd->hts", q, k)
    if c["softcap"] > 0:
        s = c["softcap"] * torch.tanh(s / c["softcap"])
    gated = logits_hook(s)
    masked = gated.masked_fill(~visible, -math.inf)
    seen = visible.any(-1)
    lse = torch.full(seen.shape, -math.inf)
    p = torch.zeros_like(s)
    lse_rows = torch.logsumexp(masked[seen], -1)
    lse = lse.index_put((seen,), lse_rows)
    p = p.index_put((seen,), torch.exp(masked[seen] - lse_rows[:, None]))
    out = torch.einsum("hts,shd->thd", p, v)
    return out, lse.T, s


def by_head(c, x):
    """(routers, ...) -> (H, ...)"""
    return x.repeat_interleave(c["H"] // c["routers"], 0)


def solve(c):
    heat = c["heat"] / math.sqrt(c["D"])
    t = {"q": torch.randn(c["T"], c["H"], c["D"]) * heat, "k": torch.randn(c["S"], c["G"], c["D"]),
         "v": torch.randn(c["S"], c["G"], c["Dv"]), "dout": torch.randn(c["T"], c["H"], c["Dv"])}
    inputs = ["q", "k", "v"]
    local, distant = pairs(c)
    visible = local.expand(c["H"], -1, -1)
    if c["top"]:
        keys = choose(c["S"], c["routers"], c["K"], c["top"] if c["shared"] else 1)
        queries = choose(c["T"], c["routers"], c["K"], c["top"])
        if c["shared"]:
            queries = keys[c["S"] - c["T"]:]
        t["query_groups"], t["key_groups"] = bits(queries), bits(keys)
        meet = torch.einsum("irc,jrc->rij", queries, keys) > 0
        visible = visible | (distant & by_head(c, meet))
    if c["gate"]:
        t["gq"] = torch.randn(c["T"], c["routers"], c["K"]).mul(2).softmax(-1)
        t["gk"] = torch.randn(c["S"], c["routers"], c["K"]).mul(2).softmax(-1)
        inputs += ["gq", "gk"]
    if c["gate"] in (PAPER, LOG):
        visible = visible | distant
    for name in inputs:
        t[name].requires_grad_(True)

    # The straight-through gate: out as a function of a multiplicative mask that is 0 or 1. Its
    # derivative by that mask is exp(s - lse) (do.v - do.o), for excluded pairs too.
    mask = (visible & distant).to(torch.float64).requires_grad_(True)

    def hook(s):
        if c["gate"] in (PAPER, LOG):
            overlap = by_head(c, torch.einsum("irc,jrc->rij", t["gq"], t["gk"]))
            gated = (s * torch.sigmoid(10.0 * overlap) if c["gate"] == PAPER
                     else s + torch.log(overlap.clamp_min(1e-6)))
            return torch.where(distant, gated, s)
        return s

    out, lse, s = attend(c, t["q"], t["k"], t["v"], visible, hook)
    if c["gate"] == STRAIGHT:
        weight = torch.where(distant, mask, local.to(torch.float64))
        e = weight * torch.exp(s)
        share = c["H"] // c["G"]
        masked_out = torch.einsum("hts,shd->thd", e / e.sum(-1, keepdim=True),
                                  t["v"].repeat_interleave(share, 1))
        assert torch.allclose(masked_out, out, rtol=1e-12, atol=1e-12)
        dm, = torch.autograd.grad((masked_out * t["dout"]).sum(), mask, retain_graph=True)
        excess = (s - lse.T[:, :, None]).detach()
        held = dm * torch.exp(excess.clamp_max(0.0) - excess) * distant
        c["held"] = int((distant & ~visible & (excess > 0)).sum())
        held = held.reshape(c["routers"], -1, c["T"], c["S"]).sum(1)
        t["dgq"] = torch.einsum("rij,jrc->irc", held, t["gk"]).detach()
        t["dgk"] = torch.einsum("rij,irc->jrc", held, t["gq"]).detach()
    (out * t["dout"]).sum().backward()
    for name in inputs:
        if "d" + name not in t:
            t["d" + name] = t[name].grad if t[name].grad is not None else torch.zeros_like(t[name])
    t["out"], t["lse"] = out, lse
    return {name: x.detach() for name, x in t.items()}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden")
    folder.mkdir(parents=True, exist_ok=True)
    lines, data = ["focal golden 1"], []
    for seed, (name, changes) in enumerate(CASES.items()):
        torch.manual_seed(seed + 1)
        c = {**DEFAULTS, **changes}
        c["Dv"] = c["Dv"] or c["D"]
        tensors = solve(c)
        if name == "gate_straight_hot":
            assert c["held"] > 0, "no excluded pair exceeds lse"
        lines.append(f"case {name} " + " ".join(f"{c[p]:g}" for p in PARAMETERS))
        for tensor, x in tensors.items():
            lines.append(f"tensor {tensor} {len(data)} {x.numel()}")
            data += x.contiguous().reshape(-1).tolist()
    (folder / "attn.manifest").write_text("\n".join(lines) + "\n")
    (folder / "attn.bin").write_bytes(struct.pack(f"<{len(data)}d", *data))


if __name__ == "__main__":
    main()
