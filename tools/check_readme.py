#!/usr/bin/env python3
"""Runs the shell examples of a document that are marked for it.

A block is run when the line before it is <!-- run -->. Each runs under `bash -eu` in a folder that
looks like the checkout, with build/ being the build under test, so nothing in the tree changes.
Usage: check_readme.py --build BUILD DOCUMENT...
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^<!-- run -->\n```sh\n(.*?)^```$", re.M | re.S)


def blocks(text):
    """(line number, commands) of each marked block. A mark without a block is an error."""
    found = [(text.count("\n", 0, m.start(1)) + 1, m.group(1)) for m in BLOCK.finditer(text)]
    if len(found) != len(re.findall(r"^<!-- run -->$", text, re.M)):
        raise ValueError("a <!-- run --> mark is not followed by a closed ```sh block")
    return found


def own_entries():
    """What belongs to the checkout, not what somebody who followed the README left in it."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=False, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if listed.returncode == 0 and listed.stdout:
        return {name.split("/", 1)[0] for name in listed.stdout.split("\0") if name}
    return {entry.name for entry in ROOT.iterdir() if not entry.name.startswith("build")}


def make_checkout(folder, build):
    for name in own_entries():
        (folder / name).symlink_to(ROOT / name)
    (folder / "build").symlink_to(build)


def run_block(build, commands):
    with tempfile.TemporaryDirectory() as name:
        make_checkout(pathlib.Path(name), build)
        environment = {**os.environ, "PATH": f"{build}:{os.environ['PATH']}"}
        return subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", commands], cwd=name,
                              env=environment, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("document", nargs="+")
    options = parser.parse_args()
    build = pathlib.Path(options.build).resolve()
    failures = 0
    for document in options.document:
        for line, commands in blocks(pathlib.Path(document).read_text(encoding="utf-8")):
            result = run_block(build, commands)
            is_fine = result.returncode == 0
            failures += not is_fine
            print(f"{document}:{line}: {'ran' if is_fine else f'exit {result.returncode}'}")
            if not is_fine:
                print(commands, result.stdout, sep="")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
