#!/usr/bin/env python3
"""Writes PyTorch's gradients of a linear layer: tests/golden/matmul_grads.manifest and .bin.

Inputs are float32 numbers, gradients float64. Usage: tools/golden_matmul.py [FOLDER]
"""
import pathlib
import struct
import sys

import torch

torch.set_num_threads(1)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/golden")
    lines, data = ["focal golden 1"], []
    # M, N, K, whether the weights lie (K,N), as GPT-2's do
    for seed, (M, N, K, transposed) in enumerate([(1, 1, 1, 0), (7, 5, 3, 0), (20, 33, 17, 1),
                                                  (34, 12, 40, 0)]):
        torch.manual_seed(seed)
        x, dy = torch.randn(M, K), torch.randn(M, N)
        w = torch.randn(K, N) if transposed else torch.randn(N, K)
        inputs = [t.double().requires_grad_() for t in (x, w, torch.randn(N))]
        y = inputs[0] @ inputs[1] + inputs[2] if transposed else torch.nn.functional.linear(*inputs)
        y.backward(dy.double())
        tensors = dict(x=x, w=w, dy=dy, dx=inputs[0].grad, dw=inputs[1].grad, dbias=inputs[2].grad)
        lines.append(f"case linear_{seed} {M} {N} {K} {transposed}")
        for name, tensor in tensors.items():
            values = tensor.double().reshape(-1).tolist()
            lines.append(f"tensor {name} {len(data)} {len(values)}")
            data += values
    (folder / "matmul_grads.manifest").write_text("\n".join(lines) + "\n")
    (folder / "matmul_grads.bin").write_bytes(struct.pack(f"<{len(data)}d", *data))


if __name__ == "__main__":
    main()
