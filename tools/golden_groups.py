#!/usr/bin/env python3
"""Writes tests/golden/groups: the gradient of groups on the tiny models of tests/golden/models.

For each case the loss (KL against the dense model, or the language-model loss) of the model's golden
ids, as two sequences of 30 and 18 tokens, averaged over the targets, the beta that the balance leaves,
and of every tensor of the groups four marks of its gradient, as in golden_backward.py, in the order
layer by layer, pk pq ak aq e lt. Everything is float64, by PyTorch and transformers, with an attention
written from docs/MATH.md, 3, that makes whole T x T arrays. The numbers of the groups are formulas that
the test repeats. Usage: tools/golden_groups.py; needs torch, transformers and safetensors.
"""
import math
import struct

import torch
import transformers
from transformers import AttentionInterface

import golden_models
from golden_backward import ROOT, SPANS, marks
from golden_optim import Golden

K, R, WINDOW, SINKS, RATE, LAMBDA = 4, 3, 5, 2, 0.3, 7.0
SCALES = dict(pk=0.4, pq=0.4, ak=0.3, aq=0.3, e=0.8, beta=0.2, lt=0.25)
TENSORS = list(SCALES)  # in the order of foci_group_tensor
GATES = dict(paper=1, log=2, straight=3)

# model, shared, routers a key head, raw, gate, KL, top, kind of balance that moves (-1: none), lt
CASES = dict(
    defaults=("llama", 0, 1, 0, "straight", 1, 2, -1, 1),
    balanced=("llama", 0, 1, 0, "straight", 1, 2, 0, 1),
    sign=("qwen3", 1, 1, 0, "straight", 1, 2, 1, 1),
    layer=("qwen3", 1, 0, 0, "straight", 0, 1, -1, 1),
    layer_directed=("qwen2", 0, 0, 0, "straight", 0, 1, 0, 1),
    after=("olmo2", 0, 1, 0, "straight", 1, 2, -1, 1),
    capped=("gemma2", 0, 1, 0, "straight", 1, 2, -1, 1),
    windows=("gemma3", 1, 1, 0, "log", 1, 2, 0, 1),
    paper=("llama", 1, 0, 1, "paper", 0, 2, -1, 0),
    paper_directed=("llama", 0, 1, 0, "paper", 1, 2, -1, 1),
    raw_straight=("qwen3", 1, 1, 1, "straight", 1, 2, -1, 1),
    log=("qwen3", 0, 1, 0, "log", 1, 2, -1, 1),
    log_layer=("gpt2", 1, 0, 0, "log", 0, 3, -1, 1),
)


def numbers(which, layer, *shape):
    n = torch.arange(math.prod(shape), dtype=torch.float64)
    x = SCALES[which] * torch.sin(1.7 * n * (1.0 + 0.01 * n) + 0.6 * TENSORS.index(which) + 2.1 * layer)
    return x.float().double().reshape(shape)


class Straight(torch.autograd.Function):
    """The hard mask forward; backward as docs/MATH.md, 3.5 has it, with an excluded pair's gradient."""

    @staticmethod
    def forward(ctx, q, k, v, gq, gk, seen, distant, cap):
        raw = q @ k.transpose(-1, -2)
        s = cap * torch.tanh(raw / cap) if cap else raw
        lse = torch.logsumexp(s.masked_fill(~seen, -math.inf), -1, keepdim=True)
        p = torch.exp(s - lse) * seen
        o = p @ v
        ctx.save_for_backward(q, k, v, gq, gk, seen, distant, s, lse, o)
        ctx.cap = cap
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, v, gq, gk, seen, distant, s, lse, o = ctx.saved_tensors
        causal = torch.ones_like(seen[0]).tril()
        a = torch.exp(torch.clamp(s - lse, max=0.0)) * causal
        delta = a * (do @ v.transpose(-1, -2) - (do * o).sum(-1, keepdim=True))
        ds = delta * seen * (1.0 - (s / ctx.cap) ** 2 if ctx.cap else 1.0)
        dm = delta * distant
        dv = (torch.exp(s - lse) * seen).transpose(-1, -2) @ do
        return (ds @ k, ds.transpose(-1, -2) @ q, dv, dm @ gk, dm.transpose(-1, -2) @ gq, None, None,
                None)


