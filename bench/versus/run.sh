#!/bin/bash
# focal beside PyTorch's attention, then beside llama.cpp and transformers with a whole model.
# Usage: run.sh PATH-TO-focal [options of model.py]. PYTHON: an interpreter that has the packages,
# else an environment in the user's cache is made; MODEL: a GGUF file or a name that `focal pull`
# knows (smollm2).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
focal=$(realpath "${1:?usage: run.sh PATH-TO-focal [options]}")
shift
model=${MODEL:-smollm2}
if [ -z "${PYTHON:-}" ]; then
    environment=${XDG_CACHE_HOME:-$HOME/.cache}/focal/versus
    python3 "$here/environment.py" "$environment"
    PYTHON=$environment/bin/python
fi
"$PYTHON" "$here/model.py" --check
[ -f "$model" ] || model=$("$focal" pull "$model")

# What llama.cpp is fastest with: bf16 for prompts, q4_0 for decoding, in all matrices and as it makes
# such files itself.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
also=()
if [ "$(stat -L -c %s "$model")" -lt 500000000 ]; then
    "$focal" export "$model" "$folder/bf16.gguf" --type bf16 >/dev/null
    "$focal" export "$model" "$folder/q4_0.gguf" --type q4_0 >/dev/null
    "$PYTHON" "$here/quantize.py" "$model" "$folder/q4_0-own.gguf"
    also+=(--also "pp=$folder/bf16.gguf" --also "tg=$folder/q4_0.gguf" --also "tg=$folder/q4_0-own.gguf")
fi

echo "versus: two tables; with the default options the second takes a quarter of an hour" >&2
"$PYTHON" "$here/attn_pytorch.py" --library "$(dirname "$focal")/libfocal.so"
echo
"$PYTHON" "$here/model.py" --focal "$focal" --model "$model" "${also[@]}" "$@"
