#!/usr/bin/env python3
"""Writes tests/golden/train: 20 steps of training small models, by PyTorch in float64.

The whole recipe of a run: windows of packed documents that attention does not cross, gradients of two
halves of a batch added up, clipping, AdamW (torch.optim, decay on matrices only) or Muon, a schedule,
z-loss, and every kind of temperature. Weights and tokens are the counter-based random numbers of
src/base/random.c, so that nothing of them is stored: of every step the loss and the gradients' norm, of
every weight at the end four marks, as in golden_backward.py. Usage: tools/golden_train.py; needs torch.
"""
import math
import pathlib

import torch
from torch.nn import functional as F

from golden_backward import marks
from golden_optim import Golden, orthogonal

SEED, TOKEN_STREAM, STEPS, WARMUP, DECAY_STEPS = 11, 1000, 20, 4, 6
WINDOW, HALF = 24, 2  # tokens of a window, windows of half a batch
V, L, C, H, G, D, F_WIDTH = 61, 2, 32, 4, 2, 16, 48
PEAK, FLOOR, BETAS, DECAY, CLIP, MOMENTUM = 0.01, 0.1, (0.9, 0.95), 0.1, 1.0, 0.95
KINDS = ["constant", "learned", "learned-paper", "per-head", "length"]
ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden"

# family, kind of temperature (None: 1), its t, heads with it (bits), z, schedule, Muon, AdamW's epsilon.
# GPT-2's gradient of the bias of keys is 0 but for rounding, which a small epsilon would blow up.
CASES = dict(
    plain=("qwen3", None, 1.0, 15, 0.0, "cosine", False, 1e-8),
    z=("qwen3", None, 1.0, 15, 0.05, "decay", False, 1e-8),
    muon=("qwen3", "constant", 0.7, 15, 0.0, "cosine", True, 1e-8),
    constant=("qwen3", "constant", 0.4, 15, 0.0, "cosine", False, 1e-8),
    learned=("qwen3", "learned", 1.0, 15, 0.0, "cosine", False, 1e-8),
    paper=("qwen3", "learned-paper", 1.0, 15, 0.0, "cosine", False, 1e-8),
    heads=("qwen3", "per-head", 0.7, 13, 0.0, "cosine", False, 1e-8),
    length=("qwen3", "length", 0.5, 15, 0.0, "constant", False, 1e-8),
    gpt2=("gpt2", None, 1.0, 15, 0.0, "cosine", False, 1e-5),
    gpt2_learned=("gpt2", "learned", 1.0, 7, 0.001, "cosine", False, 1e-5),
)


def philox(stream, counter):
    """Four words, as foci_random_block."""
    key, c, mask = [SEED, 0], [counter, 0, stream, 0], 0xFFFFFFFF
    for _ in range(10):
        m0, m1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(m1 >> 32) ^ c[1] ^ key[0], m1 & mask, (m0 >> 32) ^ c[3] ^ key[1], m0 & mask]
        key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
    return c