def sinkhorn(s, rounds=10):
    """(T, routers, K) over the T tokens of one sequence."""
    for _ in range(rounds):
        s = s - torch.logsumexp(s, 0, keepdim=True) + math.log(s.shape[0] / K)
        s = s - torch.logsumexp(s, -1, keepdim=True)
    return torch.exp(s)


def one_hot(s, top):
    """Bits of the `top` best groups."""
    return torch.zeros_like(s).scatter_(-1, s.topk(top, -1).indices, 1.0)


class Groups:
    """The groups on one model, and its attention."""

    def __init__(self, config, case):
        (_, self.shared, self.kv, self.raw, self.gate, self.kl, self.top, self.balance,
         self.has_lt) = case
        self.H = config.num_attention_heads
        self.G = getattr(config, "num_key_value_heads", None) or self.H
        self.routers = self.G if self.kv else 1
        C = config.hidden_size
        self.layers = []
        for n in range(config.num_hidden_layers):
            shapes = dict(pk=(self.routers, C, R), e=(self.routers, K, R))
            if not self.shared:
                shapes["pq"] = shapes["pk"]
            if not self.raw:
                shapes |= dict(ak=(self.routers, R), beta=(self.routers, K))
            if not self.raw and not self.shared:
                shapes["aq"] = (self.routers, R)
            if golden_window(config, n):
                shapes = {}
            if self.has_lt:
                shapes["lt"] = (self.H,)
            self.layers.append({w: numbers(w, n, *shapes[w]).requires_grad_(w != "beta")
                                for w in TENSORS if w in shapes})
        self.is_dense = False
        self.g = {}

    def scores(self, h, layer, p, a):
        z = torch.einsum("tc,rcn->trn", h, layer[p])
        e = layer["e"]
        if a in layer:
            z = z + layer[a]
        if not self.raw:
            z, e = (x / x.norm(dim=-1, keepdim=True) for x in (z, e))
        return 10.0 * torch.einsum("trn,rkn->trk", z, e)

    def move(self, s, beta):
        """The balance of docs/MATH.md, 3.2, over all tokens."""
        with torch.no_grad():
            for _ in range(3):
                x = s + beta
                top = self.top if self.shared else 1
                load = 0.5 * torch.softmax(x, -1).mean(0) + 0.5 * one_hot(x, top).mean(0) / top
                if self.balance == 0:
                    beta -= RATE * torch.log(K * load + 0.02)
                    beta -= beta.mean(-1, keepdim=True)
                else:
                    beta += RATE * torch.sign(1.0 / K - load)

    def route(self, h, layer):
        """Soft memberships, and the bits of the hard ones: h is (T, C) of all sequences."""
        sk = self.scores(h, layer, "pk", "ak")
        if not self.raw:
            if self.balance >= 0:
                self.move(sk.detach(), layer["beta"])
            sk = sk + layer["beta"]
        parts = [sk[start:start + count] for start, count in SPANS]
        gk = torch.cat([sinkhorn(x) if self.raw else torch.softmax(x, -1) for x in parts])
        if self.shared:
            bits = one_hot(gk, self.top)
            return gk, gk, bits, bits
        sq = self.scores(h, layer, "pq", "aq")
        return gk, torch.softmax(sq, -1), one_hot(gk, 1), one_hot(sq, self.top)

    def attend(self, module, query, key, value, scaling, softcap, window, h):
        """All of (1, heads, T, D), rows of both sequences."""
        n = module.layer_idx
        layer = self.layers[n]
        T, each = query.shape[2], self.H // self.G
        q, k, v = query[0] * scaling, key[0], value[0]
        if self.has_lt and not self.is_dense:
            q = q * torch.exp(-layer["lt"])[:, None, None]
        i, j = torch.arange(T)[:, None], torch.arange(T)[None]
        causal = torch.zeros(T, T, dtype=torch.bool)
        position = torch.cat([torch.arange(count) for _, count in SPANS])
        for start, count in SPANS:
            inside = slice(start, start + count)
            causal[inside, inside] = torch.ones(count, count).tril().bool()
        if window:
            causal &= i - j < window
        has_router = "pk" in layer and not self.is_dense
        if has_router:
            distant = causal & (i - j > WINDOW) & (position[None] >= SINKS)
            gk, gq, key_bits, query_bits = self.route(h, layer)
        out = []
        for g in range(self.G):
            rows = slice(g * each, (g + 1) * each)
            if has_router:
                r = g if self.kv else 0
                a, b = gq[:, r], gk[:, r]
                m = a @ b.T
                kept = query_bits[:, r] @ key_bits[:, r].T > 0
            if has_router and self.gate == "straight":
                seen = causal & (~distant | kept)
                out.append(Straight.apply(q[rows], k[g], v[g], a, b, seen.expand(each, T, T),
                                          distant, softcap or 0.0))
                continue
            s = q[rows] @ k[g].T
            if softcap:
                s = softcap * torch.tanh(s / softcap)
            if has_router:
                soft = (s * torch.sigmoid(LAMBDA * m) if self.gate == "paper" else
                        s + torch.log(torch.clamp(m, min=1e-6)))
                s = torch.where(distant, soft, s)
            out.append(torch.softmax(s.masked_fill(~causal, -math.inf), -1) @ v[g])
        return torch.cat(out).transpose(0, 1)[None]


