#!/bin/bash
# Runs the program's cases: a folder each, with cmd (arguments of focal, or a line of shell that
# calls $FOCAL) and what it must give: stdout, stderr, exit. Usage: run.sh BUILD [--update] [CASE...]
#
# In stdout and stderr, <num> stands for any number and <any> for any text within a line; a file
# that is missing allows anything. --update rewrites the files with what came, numbers and all:
# read the difference before it goes into git.
#
# A case runs in an empty folder. ../tiny.gguf is a model that knows one sentence, $MODELS has others;
# the user's cache is empty.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?usage: run.sh BUILD [--update] [CASE...]}" && pwd) || exit 2
shift
update=no
if [ "${1:-}" = --update ]; then update=yes && shift; fi
export FOCAL=$build/focal NO_COLOR=1 LC_ALL=C MODELS=$here/../golden/models
[ -x "$FOCAL" ] || { echo "cli: $FOCAL is not there: build it first" >&2; exit 2; }
unset OMP_NUM_THREADS FOCAL_KERNEL
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
ln -s "$MODELS/tiny.gguf" "$work/"

# A pattern file as an extended regular expression a line: everything literal but <num> and <any>.
to_regex() {
    sed -E 's/[][\.*^$+?(){}|/]/\\&/g; s/<num>/-?[0-9]+(\\.[0-9]+)?(e[-+]?[0-9]+)?/g; s/<any>/.*/g; s/.*/^&$/' "$1"
}

matches() { # PATTERNS OUTPUT: every line matches its pattern, and none is left over
    [ "$(wc -l <"$1")" = "$(wc -l <"$2")" ] || return 1
    local pattern line
    while IFS= read -r pattern <&3 && IFS= read -r line <&4; do
        [[ $line =~ $pattern ]] || return 1
    done 3< <(to_regex "$1") 4<"$2"
}

failed=0 count=0
for case in "$here"/*/; do
    name=$(basename "$case")
    if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
    count=$((count + 1))
    mkdir -p "$work/$name"
    (cd "$work/$name" && bash "$case/cmd" >"$work/stdout" 2>"$work/stderr" </dev/null)
    echo $? >"$work/exit"
    if [ $update = yes ]; then
        cp "$work/exit" "$case/exit"
        for part in stdout stderr; do [ ! -f "$case/$part" ] || cp "$work/$part" "$case/$part"; done
        continue
    fi
    for part in exit stdout stderr; do
        [ -f "$case/$part" ] || continue
        if ! matches "$case/$part" "$work/$part"; then
            echo "cli: $name: $part differs" >&2
            diff "$case/$part" "$work/$part" | head -n 20 >&2
            failed=$((failed + 1))
        fi
    done
done
[ $count -gt 0 ] || { echo "cli: no such case" >&2; exit 2; }
echo "cli: $count cases, $failed differences"
[ $failed = 0 ]
