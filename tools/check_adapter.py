#!/usr/bin/env python3
"""Reads an adapter that focal wrote with the packages that others use: safetensors must see every
tensor in the shape that adapter_config.json implies, json and (where it is installed) peft must read
the configuration. With a second adapter of the same router: how far the numbers are apart.
Of LoRA peft must load all of it onto the model, miss no tensor and know every one; and where ids and
logits stand beside it (expected.manifest and expected.bin, as tools/golden_lora.py writes them),
compute those.
Usage: check_adapter.py ADAPTER [OTHER], or LORA MODEL; needs torch and safetensors, for LoRA peft."""
import json
import pathlib
import struct
import sys
import warnings

import safetensors.torch
import torch

# Those that are bfloat16 in a file of that type; the others are always float32.
ROUNDED = (".pk", ".pq")


def expected(config):
    """Names and shapes, from docs/FORMATS.md."""
    width, router = config["hidden_size"], config["router_width"]
    routers = config["num_key_value_heads"] if config["scope"] == "kv" else 1
    is_unit, is_directed = config["router_form"] == "unit", config["mode"] == "directed"
    shapes = {}
    for layer in range(config["num_hidden_layers"]):
        place = f"base_model.model.layers.{layer}.self_attn."
        if layer in config["layers"] and config["router_form"] in ("unit", "raw"):
            for side in "kq" if is_directed else "k":
                shapes[f"{place}router.p{side}"] = (routers, width, router)
                if is_unit:
                    shapes[f"{place}router.a{side}"] = (routers, router)
            shapes[place + "router.e"] = (routers, config["groups"], router)
            if is_unit:
                shapes[place + "router.beta"] = (routers, config["groups"])
        if config["has_temperatures"]:
            shapes[place + "log_temperature"] = (config["num_attention_heads"],)
    if config["router_form"] == "scale":
        shapes["base_model.model.log_distant_scale"] = (1,)
    return shapes


def read(folder):
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    tensors = safetensors.torch.load_file(folder / "adapter_model.safetensors")
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != expected(config):
        sys.exit(f"{folder}: other tensors than {set(expected(config).items()) ^ set(found.items())}")
    for name, tensor in tensors.items():
        if not name.endswith(ROUNDED) and tensor.dtype != torch.float32:
            sys.exit(f"{folder}: {name} is {tensor.dtype}")
        if not torch.isfinite(tensor.float()).all():
            sys.exit(f"{folder}: {name} is not finite")
    numbers = sum(tensor.numel() for tensor in tensors.values())
    print(f"{folder}: {len(tensors)} tensors, {numbers} numbers")
    return config, tensors


def check_peft(folder, config):
    try:
        import peft
    except ImportError:
        print("peft is not installed: not tried")
        return
    got = peft.PeftConfig.from_json_file(str(folder / "adapter_config.json"))
    if got != config:
        sys.exit(f"{folder}: peft reads another configuration")
    try:
        peft.PeftConfig.from_pretrained(str(folder))
    except Exception as error:  # it knows no FOCUS, and must not take it for something else
        print(f"peft {peft.__version__}: {type(error).__name__}: {error}")
    else:
        print(f"peft {peft.__version__}: reads it")


def read_expected(folder):
    """Ids and logits, or None."""
    if not (folder / "expected.manifest").exists():
        return None
    lines = [line.split() for line in (folder / "expected.manifest").read_text().splitlines()]
    data = (folder / "expected.bin").read_bytes()
    data = torch.tensor(struct.unpack(f"<{len(data) // 8}d", data), dtype=torch.float64)
    found = {line[1]: data[int(line[2]):int(line[2]) + int(line[3])]
             for line in lines if line[0] == "tensor"}
    ids = found["ids"].long()
    return ids, found["logits"].reshape(len(ids), -1)


def check_lora(folder, base):
    import peft
    import transformers
    transformers.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        base, attn_implementation="eager", dtype=torch.float32).eval()
    warnings.simplefilter("error", UserWarning)  # missing keys, and settings that are not known
    model = peft.PeftModel.from_pretrained(model, str(folder))
    warnings.resetwarnings()
    stored = safetensors.torch.load_file(folder / "adapter_model.safetensors")
    wanted = {key: tuple(tensor.shape) for key, tensor in
              peft.get_peft_model_state_dict(model, save_embedding_layers=False).items()}
    if wanted != {key: tuple(tensor.shape) for key, tensor in stored.items()}:
        sys.exit(f"{folder}: peft would write other tensors")
    print(f"peft {peft.__version__}: {len(stored)} tensors onto {base}")
    expected = read_expected(folder)
    if expected is None:
        return
    ids, logits = expected
    with torch.no_grad():
        got = model.double()(ids[None], use_cache=False).logits[0].double()
    worst = ((got - logits).abs().max() / logits.abs().max()).item()
    print(f"logits within {worst:.2g}")
    if not worst < 1e-4:
        sys.exit(f"{folder}: peft computes other logits")


def main():
    if len(sys.argv) == 3:
        config = json.loads((pathlib.Path(sys.argv[1]) / "adapter_config.json").read_text(encoding="utf-8"))
        if config["peft_type"] == "LORA":
            check_lora(pathlib.Path(sys.argv[1]), sys.argv[2])
            return
    folders = [pathlib.Path(name) for name in sys.argv[1:3]]
    if not folders:
        sys.exit(__doc__)
    read_all = [read(folder) for folder in folders]
    check_peft(folders[0], read_all[0][0])
    if len(read_all) == 2:
        one, other = read_all[0][1], read_all[1][1]
        worst = max((one[name].double() - other[name].double()).abs().max().item() for name in one)
        print(f"largest difference {worst:g}")


if __name__ == "__main__":
    main()
