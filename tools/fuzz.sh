#!/bin/bash
# Runs every fuzz target of a build directory for some seconds. New inputs stay in the build
# directory; one that crashes is left there too and is named by the failing line.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 seconds=$2
corpora=$PWD/tests/fuzz/corpus
shopt -s nullglob
count=0
for target in "$PWD/$build"/tests/focal-fuzz-*; do
    name=${target##*/focal-fuzz-}
    work=$build/fuzz/$name
    mkdir -p "$work/found"
    echo "fuzz $name: $seconds s"
    (cd "$work" && "$target" -max_total_time="$seconds" -print_final_stats=0 -verbosity=1 \
        -timeout=25 -rss_limit_mb=2048 -close_fd_mask=0 found "$corpora/$name" >log 2>&1) || {
        tail -n 40 "$work/log" >&2
        echo "fuzz $name: failed; the input is in $work" >&2
        exit 1
    }
    tail -n 1 "$work/log"
    count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "fuzz: no targets in $build" >&2; exit 1; }
echo "fuzz: $count targets, no crash"
