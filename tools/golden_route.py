#!/usr/bin/env python3
"""Writes the golden vectors of routing: tests/golden/route.manifest and route.bin.

Everything is float64 and follows docs/MATH.md, 3, with PyTorch and NumPy; gradients are
autograd's. Usage: tools/golden_route.py [FOLDER]
"""
import pathlib
import struct
import sys

import numpy as np
import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


class Golden:
    """Cases with parameters and tensors, in the form that tests/support/golden.c reads."""

    def __init__(self):
        self.lines, self.data = ["focal golden 1"], []

    def add(self, name, parameters, **tensors):
        self.lines.append(f"case {name} " + " ".join(repr(float(x)) for x in parameters))
        for tensor, x in tensors.items():
            x = np.asarray(x.detach() if torch.is_tensor(x) else x, dtype=np.float64).reshape(-1)
            self.lines.append(f"tensor {tensor} {len(self.data)} {x.size}")
            self.data += x.tolist()

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "route.manifest").write_text("\n".join(self.lines) + "\n")
        (folder / "route.bin").write_bytes(struct.pack(f"<{len(self.data)}d", *self.data))


def unit(x):
    return x / x.norm(dim=-1, keepdim=True)


def leaf(generator, *shape):
    return torch.randn(*shape, generator=generator).requires_grad_()


def scores(golden, name, seed, T, C, R, K, routers, raw, shared, offsets):
    """3.1; shared means one projection for keys and queries."""
    g = torch.Generator().manual_seed(seed)
    sharpness = 1.25 if raw else 10.0
    h, pk, e = leaf(g, T, C), leaf(g, routers, C, R), leaf(g, routers, K, R)
    beta = torch.randn(routers, K, generator=g)
    pq = pk if shared else leaf(g, routers, C, R)
    ak = leaf(g, routers, R) if offsets else torch.zeros(routers, R)
    aq = ak if shared or not offsets else leaf(g, routers, R)
    norm = (lambda x: x) if raw else unit
    zk = norm(torch.einsum("tc,ncr->tnr", h, pk) + ak)
    zq = norm(torch.einsum("tc,ncr->tnr", h, pq) + aq)
    sk = sharpness * torch.einsum("tnr,nkr->tnk", zk, norm(e)) + beta
    sq = sharpness * torch.einsum("tnr,nkr->tnk", zq, norm(e))
    dsk, dsq = (torch.randn(T, routers, K, generator=g) for _ in range(2))
    ((sk * dsk).sum() + (sq * dsq).sum()).backward()
    arrays = dict(h=h, pk=pk, e=e, beta=beta,
                  sk=sk, sq=sq, dsk=dsk, dsq=dsq, dh=h.grad, dpk=pk.grad, de=e.grad)
    if offsets:
        arrays.update(ak=ak, dak=ak.grad)
    if not shared:
        arrays.update(pq=pq, dpq=pq.grad)
        if offsets:
            arrays.update(aq=aq, daq=aq.grad)
    golden.add(name, [T, C, R, K, routers, raw, sharpness], **arrays)


def groups(golden, name, seed, T, routers, K, rounds, spread):
    """3.2, paper: rounds of columns to T/K, rows to 1; no rounds: softmax."""
    g = torch.Generator().manual_seed(seed)
    s = (spread * torch.randn(T, routers, K, generator=g)).requires_grad_()
    log = s
    for _ in range(rounds):
        log = log - torch.logsumexp(log, dim=0, keepdim=True) + np.log(T / K)
        log = log - torch.logsumexp(log, dim=2, keepdim=True)
    soft = torch.softmax(s, dim=2) if rounds == 0 else log.exp()
    dg = torch.randn(T, routers, K, generator=g)
    (soft * dg).sum().backward()
    load = soft.mean(dim=0)
    entropy = -torch.special.xlogy(soft, soft).sum(dim=2).mean(dim=0)
    golden.add(name, [T, routers, K, rounds], s=s, g=soft, dg=dg, ds=s.grad, load=load,
               entropy=entropy)


