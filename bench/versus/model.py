#!/usr/bin/env python3
"""focal beside llama.cpp and transformers: the same model file, the same threads, by turns.

    model.py --model FILE.gguf [--also [pp=|tg=]FILE.gguf] [--tests LIST] [--rounds N] [--json OUT]
    model.py --table OUT...

Tests, in llama-bench's notation: pp512 is a prompt of 512 tokens, tg64 are 64 tokens one after the
other, @d8192 behind 8,192 others; peak8192 is the most memory of a fresh process that reads 8,192
tokens, first8160 the time from the start of a program to its first token behind a text of 8,160.
Every round asks each contestant once, and only the one that is asked works: the rivals live in
processes that sleep in between (rivals.py), focal is started for each measurement (focal bench
model, with a warm-up of its own). --also is another file for llama.cpp alone, of the type that it
is fastest with; pp= or tg= limits it to prompts or to decoding. What is printed is Markdown; --json
keeps the samples, and --table prints the table of kept ones. Needs only Python; the rivals need
their packages.
"""
import argparse
import datetime
import importlib.util
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = "pp512,pp2048,pp8192,tg64,tg32@d8192,peak8192,first8160"
MODULES = {"focal": [], "llama": ["llama_cpp"],
           "transformers": ["torch", "transformers", "accelerate", "gguf"]}
PACKAGES = {"llama_cpp": "llama-cpp-python"}  # where the name is not the module's
REST_SECONDS = 0.1  # until the threads of the one before have stopped spinning


class Failed(Exception):
    """A contestant could not do what it was asked for."""


class Test:
    """pp512, tg32@d8192, peak8192, first8160."""

    def __init__(self, name):
        match = re.fullmatch(r"(pp|tg|peak|first)([1-9]\d{0,7})(?:@d(\d{1,8}))?", name)
        if not match or (match[3] and match[1] not in ("pp", "tg")):
            sys.exit(f"model.py: '{name}' is not a test, as pp512, tg64, tg32@d8192, peak8192 and "
                     "first8160 are")
        self.name, self.kind, self.count = name, match[1], int(match[2])
        self.depth = int(match[3] or 0)

    def question(self):
        kind = "tg" if self.kind == "tg" else "pp"
        return {"kind": kind, "count": self.count, "depth": self.depth}

    def tokens(self):
        return self.count + self.depth

    def unit(self):
        return {"peak": "MB", "first": "s"}.get(self.kind, "tokens/s")

    def words(self):
        behind = f" behind {self.depth:,}" if self.depth else ""
        if self.kind == "pp":
            return f"prompt of {self.count:,}{behind}"
        if self.kind == "tg":
            return f"decode{behind or ', empty context'}"
        if self.kind == "peak":
            return f"most memory, prompt of {self.count:,}"
        return f"start to first token, prompt of {self.count:,}"


class Focal:
    """The program, started anew for each measurement."""

    label = "focal"

    def __init__(self, program, model, threads):
        self.program, self.model, self.threads = program, model, str(threads)
        self.name = self.run("--version").strip()

    def run(self, *arguments):
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise Failed(done.stderr.strip() or f"{self.program} ended with {done.returncode}")
        return done.stdout

    def takes(self, test):
        return True

    def measure(self, test, text):
        if test.kind == "first":
            begin = time.perf_counter()
            self.run("generate", "-m", self.model, "-f", text, "-n", "1", "--temp", "0",
                     "-t", self.threads)
            return {"value": time.perf_counter() - begin}
        question = test.question()
        counts = {"pp": "0", "tg": "0", question["kind"]: str(test.count)}
        runs = "3" if test.kind == "tg" else "1"  # short runs: the probes of the floor need more
        row = json.loads(self.run("bench", "model", "-m", self.model, "-p", counts["pp"],
                                  "-n", counts["tg"], "-d", str(test.depth), "-r", runs,
                                  "-t", self.threads, "-o", "json"))
        if test.kind == "peak":
            return {"value": row["peak_rss_mb"]}
        return {"value": row["avg_ts"], "floor_fraction": row["floor_fraction"],
                "read_gb_per_s": row["read_gb_per_s"], "peak_gflops": row["peak_gflops"]}

    def close(self):
        pass


