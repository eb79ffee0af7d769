#!/usr/bin/env python3
"""What groups cost a model, on three kinds of text (docs/RESULTS.md, "Focus"), as a table.

    groups_table.py FOCAL -m MODEL --novels DIR --wiki FILE [--top K,...] [-t N] ADAPTER...

Novels: two windows of 8,192 tokens of each file, the first from token 2,000 on, the second halfway
to the end. Encyclopaedia: the first three windows of a text. Both as differences from the loss of
the model without an adapter. Copying: the loss on the last 350 of 400 tokens that come again after
3,000 of another novel, in 16 sequences (`focal eval copy`; docs/MATH.md, 6.2). An adapter is
measured as its files are, its tokens looking into the numbers of groups that --top says; adapters
that see all keys have one row.
"""
import argparse
import json
import pathlib
import shutil
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
        self.options, self.folder = options, pathlib.Path(folder)
        texts = Texts(options, folder)
        self.kinds = {"novels": texts.novels(), "wiki": texts.wiki()}
        self.copied = sorted(pathlib.Path(options.novels).glob("*.txt"))

    def copying(self, *adapter):
        found = lines(self.options.focal, "eval", "copy", "-m", self.options.model, *adapter,
                      *self.copied, "--passage", 400, "--scored", 350, "--lengths", 3800,
                      "--count", 16, "--places", "even", "-t", self.options.threads, "--json")
        return found[0]["loss"]

    def copies(self, adapters):
        """What is measured leaves a file beside an adapter: not in the caller's folders."""
        found = {}
        for n, path in enumerate(adapters):
            copy = self.folder / f"adapter-{n}"
            copy.mkdir()
            for file in path.glob("adapter_*"):
                shutil.copy(file, copy)
            found[str(copy)] = path.name
        return found

    def losses(self, copies):
        """kept and loss of each adapter and setting, by kind of text; dense is read once."""
        found = {}
        for kind, files in self.kinds.items():
            chosen = [word for path in copies for word in ("--adapter", path)]
            rows = lines(self.options.focal, "eval", "groups", "-m", self.options.model, *chosen,
                         *files, "-c", CONTEXT, "--top", self.options.top, "--rounds", 0,
                         "-t", self.options.threads, "--json")
            for row in rows:
                if row["setting"] != "dense":
                    found.setdefault((row["adapter"], row["setting"]), {})[kind] = row
        return found

    def show(self, name, setting, row, copy):
        kept = row["novels"].get("kept")
        kept = f"{100 * kept:.1f} %" if kept is not None else ""
        print(f"| {name} | {setting} | {kept} | {row['novels']['gap']:+.4f} | "
              f"{row['wiki']['gap']:+.4f} | {copy:.3f} |", flush=True)

    def adapters(self, paths):
        copies = self.copies(paths)
        for (path, setting), row in self.losses(copies).items():
            chosen = []
            if setting == "temperatures":
                chosen = ["--adapter-part", "temperatures"]
            elif "top" in row["wiki"]:
                chosen = ["--top", row["wiki"]["top"]]
            self.show(copies[path], setting, row, self.copying("--adapter", path, *chosen))


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
        if options.adapters:
            table.adapters(options.adapters)


if __name__ == "__main__":
    main()
