#!/usr/bin/env python3
"""Checks who includes whom, and that every source file begins with a comment that says what it is.

    base <- simd, cuda, io <- bench, text <- ops <- model <- generate <- train <- fit
         <- eval, serve, report;  cli sees include/focal only

A folder may include itself and every folder to its left. Folders that stand side by side do not
see each other, and neither do two operations: ops/attn and ops/route meet in include/focal.
Usage: check_includes.py [ROOT]. Prints one line a fault; exit status 1 when there are any.
"""
import pathlib
import re
import sys

LAYERS = [
    ["base"], ["simd", "cuda", "io"], ["bench", "text"], ["ops"], ["model"], ["generate"], ["train"], ["fit"],
    ["eval", "serve", "report"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
SUFFIXES = {".c", ".h", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)


def sources(root, folder):
    base = root / folder
    return sorted(p for p in base.rglob("*") if p.suffix in SUFFIXES) if base.is_dir() else []


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def ours(path):
    """(is_quoted, name) of each include that is not the system's."""
    for mark, name in INCLUDE.findall(without_comments(path.read_text(encoding="utf-8"))):
        if mark == '"' or name.startswith("focal/"):
            yield mark == '"', name


def src_fault(own, name):
    """Why a file under src/, whose path there has the parts `own`, may not include `name`."""
    parts = pathlib.PurePosixPath(name).parts
    layer = own[0]
    if layer not in RANK:
        return f"src/{layer} is in no layer"
    if parts[0] == "focal":
        return None
    if ".." in parts or len(parts) < 2:
        return "write the path from src/"
    if parts[0] not in RANK:
        return f"{parts[0]} is in no layer"
    if parts[0] == layer:
        if layer == "ops" and len(parts) > 2 and len(own) > 2 and parts[1] != own[1]:
            return f"ops/{own[1]} may not see inside ops/{parts[1]}"
        return None
    if RANK[parts[0]] >= RANK[layer]:
        return f"{layer} may not see {parts[0]}"
    return None


def cli_fault(root, name):
    parts = pathlib.PurePosixPath(name).parts
    if parts[0] == "focal" or (len(parts) == 1 and (root / "cli" / name).is_file()):
        return None
    return "cli sees include/focal only"


def include_faults(root):
    for path in sources(root, "include"):
        for _, name in ours(path):
            if not name.startswith("focal/"):
                yield path, name, "a public header sees public headers only"
    for path in sources(root, "src"):
        own = path.relative_to(root / "src").parts
        for _, name in ours(path):
            fault = src_fault(own, name)
            if not fault and not any((root / d / name).is_file() for d in ("src", "include")):
                fault = "there is no such file"
            if fault:
                yield path, name, fault
    for path in sources(root, "cli"):
        for _, name in ours(path):
            fault = cli_fault(root, name)
            if fault:
                yield path, name, fault


def head_faults(root):
    for folder in ("include", "src", "cli", "tests"):
        for path in sources(root, folder):
            # A file for one instruction set may have its condition in the first line.
            if not re.match(r"(#if[^\n]*\n)?/\*\s+\S", path.read_text(encoding="utf-8")):
                yield path, "begins without a comment that says what the file is"


def name_faults(root):
    """Names of files are unique under src/: a message or a stack names one place."""
    seen = {}
    for path in sources(root, "src"):
        if path.name in seen:
            yield path, f"has the name of {seen[path.name].relative_to(root)}"
        seen.setdefault(path.name, path)


def check(root):
    """All faults under root, as lines."""
    faults = [f'{p.relative_to(root)}: "{name}": {why}' for p, name, why in include_faults(root)]
    for path, why in [*head_faults(root), *name_faults(root)]:
        faults.append(f"{path.relative_to(root)}: {why}")
    return faults


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1])
    faults = check(root.resolve())
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
