#!/usr/bin/env python3
"""Writes a copy of a GGUF file in q4_0 as llama.cpp itself makes it: the embedding, which is the
vocabulary too in many models, stays in more bits.

    quantize.py FROM.gguf TO.gguf
"""
import ctypes
import sys

import llama_cpp


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: quantize.py FROM.gguf TO.gguf")
    quiet = llama_cpp.llama_log_callback(lambda level, text, user: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0
    options.allow_requantize = True
    source, target = (name.encode() for name in sys.argv[1:])
    if llama_cpp.llama_model_quantize(source, target, ctypes.byref(options)) != 0:
        sys.exit(f"quantize.py: llama.cpp makes no q4_0 copy of {sys.argv[1]}")


if __name__ == "__main__":
    main()