def normals(stream, count):
    out = []
    for n in range((count + 1) // 2):
        a, b = (x >> 8 for x in philox(stream, n)[:2])
        radius = math.sqrt(-2.0 * math.log(1.0 - a * 2.0**-24))
        angle = 6.283185307179586 * b * 2.0**-24
        out += [radius * math.cos(angle), radius * math.sin(angle)]
    return torch.tensor(out[:count], dtype=torch.float64).float()


def below(stream, n, bound):
    high, low, _, _ = philox(stream, n)
    return (high * bound + (low * bound >> 32)) >> 32


def shapes(family, kind):
    """Names and shapes, (1, n) a vector."""
    q, kv = H * D, G * D
    if family == "gpt2":
        q = kv = C  # H * (C // H)
        yield from [("transformer.wte.weight", (V, C)), ("transformer.wpe.weight", (WINDOW, C)),
                    ("transformer.ln_f.weight", (1, C)), ("transformer.ln_f.bias", (1, C))]
        for n in range(L):
            for part, shape in [("attn.c_attn", (C, 3 * C)), ("attn.c_proj", (C, C)),
                                ("mlp.c_fc", (C, F_WIDTH)), ("mlp.c_proj", (F_WIDTH, C)),
                                ("ln_1", (1, C)), ("ln_2", (1, C))]:
                yield f"transformer.h.{n}.{part}.weight", shape
                yield f"transformer.h.{n}.{part}.bias", (1, shape[1])
    else:
        yield from [("model.embed_tokens.weight", (V, C)), ("model.norm.weight", (1, C))]
        for n in range(L):
            for part, shape in [("self_attn.q_proj", (q, C)), ("self_attn.k_proj", (kv, C)),
                                ("self_attn.v_proj", (kv, C)), ("self_attn.o_proj", (C, q)),
                                ("mlp.gate_proj", (F_WIDTH, C)), ("mlp.up_proj", (F_WIDTH, C)),
                                ("mlp.down_proj", (C, F_WIDTH)), ("input_layernorm", (1, C)),
                                ("post_attention_layernorm", (1, C)), ("self_attn.q_norm", (1, D)),
                                ("self_attn.k_norm", (1, D))]:
                yield f"model.layers.{n}.{part}.weight", shape
    prefix = "transformer.h." if family == "gpt2" else "model.layers."
    for n in range(L):
        for part in {"learned": ["u", "a"], "learned-paper": ["u"], "per-head": ["lt"]}.get(kind, []):
            yield f"{prefix}{n}.self_attn.temperature.{part}", (1, dict(u=C, a=1, lt=H)[part])


def start(name, t):
    """The value that weights of a name scatter about, and how far."""
    if name.endswith("temperature.u"):
        return 0.0, 0.1
    if name.endswith("temperature.a"):
        return 0.6, 0.0
    if name.endswith("temperature.lt"):
        return math.log(t), 0.1
    if name.endswith("bias"):
        return 0.0, 0.1
    is_gain = any(part in name for part in ("norm", "ln_"))
    return (1.0, 0.1) if is_gain else (0.0, 0.15)


def make_weights(family, kind, t):
    """By name, ordered as bytes; a name's place is its stream of random numbers."""
    weights = {}
    for place, (name, shape) in enumerate(sorted(shapes(family, kind))):
        mean, spread = (torch.tensor(x, dtype=torch.float32) for x in start(name, t))
        noise = normals(place, shape[0] * shape[1]).reshape(shape)
        weights[name] = (mean + spread * noise).double().requires_grad_()
    return weights


def make_stream():
    """Tokens of a rule that can be learned, and where documents begin."""
    count = STEPS * 2 * HALF * WINDOW + 1
    ids, starts, left = [], [], 0
    for n in range(count):
        if left == 0:
            starts.append(n)
            left = 1 + below(TOKEN_STREAM, 2 * n, 40)
        last = ids[-1] if ids else 0
        ids.append((3 * last + below(TOKEN_STREAM, 2 * n + 1, 4)) % V)
        left -= 1
    return ids, set(starts)


def factors(w, prefix, kind, t, heads, h):
    """1 / t of each token and head, (T, H)."""
    one = torch.ones(h.shape[0], H, dtype=torch.float64)
    if kind is None:
        return one
    if kind == "constant":
        tau = t * one
    elif kind == "per-head":
        tau = w[prefix + "lt"].exp() * one
    elif kind == "length":
        p = torch.arange(h.shape[0], dtype=torch.float64)
        tau = (t / (1 + 0.3 * torch.log(torch.clamp((p + 1) / 8, min=1))))[:, None] * one
    else:
        x = (h @ w[prefix + "u"].T)[:, 0]
        if kind == "learned":
            low, high = torch.tensor([0.2, 1.2]).double()
            x = x + w[prefix + "a"][0, 0]
        else:  # of tau, as a part of the root
            low, high = torch.tensor([0.442, 1.0]).double()
            x = x.mean().expand(h.shape[0]) / math.sqrt(C // H if "transformer" in prefix else D)
        x = x + (torch.clamp(x, low, high) - x).detach()
        tau = x[:, None] * one
    has = torch.tensor([bool(heads >> n & 1) for n in range(H)])
    return 1 / torch.where(has, tau, one)


def rms_norm(x, gain):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * gain


def rotate(x):
    """(T, heads, D)"""
    angles = torch.outer(torch.arange(x.shape[0]).double(),
                         10000.0**(-torch.arange(0, D, 2).double() / D))[:, None]
    a, b = x[..., :D // 2], x[..., D // 2:]
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)


def attend(q, k, v):
    """(T, heads, width) each; q is divided by its temperature already."""
    T, heads, width = q.shape
    k, v = (x.repeat_interleave(heads // x.shape[1], 1) for x in (k, v))
    scores = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(width)
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    p = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    return torch.einsum("hij,jhd->ihd", p, v).reshape(T, heads * width)


def qwen3(w, ids, temperature):
    x = w["model.embed_tokens.weight"][ids]
    T = len(ids)
    for n in range(L):
        m = {part: w[f"model.layers.{n}.{part}.weight"] for part in (
            "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
            "self_attn.q_norm", "self_attn.k_norm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
            "input_layernorm", "post_attention_layernorm")}
        h = rms_norm(x, m["input_layernorm"])
        q, k, v = (F.linear(h, m[f"self_attn.{c}_proj"]).view(T, -1, D) for c in "qkv")
        q, k = (rotate(rms_norm(y, m[f"self_attn.{c}_norm"])) for c, y in (("q", q), ("k", k)))
        f = factors(w, f"model.layers.{n}.self_attn.temperature.", *temperature, h)
        x = x + F.linear(attend(q * f[..., None], k, v), m["self_attn.o_proj"])
        h = rms_norm(x, m["post_attention_layernorm"])
        x = x + F.linear(F.silu(F.linear(h, m["mlp.gate_proj"])) * F.linear(h, m["mlp.up_proj"]),
                         m["mlp.down_proj"])
    return F.linear(rms_norm(x, w["model.norm.weight"]), w["model.embed_tokens.weight"])


def gpt2(w, ids, temperature):
    def norm(x, name):
        return F.layer_norm(x, (C,), w[name + ".weight"][0], w[name + ".bias"][0], 1e-5)

    def linear(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    T = len(ids)
    x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][:T]
    for n in range(L):
        at = f"transformer.h.{n}."
        h = norm(x, at + "ln_1")
        q, k, v = linear(h, at + "attn.c_attn").view(T, 3, H, C // H).unbind(1)
        f = factors(w, at + "self_attn.temperature.", *temperature, h)
        x = x + linear(attend(q * f[..., None], k, v), at + "attn.c_proj")
        h = linear(norm(x, at + "ln_2"), at + "mlp.c_fc")
        x = x + linear(F.gelu(h, approximate="tanh"), at + "mlp.c_proj")
    return F.linear(norm(x, "transformer.ln_f"), w["transformer.wte.weight"])


def sequences(ids, starts, begin):
    """The parts of a window that attend among themselves, with the targets they have."""
    cuts = [begin] + [n for n in range(begin + 1, begin + WINDOW) if n in starts] + [begin + WINDOW]
    for first, last in zip(cuts, cuts[1:]):
        targets = [-1 if n in starts else ids[n] for n in range(first + 1, last + 1)]
        yield torch.tensor(ids[first:last]), torch.tensor(targets)


def rate(schedule, step):
    if step < WARMUP:
        return PEAK * (step + 1) / WARMUP
    gone = 0.0
    if schedule == "cosine":
        gone = 0.5 * (1 - math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))
    elif schedule == "decay":
        gone = max(0, step - (STEPS - DECAY_STEPS)) / DECAY_STEPS
    return PEAK * (1 - (1 - FLOOR) * gone)


def move_by_muon(weights, momenta, eta):
    with torch.no_grad():
        for name, w in weights.items():
            m = momenta.setdefault(name, torch.zeros_like(w))
            m += (1 - MOMENTUM) * (w.grad - m)
            x = orthogonal(w.grad + MOMENTUM * (m - w.grad))
            w -= eta * (0.2 * math.sqrt(max(w.shape)) * x + DECAY * w)


def train(family, kind, t, heads, z, schedule, has_muon, epsilon):
    weights = make_weights(family, kind, t)
    ids, starts = make_stream()
    matrices = {name: w for name, w in weights.items() if w.shape[0] > 1}
    by_muon = {name: w for name, w in matrices.items() if has_muon and ".layers." in name}
    groups = [dict(params=[w for name, w in matrices.items() if name not in by_muon],
                   weight_decay=DECAY),
              dict(params=[w for name, w in weights.items() if name not in matrices],
                   weight_decay=0.0)]
    adamw = torch.optim.AdamW(groups, betas=BETAS, eps=epsilon)
    model, momenta = dict(qwen3=qwen3, gpt2=gpt2)[family], {}
    losses, norms = [], []
    for step in range(STEPS):
        begins = range(step * 2 * HALF * WINDOW, (step + 1) * 2 * HALF * WINDOW, WINDOW)
        parts = [part for begin in begins for part in sequences(ids, starts, begin)]
        count = sum((targets >= 0).sum().item() for _, targets in parts)
        nll = 0.0
        for tokens, targets in parts:
            logits = model(weights, tokens, (kind, t, heads))
            lse = logits.logsumexp(-1) * (targets >= 0)
            loss = F.cross_entropy(logits, targets, ignore_index=-1, reduction="sum")
            ((loss + z * lse.pow(2).sum()) / count).backward()
            nll += loss.item()
        norm = math.sqrt(sum(w.grad.pow(2).sum().item() for w in weights.values()))
        for w in weights.values():
            w.grad *= min(1.0, CLIP / norm)
        for group in adamw.param_groups:
            group["lr"] = rate(schedule, step)
        adamw.step()
        move_by_muon(by_muon, momenta, rate(schedule, step))
        for w in weights.values():
            w.grad = None
        losses.append(nll / count)
        norms.append(norm)
    return losses, norms, [mark for w in weights.values() for mark in marks(w.detach())]


def main():
    golden = Golden()
    for name, case in CASES.items():
        family, kind, t, heads, z, schedule, has_muon, epsilon = case
        losses, norms, ends = train(*case)
        numbers = [family == "gpt2", -1 if kind is None else KINDS.index(kind), t, heads, z,
                   ["constant", "cosine", "decay"].index(schedule), has_muon, epsilon]
        golden.add(name, numbers, losses=losses, norms=norms, marks=ends)
        print(f"{name:12} loss {losses[0]:.4f} to {losses[-1]:.4f}, norms {min(norms):.3f} to "
              f"{max(norms):.3f}, {len(ends) // 4} parameters")
    golden.write(ROOT, "train")


if __name__ == "__main__":
    main()