def balance(golden, name, seed, kind, T, routers, K, top, rounds, rate):
    """3.2, causal: beta moves, and the scores with it."""
    g = torch.Generator().manual_seed(seed)
    beta = 0.3 * torch.randn(routers, K, generator=g)
    bare = 3 * torch.randn(T, routers, K, generator=g) + torch.linspace(2, 0, K)
    before = dict(sk=bare + beta, beta=beta.clone())
    for _ in range(rounds):
        sk = bare + beta
        hard = torch.zeros_like(sk).scatter_(2, sk.topk(top, dim=2).indices, 1.0 / top)
        load = 0.5 * torch.softmax(sk, dim=2).mean(dim=0) + 0.5 * hard.mean(dim=0)
        if kind == 0:
            beta = beta - rate * torch.log(K * load + 0.02)
            beta = beta - beta.mean(dim=1, keepdim=True)
        else:
            beta = beta + rate * torch.sign(1.0 / K - load)
    golden.add(name, [kind, T, routers, K, top, rounds, rate], **before,
               sk_after=bare + beta, beta_after=beta, load=load)


def top(golden, name, seed, rows, K, k):
    """3.3: best first, ties to the lower index, NaN last; few distinct values make many ties."""
    rng = np.random.default_rng(seed)
    s = rng.integers(-2, 3, size=(rows, K)).astype(np.float64)
    s[rng.random((rows, K)) < 0.1] = np.nan
    s[rng.random((rows, K)) < 0.1] = -np.inf
    order = np.argsort(-np.nan_to_num(s, nan=-np.inf, neginf=-np.inf), axis=1, kind="stable")
    golden.add(name, [rows, K, k], s=s, groups=order[:, :k])


def kmeans(golden, name, seed, T, R, K):
    """3.4: one round of spherical k-means; the last centroid is nobody's and stays."""
    rng = np.random.default_rng(seed)
    z, e = rng.normal(size=(T, R)), rng.normal(size=(K, R))
    z[:, 0] = np.abs(z[:, 0]) + 1.0
    z, e = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (z, e))
    e[-1] = -z.mean(axis=0) / np.linalg.norm(z.mean(axis=0))
    member = np.eye(K)[(z @ e.T).argmax(axis=1)]
    assert member[:, -1].sum() == 0
    moved = member.T @ z + 1e-3 * e
    golden.add(name, [T, R, K], z=z, e=e,
               e_after=moved / np.linalg.norm(moved, axis=1, keepdims=True))


def power(m, exponent):
    values, vectors = np.linalg.eigh(m)
    values = np.maximum(values, 1e-5 * values.max())
    return vectors @ np.diag(values**exponent) @ vectors.T


