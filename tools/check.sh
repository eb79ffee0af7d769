#!/bin/bash
# Everything that can be said of the source without running it: format, include arrows, cppcheck,
# clang-tidy. Usage: check.sh BUILD JOBS, with BUILD configured.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 jobs=$2

find_sources() { # PATTERN...
    local names=(-name "$1") folders=() folder
    shift
    for pattern in "$@"; do names+=(-o -name "$pattern"); done
    for folder in include src cli tests bench examples; do
        [ ! -d "$folder" ] || folders+=("$folder")
    done
    find "${folders[@]}" \( "${names[@]}" \) -type f | sort
}

failed=()
step() { # NAME COMMAND...
    local name=$1 start=$SECONDS
    shift
    if "$@"; then
        echo "check: $name: fine ($((SECONDS - start)) s)"
    else
        echo "check: $name: FAILED" >&2
        failed+=("$name")
    fi
}

check_format() { find_sources '*.c' '*.h' | xargs clang-format-14 --dry-run -Werror; }

# Only one configuration, ours: cppcheck would otherwise invent machines without any feature.
check_cppcheck() {
    cppcheck --quiet --error-exitcode=1 -j "$jobs" --std=c11 --inline-suppr \
        --enable=warning,style,performance,portability --suppressions-list=.cppcheck \
        -D__linux__ -D__x86_64__ -D__GNUC__=12 -DNDEBUG -I include -I src \
        $(find_sources '*.c' | grep -E '^(src|cli)/')
}

# What the build compiles is what clang-tidy can read: it takes its flags from there.
check_tidy() {
    find_sources '*.c' | while read -r file; do
        if grep -q "\"file\": \"$PWD/$file\"" "$build/compile_commands.json"; then
            echo "$file"
        fi
    done | xargs -P "$jobs" -n 1 clang-tidy-14 -p "$build" --quiet 2> >(grep -v 'warnings generated' >&2)
}

step format check_format
step includes tools/check_includes.py
step cppcheck check_cppcheck
step clang-tidy check_tidy
if [ ${#failed[@]} -gt 0 ]; then
    echo "check: failed: ${failed[*]}" >&2
    exit 1
fi
echo "check: all fine"
