#!/bin/bash
# Measures every row of the table in docs/SPEED.md, one benchmark at a time, and prints it as
# Markdown: what, what it must reach, what it reached, the command. About half an hour on 2 threads,
# most of it dense attention over 131,072 tokens; --quick leaves those rows out.
# Usage: table.sh [BUILD] [-t THREADS] [--quick] [--only PATTERN]   (PYTHON: one with PyTorch)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build threads=2 quick=no only=
while [ $# -gt 0 ]; do
    case $1 in
    -t) threads=$2 && shift 2 ;;
    --quick) quick=yes && shift ;;
    --only) only=$2 && shift 2 ;;
    -*) echo "table.sh: unknown option $1" >&2 && exit 2 ;;
    *) build=$1 && shift ;;
    esac
done
focal=$build/focal
[ -x "$focal" ] || { echo "table.sh: $focal is not there: run make first" >&2; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT

wanted() { [ -z "$only" ] || [[ $1 == *$only* ]]; }

# WHAT MUST FIELD DECIMALS ARGUMENTS...: a row with one field of the result, MUST its least value.
row() {
    local what=$1 must=$2 field=$3 decimals=$4
    shift 4
    wanted "$what" || return 0
    echo "table.sh: $what" >&2
    "$focal" bench attn "$@" -t "$threads" --json >"$log"
    python3 - "$what" "$must" "$field" "$decimals" "focal bench attn $* -t $threads" "$log" <<'EOF'
import json, sys
what, must, field, decimals, command, log = sys.argv[1:]
for line in open(log, encoding="utf-8"):
    row = json.loads(line)
    value = row[field]
    if must.startswith("<"):
        is_met = value <= float(must[1:])
    else:
        is_met = value >= float(must)
    shown = f"{value:.{int(decimals)}f}" if int(decimals) < 9 else f"{value / 1e6:.1f} MB"
    limit = must.replace("<", "at most ") if int(decimals) < 9 else f"at most {float(must[1:]) / 1e6:.1f} MB"
    length = max(row["tokens"], row["cache"])
    extra = f'{row["ms"]:.1f} ms (p90 {row["p90_ms"]:.1f}), error {row["error"]:.1e}'
    print(f"| {what} | {length:,} | {field} | {limit} | **{shown}**{'' if is_met else ' (short)'} "
          f"| {extra} | `{command}` |", flush=True)
EOF
}

long_row() { [ $quick = yes ] || row "$@"; }

heads="--heads 9 --kv-heads 3 --dim 64"
groups="$heads --dtype bf16 --groups 16 --mode directed --scope kv --versus-dense"
echo "Measured $(date -u +%Y-%m-%d), commit $(git -C "$root" describe --always --dirty 2>/dev/null || echo '?'), $(
    sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $threads threads:"
"$focal" bench peak -t "$threads" | sed 's/^/    /'
echo
echo "| what | tokens | figure | must reach | reached | | command |"
echo "|---|---|---|---|---|---|---|"
# shellcheck disable=SC2086 # $heads and $groups are lists of words
{
    row "dense forward, bf16" 0.70 peak_fraction 3 --tokens 8192 $heads --dtype bf16
    row "dense forward, f32" 0.75 peak_fraction 3 --tokens 8192 $heads --dtype f32
    row "dense forward, f32, avx2" 0.70 peak_fraction 3 --tokens 8192 $heads --dtype f32 --kernel avx2
    row "dense backward, f32" 0.60 peak_fraction 3 --tokens 4096 $heads --dtype f32 --backward
    row "dense backward, bf16" 0.60 peak_fraction 3 --tokens 4096 $heads --dtype bf16 --backward
    row "groups, k=1" 4 speedup 2 --tokens 8192 $groups --top 1
    row "groups, k=1" 9.5 speedup 2 --tokens 32768 $groups --top 1
    long_row "groups, k=1" 13 speedup 2 --tokens 131072 $groups --top 1 --runs 3
    row "groups, k=2" 3 speedup 2 --tokens 8192 $groups --top 2
    row "groups, k=2" 5.2 speedup 2 --tokens 32768 $groups --top 2
    row "groups, k=4" 2.1 speedup 2 --tokens 8192 $groups --top 4
    row "groups, k=4" 2.9 speedup 2 --tokens 32768 $groups --top 4
    row "one group with 25 % of the keys" "<1.3" pair_cost_ratio 2 --tokens 8192,32768 \
        ${groups/--versus-dense/} --top 1 --largest-group 0.25 --versus-even
    for k in 1 2 4; do
        row "groups never slower, k=$k" 1 speedup 2 --tokens 512,768,1024,1536,2048,3072,4096,6144 \
            $groups --top $k
    done
    row "decode, dense" 0.80 read_fraction 3 --tokens 32768 $heads --dtype bf16 --decode
    row "decode, groups, k=2" 5 speedup 2 --tokens 32768 $groups --top 2 --decode
    row "decode, groups, k=4" 3 speedup 2 --tokens 32768 $groups --top 4 --decode
    # 2 MB a thread and O(T H): lse and the like, 16 bytes a row
    dense_bytes=$((threads * 2000000 + 131072 * 9 * 16))
    long_row "memory, dense" "<$dense_bytes" memory_bytes 9 --tokens 131072 $heads --dtype bf16 --runs 1
    # and T H (D+2) floats of running state, and a copy of k and v
    group_bytes=$((dense_bytes + 131072 * 9 * 66 * 4 + 2 * 131072 * 3 * 64 * 2))
    row "memory, groups, k=4" "<$group_bytes" memory_bytes 9 --tokens 131072 $heads --dtype bf16 \
        --groups 16 --top 4 --runs 1
}
python=${PYTHON:-python3}
if ! "$python" -c 'import torch' 2>/dev/null; then
    echo "table.sh: no PyTorch for $python: the rows beside it are left out (set PYTHON)" >&2
elif wanted "beside PyTorch"; then
    echo "table.sh: beside PyTorch" >&2
    "$python" "$root/bench/versus/attn_pytorch.py" --library "$build/libfocal.so" -t "$threads" \
        --json >"$log"
    python3 - "$log" <<'EOF'
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    row = json.loads(line)
    short = "" if row["ratio"] >= row["wanted"] else " (short)"
    print(f'| beside PyTorch, {row["what"]}, {row["dtype"]} | {row["tokens"]:,} | ratio '
          f'| {row["wanted"]} | **{row["ratio"]:.2f}**{short} '
          f'| {row["focal_ms"]:.1f} ms against {row["torch_ms"]:.1f} ms ({row["torch"]}) '
          f'| `bench/versus/attn_pytorch.py` |')
EOF
fi
