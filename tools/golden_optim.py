#!/usr/bin/env python3
"""Writes the golden vectors of losses' gradients and optimisers: tests/golden/optim.manifest, .bin.

Inputs are float32 numbers, results float64 by PyTorch's own functions where it has them: autograd
through cross_entropy, logsumexp, tanh and kl_div; torch.optim.AdamW on float64. torch.optim.Muon
multiplies in bfloat16, so its weights (`model`) are only near; `weights` are the same steps written
down in float64. Usage: tools/golden_optim.py [FOLDER]
"""
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

    def write(self, folder, name):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.manifest").write_text("\n".join(self.lines) + "\n")
        (folder / f"{name}.bin").write_bytes(struct.pack(f"<{len(self.data)}d", *self.data))


def uncap(capped, cap):
    """What the soft-cap made `capped` of, in float64, ready for autograd."""
    wide = capped.double()
    return (cap * torch.atanh(wide / cap) if cap else wide).requires_grad_()


def recap(raw, cap):
    return cap * torch.tanh(raw / cap) if cap else raw


def logits_of(T, V, spread, cap):
    x = spread * torch.randn(T, V)
    return (cap * torch.tanh(x.double() / cap)).float() if cap else x


def loss(golden, name, seed, T, V, spread, z, cap):
    """Mean over the positions that have a target; those without have -1."""
    torch.manual_seed(seed)
    capped = logits_of(T, V, spread, cap)
    targets = torch.randint(V, (T,))
    targets[T // 2] = -1
    scale = 1.0 / (targets >= 0).sum().item()
    raw = uncap(capped, cap)
    logits = recap(raw, cap)
    nll = F.cross_entropy(logits, targets, reduction="none", ignore_index=-1)
    lse = torch.logsumexp(logits, -1) * (targets >= 0)
    (scale * (nll + z * lse**2).sum()).backward()
    golden.add(name, [T, V, scale, z, cap], logits=capped, targets=targets, nll=nll, lse=lse,
               dlogits=raw.grad)


def divergence(golden, name, seed, T, V, spread, cap, scale):
    torch.manual_seed(seed)
    teacher = logits_of(T, V, spread, cap)
    student = logits_of(T, V, spread, cap)
    raw = uncap(student, cap)
    kl = F.kl_div(torch.log_softmax(recap(raw, cap), -1), torch.log_softmax(teacher.double(), -1),
                  log_target=True, reduction="none").sum(-1)
    (scale * kl.sum()).backward()
    golden.add(name, [T, V, scale, cap], teacher=teacher, student=student, kl=kl, dlogits=raw.grad)


def adamw(golden, name, seed, count, steps, rate, beta1, beta2, epsilon, decay, factor):
    torch.manual_seed(seed)
    start = torch.randn(count)
    gradients = torch.randn(steps, count) * torch.logspace(-4, 2, count)
    results = {}
    for dtype in (torch.float64, torch.float32):
        w = torch.nn.Parameter(start.to(dtype, copy=True))
        optimiser = torch.optim.AdamW([w], lr=rate, betas=(beta1, beta2), eps=epsilon,
                                      weight_decay=decay)
        path = []
        for g in gradients:
            w.grad = factor * g.to(dtype)
            optimiser.step()
            path.append(w.detach().clone())
        results[dtype] = torch.stack(path)
        if dtype == torch.float64:
            state = optimiser.state[w]
    golden.add(name, [count, steps, rate, beta1, beta2, epsilon, decay, factor], start=start,
               gradients=gradients, weights=results[torch.float64], model=results[torch.float32],
               first=state["exp_avg"], second=state["exp_avg_sq"])


def orthogonal(x):
    """Five Newton-Schulz steps in float64, on the matrix or its transpose, whichever is wide."""
    is_tall = x.shape[0] > x.shape[1]
    x = x.T if is_tall else x
    x = x / x.norm()
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if is_tall else x


def muon(golden, name, seed, rows, cols, steps, rate, beta, decay, plain, rule):
    """rule 0: 0.2 sqrt(max(rows, cols)), 1: sqrt(max(1, rows / cols))."""
    torch.manual_seed(seed)
    start = torch.randn(rows, cols)
    gradients = torch.randn(steps, rows, cols)
    size = (0.2 * max(rows, cols)**0.5, max(1.0, rows / cols)**0.5)[rule]
    w, m, path = start.double(), torch.zeros(rows, cols).double(), []
    parameter = torch.nn.Parameter(start.clone())
    optimiser = torch.optim.Muon([parameter], lr=rate, weight_decay=decay, momentum=beta,
                                 nesterov=not plain,
                                 adjust_lr_fn=("match_rms_adamw", "original")[rule])
    for g in gradients:
        m = beta * m + (1 - beta) * g.double()
        w = w - rate * decay * w - rate * size * orthogonal(
            m if plain else (1 - beta) * g.double() + beta * m)
        path.append(w)
        parameter.grad = g.clone()
        optimiser.step()
    golden.add(name, [rows, cols, steps, rate, beta, decay, plain, rule], start=start,
               gradients=gradients, weights=torch.stack(path), model=parameter, momentum=m)


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
    golden = Golden()
    loss(golden, "loss_plain", 1, 5, 7, 2.0, 0.0, 0.0)
    loss(golden, "loss_wide", 2, 3, 301, 6.0, 0.0, 0.0)
    loss(golden, "loss_z", 3, 4, 33, 3.0, 1e-2, 0.0)
    loss(golden, "loss_cap", 4, 4, 50, 4.0, 0.0, 5.0)
    loss(golden, "loss_z_cap", 5, 3, 129, 20.0, 1e-4, 30.0)
    divergence(golden, "kl_plain", 11, 3, 65, 2.0, 0.0, 0.25)
    divergence(golden, "kl_cap", 12, 2, 257, 5.0, 10.0, 1.0)
    adamw(golden, "adamw_usual", 21, 37, 6, 3e-4, 0.9, 0.95, 1e-8, 0.1, 1.0)
    adamw(golden, "adamw_clipped", 22, 19, 4, 1e-2, 0.9, 0.999, 1e-8, 0.01, 0.125)
    adamw(golden, "adamw_bare", 23, 16, 3, 0.1, 0.0, 0.0, 1e-3, 0.0, 1.0)
    muon(golden, "muon_wide", 31, 5, 9, 3, 0.02, 0.95, 0.1, False, 0)
    muon(golden, "muon_tall", 32, 37, 12, 3, 0.02, 0.95, 0.1, False, 1)
    muon(golden, "muon_square", 33, 17, 17, 2, 0.01, 0.9, 0.0, True, 0)
    muon(golden, "muon_row", 34, 1, 6, 2, 0.05, 0.95, 0.01, False, 1)
    golden.write(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default, "optim")


if __name__ == "__main__":
    main()
