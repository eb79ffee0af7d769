#!/usr/bin/env python3
"""Decoding from every quantised type: bytes a second beside q4_1's, by turns in one run.

    decode_types.py --model MODEL [--types LIST] [--rounds N] [--files FOLDER] [--json OUT]

Writes MODEL in each type with `focal export` (into FOLDER, where files that are there already are
taken as they are), then times all of them once a round with `focal bench model`. What is printed is
Markdown: bytes a token, and medians over the rounds of tokens and bytes a second, of the share of a
plain read measured in between, and of the ratio to q4_1 in the same round. Rows that are no whole
K blocks (256 elements) become q5_0, q5_1 or q8_0 in files of K types.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BASE = "q4_1"
TYPES = "q4_1,q4_0,q5_0,q5_1,q8_0,q2_K,q3_K,q4_K,q5_K,q6_K"


def write(options, name, folder):
    """The model in that type."""
    path = pathlib.Path(folder) / f"{name}.gguf"
    if not path.exists():
        print(f"decode_types.py: writing {path}", file=sys.stderr)
        subprocess.run([options.focal, "export", "--type", name, options.model, str(path)],
                       check=True, stdout=subprocess.DEVNULL)
    return path


def measure(options, path):
    """Tokens a second, bytes a token, and GB/s of a plain read. The floor is bytes by that read."""
    command = [options.focal, "bench", "model", "-m", str(path), "-p", "0", "-n",
               str(options.tokens), "-r", "3", "-t", str(options.threads), "-o", "json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    row = json.loads(done.stdout)
    token_bytes = 1e9 * row["read_gb_per_s"] / row["floor_ts"]
    return {"ts": row["avg_ts"], "bytes": token_bytes, "share": row["floor_fraction"],
            "gb": 1e-9 * row["avg_ts"] * token_bytes}


def table(samples):
    print("| type | MB a token | tokens a second | GB/s | of a plain read | of q4_1's bytes |\n"
          "|---|---:|---:|---:|---:|---:|")
    for name, rows in samples.items():
        def middle(field, rows=rows):
            return statistics.median(row[field] for row in rows)
        ratio = statistics.median(row["gb"] / base["gb"] for row, base in zip(rows, samples[BASE]))
        print(f"| {name} | {1e-6 * middle('bytes'):.1f} | {middle('ts'):.1f} | {middle('gb'):.1f} | "
              f"{100 * middle('share'):.0f} % | {ratio:.2f}x |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="what focal's -m takes")
    parser.add_argument("--types", default=TYPES, metavar="LIST", help=TYPES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--files", metavar="FOLDER", help="where the files are kept")
    parser.add_argument("--focal", default=str(ROOT / "build" / "focal"), metavar="PROGRAM")
    parser.add_argument("--json", metavar="OUT", help="keeps the samples")
    options = parser.parse_args()
    names = options.types.split(",")
    if BASE not in names:
        names.insert(0, BASE)
    with tempfile.TemporaryDirectory() as folder:
        files = {name: write(options, name, options.files or folder) for name in names}
        samples = {name: [] for name in names}
        for _ in range(options.rounds):
            for name, path in files.items():
                samples[name].append(measure(options, path))
    table(samples)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(samples), encoding="utf-8")


if __name__ == "__main__":
    main()
