#!/bin/sh
# Prints the kernels this machine can run, comma-separated: what FOCAL_TEST_REQUIRE must hold so
# that a kernel which was skipped here cannot look tested. Tiles serve the operations named alone.
flags=" $(sed -n 's/^flags[[:space:]]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1) "

has() {
    for flag in "$@"; do
        case $flags in
        *" $flag "*) ;;
        *) return 1 ;;
        esac
    done
}

kernels=ref
has avx2 fma && kernels=$kernels,avx2
has avx2 fma avx512f avx512bw avx512dq avx512vl && kernels=$kernels,avx512
has avx2 fma avx512f avx512bw avx512dq avx512vl avx512_bf16 && kernels=$kernels,avx512bf16
has avx2 fma avx512f avx512bw avx512dq avx512vl avx512_bf16 amx_tile amx_bf16 &&
    kernels=$kernels,matmul:amx,attn:amx,route:amx
echo "$kernels"
