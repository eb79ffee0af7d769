#!/usr/bin/env python3
"""Writes the golden vectors of quantised types: tests/golden/quant.manifest and quant.bin.

Blocks of random bytes with chosen scales and the floats that the gguf package reads from them, and
rows of floats with the bytes it writes for them. Bytes and floats stand as 32-bit words (bytes
padded to whole ones), one word a double. Usage: tools/golden_quant.py [FOLDER]
"""
import pathlib
import struct
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quantize

# focal's number of each type, and where its float16 scales stand in a block.
TYPES = {
    "BF16": (1, []), "F16": (2, []), "Q8_0": (3, [0]), "Q4_0": (4, [0]), "Q4_1": (5, [0, 2]),
    "Q5_0": (6, [0]), "Q5_1": (7, [0, 2]), "Q2_K": (8, [80, 82]), "Q3_K": (9, [108]),
    "Q4_K": (10, [0, 2]), "Q5_K": (11, [0, 2]), "Q6_K": (12, [208]), "IQ4_NL": (13, [0]),
}
WRITTEN = ["BF16", "F16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
# Zeros, the smallest and largest subnormal, ordinary ones of both signs, the largest number.
SCALES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x03FF, 0x2C5A, 0xA931, 0x7BFF]
FEW = len(SCALES)


class Golden:
    """Cases with parameters and tensors, in the form that tests/support/golden.c reads."""

    def __init__(self):
        self.lines, self.data = ["focal golden 1"], []

    def add(self, name, parameters, **tensors):
        self.lines.append(f"case {name} " + " ".join(repr(float(x)) for x in parameters))
        for tensor, x in tensors.items():
            raw = np.ascontiguousarray(x).tobytes()
            words = np.frombuffer(raw + bytes(-len(raw) % 4), dtype="<u4")
            self.lines.append(f"tensor {tensor} {len(self.data)} {words.size}")
            self.data += words.astype(np.float64).tolist()

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "quant.manifest").write_text("\n".join(self.lines) + "\n")
        (folder / "quant.bin").write_bytes(struct.pack(f"<{len(self.data)}d", *self.data))


def read_blocks(golden, rng, name, number, places):
    kind = GGMLQuantizationType[name]
    elements, size = GGML_QUANT_SIZES[kind]
    if places:
        blocks = rng.integers(0, 256, size=(FEW, size), dtype=np.uint8)
        for at in places:
            scales = np.array(rng.permutation(SCALES), dtype="<u2")
            blocks[:, at:at + 2] = scales.view(np.uint8).reshape(FEW, 2)
    else:  # single numbers: infinities, NaN and subnormals too
        odd = np.array([0x7C00, 0xFC00, 0x7C01, 0x7E00, 0xFFFF, 0x7F80, 0xFF80, 0x7F81, 0x0080])
        words = np.concatenate([SCALES, odd, rng.integers(0, 65536, size=47)]).astype("<u2")
        blocks = words.view(np.uint8).reshape(1, -1)
    values = dequantize(blocks, kind).astype("<f4")
    golden.add(f"read_{name.lower()}", [number, values.size], bytes=blocks, values=values)


def rows(rng):
    """24 blocks of 32: of several sizes, ties, zeros of both signs, one number, tiny ones."""
    x = rng.standard_normal((24, 32)).astype(np.float32)
    x[4:8] *= np.float32(1e-3)
    x[8:10] *= np.float32(5000.0)
    x[10:12] *= np.float32(1e-6)
    x[12] *= np.float32(1e-41)
    x[13] *= np.float32(1e-38)
    x[14] = 0.0
    x[15] = -0.0
    x[16] = 3.25
    x[17] = -0.7
    x[18] = np.arange(32) - 16.0  # the largest magnitude is negative
    x[19] = 16.0 - np.arange(32)
    x[20] = np.round(x[20] * 4.0) / 2.0
    x[21] = np.abs(x[21])
    x[22] = -np.abs(x[22])
    x[23, 1:] = 0.0
    return x


def main():
    folder = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
    if len(sys.argv) > 1:
        folder = pathlib.Path(sys.argv[1])
    rng = np.random.default_rng(20)
    golden = Golden()
    for name, (number, places) in TYPES.items():
        read_blocks(golden, rng, name, number, places)
    x = rows(rng)
    golden.add("rows", x.shape, x=x)
    for name in WRITTEN:
        with np.errstate(all="ignore"):
            written = quantize(x, GGMLQuantizationType[name])
        golden.add(f"write_{name.lower()}", [TYPES[name][0], written.nbytes], bytes=written)
    golden.write(folder)


if __name__ == "__main__":
    main()