class Rival:
    """A process that opens its model when first asked, and answers a question a line."""

    def __init__(self, label, command, kinds, context):
        self.label, self.command, self.kinds, self.context = label, command, kinds, context
        self.process, self.name, self.ubatch = None, None, None

    def takes(self, test):
        return test.kind in self.kinds

    def start(self, context, ubatch):
        sizes = ["--ubatch", str(ubatch)] if ubatch else []
        return subprocess.Popen([*self.command, "--context", str(context), *sizes],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self, process):
        line = process.stdout.readline()
        if not line:
            raise Failed(f"{self.label} ended with {process.wait()}")
        return json.loads(line)

    def ask(self, process, test):
        process.stdin.write(json.dumps(test.question()) + "\n")
        process.stdin.flush()
        return self.read(process)

    def wake(self):
        if self.process:
            return
        self.process = self.start(self.context, None)
        ready = self.read(self.process)
        self.name, self.ubatch = ready["name"], ready.get("ubatch")

    def measure(self, test, text):
        self.wake()
        if test.kind == "first":
            done = subprocess.run([*self.command, "--context", str(test.count + 64), "--ubatch",
                                   str(self.ubatch), "--first", text],
                                  stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                raise Failed(f"{self.label} ended with {done.returncode}")
            row = json.loads(done.stdout)
            return {"value": row["seconds"], "prompt_tokens": row["prompt_tokens"]}
        if test.kind == "peak":
            fresh = self.start(test.count, self.ubatch)
            try:
                self.read(fresh)
                row = self.ask(fresh, test)
            finally:
                stop(fresh)
            return {"value": row["peak_mb"] - row["python_mb"], "python_mb": row["python_mb"]}
        return {"value": self.ask(self.process, test)["ts"]}

    def close(self):
        if self.process:
            stop(self.process)


def stop(process):
    """The end of its questions ends a rival."""
    process.stdin.close()
    process.stdout.close()
    process.wait()


def make_text(focal, count, folder):
    """A text of this repository's documents that is `count` tokens long, or nearly."""
    documents = sorted(ROOT.glob("docs/**/*.md")) + sorted(ROOT.glob("*.md"))
    everything, ids, text = folder / "all.txt", folder / "ids.txt", folder / "text.txt"
    everything.write_text("\n\n".join(path.read_text(encoding="utf-8") for path in documents),
                          encoding="utf-8")
    answer = focal.run("tokenize", "-m", focal.model, "-f", str(everything), "--json")
    known = json.loads(answer)["ids"]
    if len(known) < count:
        raise Failed(f"the documents have {len(known):,} tokens, {count:,} are needed")
    ids.write_text(" ".join(str(token) for token in known[:count]), encoding="ascii")
    decoded = focal.run("tokenize", "-m", focal.model, "--decode", "-f", str(ids))
    text.write_text(decoded.removesuffix("\n"), encoding="utf-8")
    return str(text)


def say(words):
    print(f"model.py: {words}", file=sys.stderr, flush=True)


def contest(tests, contestants, rounds, text_of):
    """All samples: [{"test", "label", "samples": [{"value", "round", ...}, ...]}, ...]. A contestant
    that fails is left out of the rest."""
    rows, failed = [], set()
    for test in tests:
        text = text_of(test.count) if test.kind == "first" else None
        found = {c.label: [] for c in contestants if c.takes(test)}
        for number in range(1 if test.kind == "peak" else rounds):
            for contestant in contestants:
                if contestant.label not in found or contestant.label in failed:
                    continue
                say(f"{test.name}, round {number + 1}: {contestant.label}")
                time.sleep(REST_SECONDS)
                try:
                    sample = contestant.measure(test, text)
                    found[contestant.label].append({**sample, "round": number})
                except Failed as reason:
                    say(f"{contestant.label} is out: {reason}")
                    failed.add(contestant.label)
        rows += [{"test": test.name, "label": label, "samples": samples}
                 for label, samples in found.items() if samples]
    return rows


def median_of(row, field="value"):
    return statistics.median(sample[field] for sample in row["samples"])


def spread(row):
    """Half of the distance between the largest and the smallest, as a share of the median."""
    values = [sample["value"] for sample in row["samples"]]
    if len(values) < 2:
        return "one run"
    return f"± {50 * (max(values) - min(values)) / statistics.median(values):.1f} %"


def times_better(test, ours, theirs):
    """The median, over the rounds that both were in, of how many times better focal was."""
    ours = {sample["round"]: sample["value"] for sample in ours["samples"]}
    ratios = [ours[sample["round"]] / sample["value"] for sample in theirs["samples"]
              if sample["round"] in ours]
    if test.unit() != "tokens/s":  # less is better
        ratios = [1 / ratio for ratio in ratios]
    return f"**{statistics.median(ratios):.2f}x**" if ratios else ""


def number(value):
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def table(report):
    """Markdown: a row for each test and contestant, then who they are."""
    lines = ["| test | who | median | spread | focal is |", "|---|---|---:|---:|---:|"]
    rows = report["rows"]
    names = list(dict.fromkeys(row["test"] for row in rows))
    for name in names:
        test = Test(name)
        group = {row["label"]: row for row in rows if row["test"] == name}
        ours = group.get("focal")
        for label, row in group.items():
            last = ""
            if row is ours and "floor_fraction" in row["samples"][0]:
                last = f"{100 * median_of(row, 'floor_fraction'):.0f} % of the floor"
            elif ours and row is not ours:
                last = times_better(test, ours, row)
            what = f"{test.words()} (`{name}`)" if label == next(iter(group)) else ""
            lines.append(f"| {what} | {label} | {number(median_of(row))} {test.unit()} "
                         f"| {spread(row)} | {last} |")
    return "\n".join(lines + [""] + notes(report, names)) + "\n"


def notes(report, names):
    lines = [f"{report['model']}, {report['threads']} threads, {report['machine']}, "
             f"{report['date']}; medians over rounds, contestants by turns; `focal is` compares "
             "within a round."]
    lines += [f"{label}: {name}." for label, name in report["names"].items() if name]
    samples = [s for row in report["rows"] for s in row["samples"] if "read_gb_per_s" in s]
    if samples:
        gflops = statistics.median(s["peak_gflops"] for s in samples)
        read = statistics.median(s["read_gb_per_s"] for s in samples)
        lines.append(f"Floor: what {gflops:.0f} GFLOP/s and a plain read of {read:.1f} GB/s, "
                     "measured between the runs, allow.")
    if any(name.startswith("peak") for name in names):
        lines.append("Memory: VmHWM of a fresh process, the mapped file in it; of the rivals "
                     "without what Python and its packages had before the model was opened.")
    if any(name.startswith("first") for name in names):
        lines.append("Start to first token: focal from exec to exit of `focal generate -n 1`; "
                     "llama.cpp from the moment its library is loaded, without Python's start.")
    return ["- " + line for line in lines]


def merge(paths):
    """One report of several; a test that occurs twice has the samples of both."""
    report = None
    for path in paths:
        part = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        for sample in (sample for row in part["rows"] for sample in row["samples"]):
            sample["round"] = f"{path} {sample['round']}"
        if not report:
            report = part
            continue
        if part["model"] != report["model"] or part["threads"] != report["threads"]:
            sys.exit(f"model.py: {path}: another model or number of threads")
        report["names"].update(part["names"])
        for row in part["rows"]:
            key = row["test"], row["label"]
            same = [r for r in report["rows"] if (r["test"], r["label"]) == key]
            if same:
                same[0]["samples"] += row["samples"]
            else:
                report["rows"].append(row)
    return report


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = re.search(r"^model name\s*: (.*)$", text, re.M)
    return found[1] if found else "unknown processor"


def missing_packages(contestants):
    modules = [module for contestant in contestants for module in MODULES[contestant]]
    return [PACKAGES.get(m, m) for m in modules if not importlib.util.find_spec(m)]


def make_contestants(options, tests):
    """In the order of --contestants; the other files of llama.cpp behind it."""
    made = []
    rivals = [sys.executable, str(pathlib.Path(__file__).with_name("rivals.py"))]
    tail = ["-t", str(options.threads)]
    context = max(test.tokens() for test in tests)
    ubatch = ["--ubatch", options.ubatch]
    for name in options.contestants:
        if name == "focal":
            made.append(Focal(options.focal, options.model, options.threads))
        elif name == "transformers":
            command = [*rivals, "transformers", "--model", options.model, *tail]
            made.append(Rival("transformers bf16", command, ("pp", "tg", "peak"), context))
        else:
            command = [*rivals, "llama", "--model", options.model, *tail, *ubatch]
            made.append(Rival("llama.cpp", command, ("pp", "tg", "peak", "first"), context))
            if options.read:
                made.append(Rival("llama.cpp, read", [*command, "--load", "read"], ("pp", "tg"),
                                  context))
            for also in options.also:
                kind, _, path = also.rpartition("=")
                kinds = (kind,) if kind in ("pp", "tg") else ("pp", "tg")
                command = [*rivals, "llama", "--model", path, *tail, *ubatch]
                label = f"llama.cpp, {pathlib.Path(path).stem}"
                made.append(Rival(label, command, kinds, context))
    return made


def run(options):
    tests = [Test(name) for name in options.tests.split(",")]
    contestants = make_contestants(options, tests)
    focal = Focal(options.focal, options.model, options.threads)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        try:
            rows = contest(tests, contestants, options.rounds,
                           lambda count: make_text(focal, count, folder))
        finally:
            for contestant in contestants:
                contestant.close()
    return {"model": pathlib.Path(options.model).name, "threads": options.threads,
            "machine": machine(), "date": datetime.date.today().isoformat(),
            "names": {c.label: c.name for c in contestants}, "rows": rows}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", metavar="FILE", help="a GGUF file")
    parser.add_argument("--also", metavar="[pp=|tg=]FILE", action="append", default=[],
                        help="another file for llama.cpp alone; may be repeated")
    parser.add_argument("--focal", default=str(ROOT / "build" / "focal"), metavar="PROGRAM")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tests", default=TESTS, metavar="LIST", help=TESTS)
    parser.add_argument("--contestants", default="focal,llama,transformers", metavar="LIST")
    parser.add_argument("--ubatch", default="256,512,2048", metavar="LIST",
                        help="n_ubatch to try for llama.cpp; the fastest is kept")
    parser.add_argument("--read", action="store_true",
                        help="llama.cpp also with the file read instead of mapped")
    parser.add_argument("--json", metavar="OUT", help="keeps the samples")
    parser.add_argument("--table", nargs="+", metavar="OUT", help="prints kept samples' table")
    parser.add_argument("--check", action="store_true", help="only says what is missing")
    options = parser.parse_args()
    options.contestants = options.contestants.split(",")
    unknown = [name for name in options.contestants if name not in MODULES]
    if unknown:
        parser.error(f"no contestant '{unknown[0]}': {', '.join(MODULES)}")
    if options.rounds < 1 or options.threads < 1:
        parser.error("--rounds and --threads are at least 1")
    return parser, options


def main():
    parser, options = parse()
    if options.table:
        print(table(merge(options.table)), end="")
        return
    missing = missing_packages(options.contestants)
    if missing:
        sys.exit(f"model.py: {sys.executable} lacks packages: pip install {' '.join(missing)}")
    if options.check:
        return
    if not options.model:
        parser.error("which model? --model FILE.gguf")
    for path in [options.model, options.focal, *(also.rpartition("=")[2] for also in options.also)]:
        if not pathlib.Path(path).is_file():
            sys.exit(f"model.py: {path} is not there")
    report = run(options)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(table(report), end="")


if __name__ == "__main__":
    main()
