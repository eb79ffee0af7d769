"""PyTorch on virtual machines that have AMX but say nothing of its tiles (cpuid's leaf 1D is empty).

oneDNN, which PyTorch multiplies with, believes the first and dies of an illegal instruction. There
it is told to use what comes next; attention goes through MKL and keeps the tiles.
"""
import os
import signal
import subprocess
import sys

PROBE = """import torch
x = torch.ones(64, 64, dtype=torch.bfloat16)
torch.nn.functional.linear(x, x)"""


def make_safe():
    """To be called before PyTorch is imported. Returns what is to be said about it, or nothing."""
    if "ONEDNN_MAX_CPU_ISA" not in os.environ:
        done = subprocess.run([sys.executable, "-c", PROBE], check=False, capture_output=True)
        if done.returncode != -signal.SIGILL:
            return ""
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"
    return f", oneDNN up to {os.environ['ONEDNN_MAX_CPU_ISA']}"
