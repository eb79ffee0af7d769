#!/bin/bash
# Installs a build into an empty folder and builds an outside project on what lies there: by
# pkg-config and by find_package, shared and static, as C17 and as C++17. Also: every public
# header compiles alone, and the shared library shows nothing but the public API.
set -euo pipefail
source_dir=$1 build_dir=$2 cc=$3
cxx=${CXX:-c++}
here=$source_dir/tests/install
warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -Werror)

prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
work=$prefix/work
mkdir "$work"
if ! command -v "$cxx" >/dev/null; then
    echo "install: no C++ compiler ($cxx)" >&2
    exit 1
fi

cmake --install "$build_dir" --prefix "$prefix" >/dev/null
libdir=$(dirname "$(find "$prefix" -name 'libfocal.so' | head -n 1)")

for header in "$prefix"/include/focal/*.h; do
    "$cc" -std=c17 "${warnings[@]}" -I"$prefix/include" -fsyntax-only -x c "$header"
    "$cxx" -std=c++17 "${warnings[@]}" -I"$prefix/include" -fsyntax-only -x c++ "$header"
done
echo "headers: each compiles alone as C17 and as C++17"

strangers=$(nm -D --defined-only "$libdir/libfocal.so" | awk '$3 !~ /^focal_/ { print $3 }')
if [ -n "$strangers" ]; then
    echo "install: the shared library shows names that are not its API:" $strangers >&2
    exit 1
fi

# cmake --install --prefix moves the tree, so the .pc file's own prefix is overridden.
export PKG_CONFIG_PATH=$libdir/pkgconfig
pc=(pkg-config --define-variable=prefix="$prefix" --define-variable=libdir="$libdir"
    --define-variable=includedir="$prefix/include")
cp "$here/outside.c" "$work/outside.cpp"
build_and_run() { # NAME COMPILER... (the program is the last word of the command's output option)
    local name=$1
    shift
    "$@" -o "$work/$name"
    LD_LIBRARY_PATH=$libdir "$work/$name"
    echo "outside project: $name"
}
flags=$("${pc[@]}" --cflags --libs focal)
static_flags="$("${pc[@]}" --cflags focal) $libdir/libfocal.a -lm -pthread"
build_and_run pkg-config-c17 "$cc" -std=c17 "${warnings[@]}" "$here/outside.c" $flags
build_and_run pkg-config-c++17 "$cxx" -std=c++17 "${warnings[@]}" "$work/outside.cpp" $flags
build_and_run static-c17 "$cc" -std=c17 "${warnings[@]}" "$here/outside.c" $static_flags

cmake -S "$here" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_CXX_COMPILER="$cxx" >/dev/null
cmake --build "$work/cmake" >/dev/null
for program in shared-c17 shared-c++17 static-c17 static-c++17; do
    "$work/cmake/$program"
    echo "outside project: find_package-$program"
done

if [ -x "$build_dir/focal" ]; then
    test -x "$prefix/bin/focal"
fi
if command -v scdoc >/dev/null && ls "$source_dir"/docs/man/*.scd >/dev/null 2>&1; then
    test -s "$prefix/share/man/man1/focal.1"
fi
