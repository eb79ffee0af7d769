#!/usr/bin/env python3
"""Writes LoRA adapters with peft for the tiny models of tests/golden/models, and the logits that
peft gives with them: tests/golden/adapters/lora-NAME, each as peft saves it (without its README),
and a golden case (expected.manifest, expected.bin) beside it. Every number is random, also those
that begin as 0, and for every tensor the script checks that it changes the logits.
lora-tiny is one for tests/golden/models/tiny.gguf, of counted numbers and without logits.
Usage: tools/golden_lora.py [FOLDER]; needs torch, transformers and peft."""
import pathlib
import shutil
import sys

import peft
import safetensors.torch
import torch
import transformers

from golden_models import TOKENS, VOCABULARY, distance, logits_of, write_expected

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

# name: the model, what LoraConfig gets, and the type that the tensors are saved in.
ADAPTERS = {
    "lora-llama": ("llama", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]),
                   torch.float32),
    "lora-qwen2": ("qwen2", dict(r=3, lora_alpha=2.5, target_modules=ALL, use_rslora=True,
                                 layers_to_transform=[1]), torch.bfloat16),
    "lora-gpt2": ("gpt2", dict(r=2, lora_alpha=4, target_modules=["c_attn", "c_proj", "c_fc"],
                               fan_in_fan_out=True), torch.float32),
}


def load(models, name):
    return transformers.AutoModelForCausalLM.from_pretrained(
        models / name, attn_implementation="eager", dtype=torch.float32).eval()


def make(models, root, name, seed):
    base, options, dtype = ADAPTERS[name]
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(seed)
    model = peft.get_peft_model(load(models, base),
                                peft.LoraConfig(task_type="CAUSAL_LM", **options))
    for key, x in model.named_parameters():
        if "lora_" in key:
            x.data = (0.3 * torch.randn_like(x)).to(dtype)
    model.peft_config["default"].base_model_name_or_path = base
    model.save_pretrained(folder, save_embedding_layers=False)
    (folder / "README.md").unlink()
    (folder / "adapter_model.safetensors").chmod(0o644)  # the package keeps it to its owner

    ids = torch.randint(3, VOCABULARY, (TOKENS,), generator=torch.Generator().manual_seed(seed))
    again = peft.PeftModel.from_pretrained(load(models, base), folder).eval().double()
    expected = logits_of(again, ids)
    moved = distance(logits_of(load(models, base).double(), ids), expected)
    assert moved > 1e-2, f"{name}: the adapter moves the logits by {moved:.2g} only"
    for key, x in again.named_parameters():
        if "lora_" not in key:
            continue
        with torch.no_grad():
            kept = x.clone()
            x += 0.3 * torch.randn_like(x)
            moved = distance(logits_of(again, ids), expected)
            x.copy_(kept)
        assert moved > 1e-4, f"{name}: {key} moves the logits by {moved:.2g} only"
    write_expected(folder, name, ids, expected)
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{name}: {size} bytes, logits {expected.min():.2f} to {expected.max():.2f}")


def make_tiny(root):
    """Two layers of width 64, 4 heads on 2 of width 16. Element n of a layer's tensor number a (A and
    B of q, then of v) is ((37 n + 11 a + 5 layer) % 101 - 50) / 64."""
    folder = root / "lora-tiny"
    shutil.rmtree(folder, ignore_errors=True)
    peft.LoraConfig(task_type="CAUSAL_LM", base_model_name_or_path="tiny", inference_mode=True, r=4,
                    lora_alpha=8, target_modules=["q_proj", "v_proj"]).save_pretrained(folder)
    tensors = {}
    for layer in range(2):
        for place, (module, half, shape) in enumerate([("q_proj", "A", (4, 64)),
                                                       ("q_proj", "B", (64, 4)),
                                                       ("v_proj", "A", (4, 64)),
                                                       ("v_proj", "B", (32, 4))]):
            numbers = torch.arange(shape[0] * shape[1]) * 37 + 11 * place + 5 * layer
            name = f"base_model.model.model.layers.{layer}.self_attn.{module}.lora_{half}.weight"
            tensors[name] = ((numbers % 101 - 50) / 64).reshape(shape)
    safetensors.torch.save_file(tensors, folder / "adapter_model.safetensors",
                                metadata={"format": "pt"})
    (folder / "adapter_model.safetensors").chmod(0o644)


def main():
    golden = pathlib.Path(__file__).resolve().parent.parent / "tests/golden"
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else golden / "adapters"
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for seed, name in enumerate(ADAPTERS, 1):
        make(golden / "models", root, name, seed)
    make_tiny(root)


if __name__ == "__main__":
    main()