def golden_window(config, layer):
    kinds = getattr(config, "layer_types", None)
    return bool(kinds) and kinds[layer] == "sliding_attention"


def hidden_of(model):
    """What each attention reads, noted as it is called."""
    notes = {}
    for module in model.modules():
        if hasattr(module, "layer_idx") and (hasattr(module, "q_proj") or hasattr(module, "c_attn")):
            def note(module, args, kwargs):
                x = args[0] if args else kwargs["hidden_states"]
                notes[module.layer_idx] = x[0]
            module.register_forward_pre_hook(note, with_kwargs=True)
    return notes


def attention(module, query, key, value, mask, scaling=None, softcap=None, sliding_window=None, **_):
    groups = module.config.focal_groups
    if scaling is None:
        scaling = query.shape[-1] ** -0.5
    window = module.config.sliding_window if golden_window(module.config, module.layer_idx) else None
    return groups.attend(module, query, key, value, scaling, softcap, window,
                         groups.notes[module.layer_idx]), None


def run(case):
    name = case[0]
    folder = ROOT / "models" / name
    model = golden_models.reload(golden_models.MODELS[name], folder, "config_5.json")
    model.requires_grad_(False)
    config = model.config
    groups = Groups(config, case)
    groups.notes = hidden_of(model)
    config.focal_groups = groups
    for module in model.modules():
        if hasattr(module, "config"):
            module.config.focal_groups = groups
            module.config._attn_implementation = "focal_groups"
    data = struct.unpack(f"<{golden_models.TOKENS}d",
                         (folder / "expected.bin").read_bytes()[:8 * golden_models.TOKENS])
    ids = torch.tensor([int(x) for x in data])
    places = torch.cat([torch.arange(count) for _, count in SPANS])
    keep = torch.cat([torch.arange(start, start + count - 1) for start, count in SPANS])
    mask = torch.zeros(1, 1, len(ids), len(ids))
    with golden_models.doubles():
        def logits_of():
            x = model(ids[None], position_ids=places[None], use_cache=False,
                      attention_mask={"full_attention": mask, "sliding_attention": mask}
                      if getattr(config, "layer_types", None) else mask).logits[0]
            return torch.log_softmax(x[keep], -1)
        groups.is_dense = True
        with torch.no_grad():
            teacher = logits_of()
        groups.is_dense = False
        student = logits_of()
    kl = (teacher.exp() * (teacher - student)).sum() / len(keep)
    nll = -student[torch.arange(len(keep)), ids[keep + 1]].mean()
    dense = -teacher[torch.arange(len(keep)), ids[keep + 1]].mean()
    (kl if groups.kl else nll).backward()
    values = [mark for layer in groups.layers for w in TENSORS if w in layer and w != "beta"
              for mark in marks(layer[w].grad)]
    beta = [x for layer in groups.layers if "beta" in layer for x in layer["beta"].reshape(-1).tolist()]
    return nll.item(), kl.item(), dense.item(), values, beta


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    AttentionInterface.register("focal_groups", attention)
    golden = Golden()
    for name, case in CASES.items():
        nll, kl, dense, values, beta = run(case)
        parameters = [*case[1:4], GATES[case[4]], *case[5:], len(values) // 4]
        tensors = dict(losses=[nll, kl, dense], marks=values)
        if beta:
            tensors["beta"] = beta
        golden.add(f"{name}.{case[0]}", parameters, **tensors)
        print(f"{name:14} {case[0]:7} nll {nll:.5f}, dense {dense:.5f}, kl {kl:.5f}, "
              f"{len(values) // 4} tensors")
    golden.write(ROOT, "groups")


if __name__ == "__main__":
    main()
