#!/usr/bin/env python3
"""Makes the virtual environment of `make versus`, once, with the versions that were measured.

    environment.py DIRECTORY

The index that pip asks by default has PyTorch only together with 2.4 GB of GPU libraries. PyTorch
links them, but never calls them where it computes on the processor: the two small ones are
installed, and for each other an empty library that has its symbols stands in. llama.cpp is compiled
here, for this processor.
"""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import venv

DOWNLOAD = "0.7 GB"
DISK = "1.7 GB"
WHOLE = ["transformers==5.22.2", "gguf==0.19.0", "llama-cpp-python==0.3.36", "psutil==7.2.2"]
ALONE = ["torch==2.15.0", "accelerate==1.15.0"]
# What PyTorch needs of its dependencies.
WHOLE += ["filelock", "fsspec", "jinja2", "networkx", "setuptools", "sympy", "typing-extensions"]
if sys.platform == "linux":
    WHOLE += ["nvidia-cuda-runtime==13.2.86", "nvidia-cuda-cupti==13.2.86"]
NEVER_LOADED = {"libcuda.so.1"}  # the driver's: looked for at run time, and then missing is fine


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(option, libraries):
    """Dynamic symbols, name or name@version."""
    found = run("nm", "-D", option, *libraries)
    return set(re.findall(r"^(?:[0-9a-f]+)? +[A-Za-z] (\S+)$", found, re.M))


def stand_in(site):
    """Empty libraries for those that PyTorch links and that are not there."""
    folder = site / "torch" / "lib"
    ours = [str(path) for path in folder.glob("*.so*")]
    there = [str(path) for path in site.glob("nvidia/**/lib/*.so*")]
    missing = set(re.findall(r"^\s*(\S+) => not found", run("ldd", *ours), re.M)) - NEVER_LOADED
    have = {name.split("@")[0] for name in symbols("--defined-only", ours + there)}
    versions = collections.defaultdict(set)
    for name in symbols("--undefined-only", ours):
        base, _, version = name.replace("@@", "@").partition("@")
        if base not in have and re.match("cu|nccl|nv", base):
            versions[version].add(base)
    source, script = folder / "stand_in.c", folder / "stand_in.map"
    names = sorted(set().union(*versions.values()))
    source.write_text("".join(f"char {name}[64];\n" for name in names))
    script.write_text("".join(f"{version} {{ {' '.join(f'{name};' for name in sorted(names))} }};\n"
                              for version, names in versions.items() if version))
    for name in missing:
        run("cc", "-shared", "-fPIC", "-o", str(folder / name),
            f"-Wl,-soname,{name},--version-script,{script}", str(source))


def compilers():
    """What llama.cpp is compiled with, as variables of the environment.

    gcc 12 takes the configuration of AMX's tiles for 8 bytes and leaves the stores of the others
    out, so that llama.cpp dies of an illegal instruction; clang compiles it as it is meant. But
    clang 14 spells the macros that llama.cpp asks for AMX by in another way."""
    has_tiles = "amx_int8" in pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii")
    if not has_tiles or not shutil.which("clang-14"):
        return {}
    tiles = "-D__AMX_TILE__=1 -D__AMX_INT8__=1 -D__AMX_BF16__=1"
    return {"CC": "clang-14", "CXX": "clang++-14", "CFLAGS": tiles, "CXXFLAGS": tiles,
            "CMAKE_ARGS": "-DGGML_OPENMP=OFF"}


def make(directory, is_other):
    print(f"versus: downloading {DOWNLOAD} of packages into {directory} ({DISK} there), and "
          "compiling llama.cpp, which takes minutes; PYTHON= names an interpreter that has them",
          file=sys.stderr)
    venv.create(directory, clear=is_other, with_pip=True)  # an interrupted one is gone on with
    python = str(directory / "bin" / "python")
    pip = [python, "-m", "pip", "install", "-q", "--no-cache-dir", "--disable-pip-version-check"]
    subprocess.run([*pip, *WHOLE], check=True, env={**os.environ, **compilers()})
    subprocess.run([*pip, "--no-deps", *ALONE], check=True)
    where = run(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))")
    stand_in(pathlib.Path(where.strip()))
    subprocess.run([python, "-c", "import torch; torch.ones(2, 2) @ torch.ones(2, 2)"], check=True)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: environment.py DIRECTORY")
    directory = pathlib.Path(sys.argv[1])
    settings = [f"{name}={value}" for name, value in compilers().items()]
    ready, wanted = directory / "ready", "\n".join(WHOLE + ALONE + settings)
    is_made = ready.is_file()
    if is_made and ready.read_text() == wanted:
        return
    try:
        make(directory, is_other=is_made)
    except (OSError, subprocess.CalledProcessError) as reason:
        sys.exit(f"versus: no environment: {reason}\nversus: make one by hand, with "
                 f"{' '.join(WHOLE[:4] + ALONE)}, and name it: make versus PYTHON=...")
    ready.write_text(wanted)


if __name__ == "__main__":
    main()