def start(golden, name, seed, T, C, H, G, D, R, routers, given, biased, interleaved, distances):
    """3.4 up to the centroids. Directions have a free sign, so products are written."""
    rng = np.random.default_rng(seed)
    h = rng.normal(size=(T, C)) * np.linspace(1.5, 0.5, C) + 0.2 * rng.normal(size=C)
    wq, wk = rng.normal(size=(H * D, C)), rng.normal(size=(G * D, C))
    bq = 0.5 * rng.normal(size=H * D) if biased else np.zeros(H * D)
    q, k = h @ wq.T + bq, h @ wk.T
    if not given:
        q, k = np.tanh(q), np.tanh(k)
        wq = np.linalg.lstsq(h, q, rcond=None)[0].T
        wk = np.linalg.lstsq(h, k, rcond=None)[0].T
    q, k = q.reshape(T, H, D), k.reshape(T, G, D)
    freq = 1.0 / 50.0 ** (np.arange(D // 2) / (D // 2))
    rot = np.zeros((D, D))
    for d in range(distances[0], distances[1] + 1):
        for n in range(D // 2):
            a, b = (2 * n, 2 * n + 1) if interleaved else (n, n + D // 2)
            c, s = np.cos(-d * freq[n]), np.sin(-d * freq[n])
            rot[np.ix_([a, b], [a, b])] += np.array([[c, -s], [s, c]])
    rot /= distances[1] - distances[0] + 1
    moments = [q[:, n].T @ q[:, n] / T for n in range(H)]
    covariances = [np.cov(k[:, n].T, bias=True) for n in range(G)]
    shared_by = H // G
    out = dict(pkpk=[], pkpq=[], pqpq=[], pkak=[], pkaq=[])
    for r in range(routers):
        keys = [r] if routers > 1 else list(range(G))
        queries = [g * shared_by + n for g in keys for n in range(shared_by)]
        x = np.zeros((len(queries) * D, len(keys) * D))
        for row, n in enumerate(queries):
            column = keys.index(n // shared_by)
            x[row * D:(row + 1) * D, column * D:(column + 1) * D] = (
                power(moments[n], 0.5) @ rot @ power(covariances[n // shared_by], 0.5))
        u, sigma, vt = np.linalg.svd(x, full_matrices=False)
        assert R == len(sigma) or (sigma[R - 1] - sigma[R]) > 0.01 * sigma[0]
        root = np.diag(np.sqrt(sigma[:R]))
        pk = sum(root @ vt[:R, c * D:(c + 1) * D] @ power(covariances[n], -0.5)
                 @ wk[n * D:(n + 1) * D] for c, n in enumerate(keys)).T
        maps = [root @ u[row * D:(row + 1) * D, :R].T @ power(moments[n], -0.5)
                for row, n in enumerate(queries)]
        pq = sum(m @ wq[n * D:(n + 1) * D] for m, n in zip(maps, queries)).T
        aq = sum(m @ bq[n * D:(n + 1) * D] for m, n in zip(maps, queries))
        pk = pk / np.sqrt((pk**2).mean() * C)
        scale = 1.0 / np.sqrt((pq**2).mean() * C)
        pq, aq = scale * pq, scale * aq
        ak = -(h @ pk).mean(axis=0)
        for key, value in dict(pkpk=pk @ pk.T, pkpq=pk @ pq.T, pqpq=pq @ pq.T, pkak=pk @ ak,
                               pkaq=pk @ aq).items():
            out[key].append(value)
    arrays = dict(h=h, q=q, k=k, rope_freq=freq)
    if given:
        arrays.update(wq=wq, wk=wk)
    if biased:
        arrays.update(bq=bq)
    golden.add(name, [T, C, H, G, D, R, routers, interleaved, *distances], **arrays,
               **{key: np.stack(value) for key, value in out.items()})


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    golden = Golden()
    scores(golden, "scores_unit", 1, 7, 10, 5, 4, 2, False, False, True)
    scores(golden, "scores_bare", 2, 5, 6, 3, 3, 1, False, False, False)
    scores(golden, "scores_shared", 3, 6, 8, 4, 5, 2, False, True, True)
    scores(golden, "scores_paper", 4, 6, 9, 4, 4, 1, True, True, False)
    groups(golden, "softmax", 5, 9, 2, 5, 0, 3.0)
    groups(golden, "sinkhorn_1", 6, 8, 1, 4, 1, 2.0)
    groups(golden, "sinkhorn_10", 7, 23, 2, 5, 10, 4.0)
    groups(golden, "sinkhorn_few", 8, 3, 1, 7, 10, 3.0)
    balance(golden, "balance_log", 9, 0, 31, 2, 5, 1, 3, 0.55)
    balance(golden, "balance_log_shared", 10, 0, 20, 1, 6, 2, 5, 0.3)
    balance(golden, "balance_sign", 11, 1, 23, 2, 4, 1, 4, 0.11)
    top(golden, "top", 12, 24, 9, 4)
    kmeans(golden, "kmeans", 17, 20, 3, 4)
    start(golden, "start_kv", 13, 40, 9, 4, 2, 4, 3, 2, True, False, False, (3, 30))
    start(golden, "start_layer", 14, 40, 9, 4, 2, 4, 3, 1, True, True, False, (3, 30))
    start(golden, "start_interleaved", 15, 36, 10, 2, 1, 6, 4, 1, True, True, True, (2, 17))
    start(golden, "start_fitted", 16, 50, 8, 4, 2, 4, 2, 2, False, False, False, (0, 12))
    golden.write(folder)


if __name__ == "__main__":
    main()
