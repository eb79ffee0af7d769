#!/usr/bin/env python3
"""Reads an adapter that focal wrote with the packages that others use: safetensors must see every
tensor in the shape that adapter_config.json implies, json and (where it is installed) peft must read
the configuration. With a second adapter of the same router: how far the numbers are apart.
Usage: check_adapter.py ADAPTER [OTHER]; needs torch and safetensors."""
import json
import pathlib
import sys

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
        if layer in config["layers"]:
            for side in "kq" if is_directed else "k":
                shapes[f"{place}router.p{side}"] = (routers, width, router)
                if is_unit:
                    shapes[f"{place}router.a{side}"] = (routers, router)
            shapes[place + "router.e"] = (routers, config["groups"], router)
            if is_unit:
                shapes[place + "router.beta"] = (routers, config["groups"])
        if config["has_temperatures"]:
            shapes[place + "log_temperature"] = (config["num_attention_heads"],)
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


def main():
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
