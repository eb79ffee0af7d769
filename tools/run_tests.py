#!/usr/bin/env python3
"""Runs the tests of one or more build directories and closes with `N passed, N failed`.

A cmocka executable counts as many tests as it ran; any other test, and any executable that died
before its summary, counts as one. A test that was skipped is shown with what it needs; one that does
not say so is refused. Exit status: 0 when nothing failed.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent


def cmocka_counts(output):
    """(passed, failed, skipped) as cmocka's closing lines say; zeros when there are none."""
    counts = []
    for word in ("PASSED", "FAILED", "SKIPPED"):
        numbers = re.findall(rf"^\[ +{word} +\] (?:[^:\n]*: )?(\d+) test\(s\)", output, re.M)
        counts.append(sum(int(number) for number in numbers))
    return counts


def count_case(case):
    """(passed, failed, skipped) of one ctest entry."""
    if case.get("status") in ("notrun", "disabled"):
        return [0, 0, 1] if case.find("skipped") is not None else [0, 1, 0]
    passed, failed, skipped = cmocka_counts(case.findtext("system-out") or "")
    has_failed = case.get("status") != "run"
    if has_failed and failed == 0:
        failed = 1
    elif not has_failed and passed + skipped == 0:
        passed = 1
    elif not has_failed and failed > 0:
        raise SystemExit(f"{case.get('name')}: reports {failed} failures but exits with 0")
    return [passed, failed, skipped]


def skips(case):
    """What the skipped tests of one ctest entry need, a sentence each."""
    lines = re.findall(r"^skipped: (.*)", case.findtext("system-out") or "", re.M)
    if len(lines) < cmocka_counts(case.findtext("system-out") or "")[2]:
        raise SystemExit(f"{case.get('name')}: skips a test without saying what it needs")
    return [f"{case.get('name')}: skipped a test that {line}" for line in lines]


def run(build, jobs, label):
    """Runs ctest in one directory; returns the sums of its entries, the failed names and why
    tests were skipped."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        choice = ["-L", f"^{label}$"] if label else ["-LE", "^(slow|models)$"]
        status = subprocess.run(
            ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "-j", jobs,
             "--output-junit", report.name, "--test-output-size-passed", "10000000",
             "--test-output-size-failed", "10000000", *choice],
            cwd=ROOT, check=False).returncode
        try:
            cases = ElementTree.parse(report.name).findall("testcase")
        except ElementTree.ParseError:
            cases = []
    counts = [sum(column) for column in zip(*map(count_case, cases))] or [0, 0, 0]
    if status != 0 and counts[1] == 0:
        counts[1] = 1  # ctest itself failed, or found no test
    failed_names = [case.get("name") for case in cases if count_case(case)[1]]
    return counts, failed_names, [line for case in cases for line in skips(case)]


def sentence(counts):
    text = f"{counts[0]} passed, {counts[1]} failed"
    return text + (f", {counts[2]} skipped" if counts[2] else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-j", "--jobs", default="2")
    parser.add_argument("--label", help="only the tests with this label; default: all but slow and models")
    parser.add_argument("build", nargs="+")
    options = parser.parse_args()
    total = [0, 0, 0]
    lines = []
    for build in options.build:
        counts, failed_names, skipped = run(build, options.jobs, options.label)
        total = [a + b for a, b in zip(total, counts)]
        names = f" ({', '.join(failed_names)})" if failed_names else ""
        lines += [f"{build}: {line}" for line in skipped]
        lines.append(f"{build}: {sentence(counts)}{names}")
    print("", *lines, sentence(total), sep="\n")
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main())
