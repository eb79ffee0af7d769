#!/bin/bash
# Prints, for every file of src/, the share of lines that the tests of a coverage build executed.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
find "$build/CMakeFiles/focal-objects.dir" -name '*.gcda' -print0 |
    xargs -0 -r gcov -n -r -s "$PWD" 2>/dev/null |
    awk '/^File / { name = $2 } /^Lines executed/ && name ~ /src\// { print name, $2, $3, $4 }' |
    tr -d "'" | sort -u
