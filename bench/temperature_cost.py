#!/usr/bin/env python3
"""What a temperature costs: instructions of a step of training with each kind, beside a step with t = 1.

    temperature_cost.py --focal PROGRAM [--dtype f32|bf16] [-j JOBS] [--json] [OPTION VALUE]...

Callgrind counts what lies within steps of `focal bench train` (avx2 kernels, one thread); further words go
there, such as --width 512. Without any the model is small: 1 layer, width 256, ffn 704, vocabulary 256,
128 tokens; half a minute for each kind. Prints a Markdown table; fails when a kind costs 1 % or more. Needs
valgrind.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

KINDS = ["none", "constant", "learned", "learned-paper", "per-head", "length"]
SMALL = "--layers 1 --width 256 --ffn 704 --vocab 256 --heads 4 --length 128 --batch 1".split()
LIMIT = 0.01


def instructions(program, dtype, shape, kind):
    """Of one step: callgrind's sum over its calls."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
                        "--toggle-collect=focal_train_bench_step", program, "bench", "train", *shape,
                        "--dtype", dtype, "--kernel", "avx2", "--runs", "1", "--seconds", "0", "-t", "1",
                        "--temperature", kind, "--json"], check=True, capture_output=True)
        text = out.read_text()
    number = re.search(r"^c?fn=\((\d+)\) focal_train_bench_step$", text, re.M).group(1)
    calls = re.findall(rf"^cfn=\({number}\).*\n(?:c?ob=.*\n|c?fi=.*\n)*calls=(\d+)", text, re.M)
    return int(re.search(r"^summary: (\d+)", text, re.M).group(1)) / sum(map(int, calls))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--focal", required=True, metavar="PROGRAM")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    o, shape = parser.parse_known_args()
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        counts = dict(zip(KINDS, pool.map(
            lambda kind: instructions(o.focal, o.dtype, shape or SMALL, kind), KINDS)))
    more = {kind: counts[kind] / counts["none"] - 1.0 for kind in KINDS[1:]}
    if o.json:
        print(json.dumps(dict(dtype=o.dtype, shape=shape or SMALL, instructions=counts, more=more)))
    else:
        print(f"{' '.join(shape or SMALL)} --dtype {o.dtype}: {counts['none'] / 1e6:,.1f} M instructions a step\n")
        print("| temperature | more instructions |\n|---|---:|")
        for kind, part in more.items():
            print(f"| {kind} | {100 * part:.3f} % |")
    return 0 if max(more.values()) < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
