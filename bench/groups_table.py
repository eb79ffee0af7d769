#!/usr/bin/env python3
"""What groups cost a model, on three kinds of text (docs/RESULTS.md, "Focus"), as a table.

    groups_table.py FOCAL -m MODEL --novels DIR --wiki FILE [--top K,...] [-t N] ADAPTER...

Novels: two windows of 8,192 tokens of each file, the first from token 2,000 on, the second halfway
to the end. Encyclopaedia: the first three windows of a text. Both as differences from the loss of
the model without an adapter. Copying: the loss on 400 tokens that come again after 3,000 of another
novel (`focal eval copy`). An adapter is measured as its files are, with its own number of groups a
token looks into and with those of --top. Rows come as they are measured.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

CONTEXT = 8192
SKIPPED = 2000


def run(*command, text=None):
    done = subprocess.run([str(part) for part in command], check=False, input=text,
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"groups_table.py: {' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def lines(*command):
    return [json.loads(line) for line in run(*command).splitlines()]


class Texts:
    """Windows of a text, each a file that begins where the window does."""

    def __init__(self, options, folder):
        self.options, self.folder = options, pathlib.Path(folder)

    def cut(self, name, ids, first):
        path = self.folder / name
        part = " ".join(map(str, ids[first:first + CONTEXT + 1]))
        path.write_text(run(self.options.focal, "tokenize", "-m", self.options.model, "--decode",
                            "-f", "-", text=part), encoding="utf-8")
        return path

    def ids(self, path):
        return json.loads(run(self.options.focal, "tokenize", "-m", self.options.model, "-f", path,
                              "--json"))["ids"]

    def novels(self):
        found = []
        for path in sorted(pathlib.Path(self.options.novels).glob("*.txt")):
            ids = self.ids(path)
            step = (len(ids) - CONTEXT - SKIPPED - 1) // 2
            found += [self.cut(f"{path.stem}-{n}.txt", ids, SKIPPED + n * step) for n in range(2)]
        return found

    def wiki(self):
        ids = self.ids(self.options.wiki)
        return [self.cut(f"wiki-{n}.txt", ids, n * CONTEXT) for n in range(3)]


class Table:
    def __init__(self, options, folder):
        self.options = options
        texts = Texts(options, folder)
        self.measure_file = pathlib.Path(folder) / "measure.json"
        self.kinds = {"novels": texts.novels(), "wiki": texts.wiki()}
        self.copied = sorted(pathlib.Path(options.novels).glob("*.txt"))

    def copying(self, *adapter):
        found = lines(self.options.focal, "eval", "copy", "-m", self.options.model, *adapter,
                      *self.copied, "--passage", 400, "--scored", 350, "--lengths", 3800,
                      "--count", 16, "--places", "even", "-t", self.options.threads, "--json")
        return found[0]["loss"]

    def losses(self, adapter):
        """kept and loss of each setting, by kind of text."""
        found = {}
        for kind, files in self.kinds.items():
            rows = lines(self.options.focal, "eval", "groups", "-m", self.options.model,
                         "--adapter", adapter, *files, "-c", CONTEXT, "--top", self.options.top,
                         "--rounds", 0, "-o", self.measure_file, "-t", self.options.threads,
                         "--json")
            for row in rows:
                found.setdefault(row["setting"], {})[kind] = row
        return found

    def show(self, name, setting, row, copy):
        kept = row["novels"].get("kept")
        kept = f"{100 * kept:.1f} %" if kept is not None else ""
        print(f"| {name} | {setting} | {kept} | {row['novels']['gap']:+.4f} | "
              f"{row['wiki']['gap']:+.4f} | {copy:.3f} |", flush=True)

    def adapter(self, path):
        for setting, row in self.losses(path).items():
            if setting == "dense":
                continue
            chosen = []
            if setting == "temperatures":
                chosen = ["--adapter-part", "temperatures"]
            elif setting.startswith("top "):
                chosen = ["--top", setting.split()[1]]
            self.show(path.name, setting, row, self.copying("--adapter", path, *chosen))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("focal")
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--novels", required=True)
    parser.add_argument("--wiki", required=True)
    parser.add_argument("--top", default="2,4")
    parser.add_argument("-t", "--threads", default=2)
    parser.add_argument("adapters", nargs="*", type=pathlib.Path)
    options = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        table = Table(options, folder)
        print("| adapter | setting | distant pairs kept | novels | WikiText | copy |\n"
              "|---|---|---|---|---|---|")
        print(f"| none | dense | 100 % | 0 | 0 | {table.copying():.3f} |", flush=True)
        for path in options.adapters:
            table.adapter(path)


if __name__ == "__main__":
    main()
