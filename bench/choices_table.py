#!/usr/bin/env python3
"""What an adapter does to multiple choice (docs/RESULTS.md, "Focus"), as a table.

    choices_table.py FOCAL -m MODEL ITEMS.jsonl [--task NAME]... [--sample N] [--prefix-tokens N]
                     [-t N] [NAME=ADAPTER[:PART]]...

ITEMS are those of `focal eval mc`. Each task is asked twice: as it is, and behind worked examples,
items of the same task that are not asked, each with its right choice. The share of items whose
right choice has the highest log-probability (TruthfulQA) or the highest a byte (the others, whose
choices differ in length), without an adapter and with each; behind it, over the same items, what
an adapter changes and the standard error of that. PART is what of an adapter runs
(--adapter-part): temperatures, groups.
"""
import argparse
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

TASKS = ["truthfulqa_mc1_like", "hellaswag", "arc_easy"]
BY_LOG_PROBABILITY = {"truthfulqa_mc1_like"}
EXAMPLES = 60  # at most: more text than the prefix takes


def read_items(path, task):
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [item for item in lines if item["task"] == task]


def worked(item):
    """An item and its right choice, as `focal eval mc` joins them."""
    context, choice = item["ctx"], item["choices"][item["gold"]]
    gap = "" if context[-1:].isspace() or choice[:1].isspace() else " "
    return f"{context}{gap}{choice}\n\n"


class Asker:
    """Runs `focal eval mc` over the items of a task, with and without worked examples."""

    def __init__(self, options, folder):
        self.options, self.folder = options, pathlib.Path(folder)

    def cut(self, task):
        """The file of the items that are asked, and that of the examples."""
        items = read_items(self.options.items, task)
        if not items:
            sys.exit(f"choices_table.py: {self.options.items} has no items of {task}")
        random.Random(self.options.seed).shuffle(items)
        examples, asked = items[:EXAMPLES], items[EXAMPLES:][:self.options.sample]
        paths = self.folder / f"{task}.jsonl", self.folder / f"{task}.txt"
        paths[0].write_text("".join(json.dumps(item) + "\n" for item in asked), encoding="utf-8")
        paths[1].write_text("".join(map(worked, examples)), encoding="utf-8")
        return paths

    def ask(self, task, items, prefix, adapter):
        """For each item whether it was answered rightly."""
        answers = self.folder / "answers.jsonl"
        command = [self.options.focal, "eval", "mc", "-m", self.options.model, items, "-t",
                   self.options.threads, "--per-item", answers, "--json", *adapter]
        if prefix:
            command += ["--prefix", prefix, "--prefix-tokens", self.options.prefix_tokens]
        done = subprocess.run([str(word) for word in command], check=False, capture_output=True,
                              text=True)
        if done.returncode != 0:
            sys.exit(f"choices_table.py: {' '.join(map(str, command))}: {done.stderr.strip()}")
        pick = "pick" if task in BY_LOG_PROBABILITY else "pick_by_length"
        lines = [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]
        return [line[pick] == line["answer"] for line in lines]


def share(right):
    mean = sum(right) / len(right)
    return f"{100 * mean:.1f}"


def change(right, before):
    """The mean difference over the same items and its standard error, in percent."""
    each = [int(a) - int(b) for a, b in zip(right, before, strict=True)]
    mean = sum(each) / len(each)
    spread = math.sqrt(sum((x - mean) ** 2 for x in each) / (len(each) - 1) / len(each))
    return f"{100 * mean:+.1f} ± {100 * spread:.1f}"


def adapter_words(text):
    """NAME=ADAPTER[:PART] as a name and the options of focal."""
    name, _, rest = text.partition("=")
    path, _, part = rest.partition(":")
    if not rest or not pathlib.Path(path).is_dir():
        sys.exit(f"choices_table.py: {text}: not NAME=ADAPTER[:PART]")
    return name, ["--adapter", path, *(["--adapter-part", part] if part else [])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("focal")
    parser.add_argument("items", type=pathlib.Path)
    parser.add_argument("adapters", nargs="*")
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--task", action="append", default=[])
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--prefix-tokens", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-t", "--threads", default=2)
    options = parser.parse_intermixed_args()
    rows = [("none", [])] + [adapter_words(text) for text in options.adapters]
    print("| task | items | tokens before them | adapter | right, % | change |\n"
          "|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        asker = Asker(options, folder)
        for task in options.task or TASKS:
            items, examples = asker.cut(task)
            for prefix in (None, examples):
                before = None
                for name, adapter in rows:
                    right = asker.ask(task, items, prefix, adapter)
                    changed = change(right, before) if before else ""
                    before = before or right
                    tokens = options.prefix_tokens if prefix else 0
                    print(f"| {task} | {len(right)} | {tokens:,} | {name} | {share(right)} | "
                          f"{changed} |", flush=True)


if __name__ == "__main__":
    main()
