#!/bin/bash
# The demo: a real model reads a long document, this project's own, and answers a question about it,
# looking at every token, then with the groups of the adapter that the project ships.
# Usage: demo.sh FOCAL. Makes demo/document.txt. Where the model cannot be fetched, a tiny model of
# the tests shows the same steps; it knows one sentence, and says that or nonsense.
set -euo pipefail
cd "$(dirname "$0")/.."
focal=$1
question='What is focal, and who is it for?'
tokens=7000

mkdir -p demo
cat docs/MATH.md ARCHITECTURE.md docs/adr/*.md CONTRIBUTING.md >demo/all.txt
if model=$("$focal" pull smollm2); then
    name=smollm2 adapter=adapters/smollm2-135m-instruct
else
    echo "focal: the model cannot be had, so a tiny one from the tests, which knows one sentence, stands in" >&2
    model=tests/golden/models/tiny.gguf name=$model tokens=120 adapter=demo/adapter
    rm -rf "$adapter"
    "$focal" fit -m "$name" -o "$adapter" --method start --groups 8 --window 16 --length 64 --quiet docs/MATH.md
fi

# As much of the documents as fits the model's context, then the README's first paragraphs.
sed -n '1,/^## /p' README.md | sed '$d' >demo/about.txt
about=$("$focal" tokenize -m "$name" -f demo/about.txt --count)
keep=$((tokens > about ? tokens - about : tokens))
"$focal" tokenize -m "$name" -f demo/all.txt --json |
    python3 -c 'import json, sys; print(*json.load(sys.stdin)["ids"][:int(sys.argv[1])])' "$keep" >demo/ids.txt
"$focal" tokenize -m "$name" --decode -f demo/ids.txt >demo/document.txt
[ "$name" != smollm2 ] || { echo && echo && cat demo/about.txt; } >>demo/document.txt
rm -f demo/all.txt demo/ids.txt demo/about.txt
length=$("$focal" tokenize -m "$name" -f demo/document.txt --count)
echo "document: $length tokens, demo/document.txt"
echo "question: $question"
answer() { # LABEL [OPTIONS...]
    echo "$1:"
    shift
    echo -n "focal is"
    "$focal" generate -m "$name" -f demo/document.txt -n 80 --temp 0 --stop $'\n\n' "$@" \
        -p "Question: $question"$'\n'"Answer: focal is"
}
answer "looking at every token"
answer "looking into groups ($adapter)" --adapter "$adapter"

# What the machine's own peaks would allow for the same document: arithmetic for reading it, memory
# for writing behind it.
{
    "$focal" bench model -m "$name" -p "$length" -n 0 -r 0 -o json
    "$focal" bench model -m "$name" -p 0 -n 80 -d "$length" -r 0 -o json
} | python3 -c '
import json, sys
prompt, answer = map(json.loads, sys.stdin)
count, speed = prompt["n_prompt"], prompt["floor_ts"]
print("this machine allows: prompt {} tokens in {:.2f} s ({:.0f}/s, at {:.0f} GFLOP/s), "
      "answer {:.1f}/s (at {:.0f} GB/s)".format(count, count / speed, speed, prompt["peak_gflops"],
                                                answer["floor_ts"], answer["read_gb_per_s"]))'
