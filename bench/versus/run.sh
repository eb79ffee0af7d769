#!/bin/bash
# focal beside PyTorch. Usage: run.sh PATH-TO-focal [options of attn_pytorch.py]; PYTHON names the
# interpreter that has PyTorch (default python3).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$(dirname "${1:?usage: run.sh PATH-TO-focal [options]}")" && pwd)
shift
exec "${PYTHON:-python3}" "$here/attn_pytorch.py" --library "$build/libfocal.so" "$@"
