#!/usr/bin/env python3
"""Writes tests/golden/models: a tiny random model of every family and the logits it gives.

Each folder is a Hugging Face directory as people have it (config.json with the keys of
transformers 4, safetensors), the same config as transformers 5 writes it (config_5.json), and a
golden case (expected.manifest, expected.bin) with the input ids and all logits. Weights are far
larger than a fresh model's, so that the logits are not flat; and for every row the script checks
that each feature it stands for changes them.
Usage: tools/golden_models.py [FOLDER]; needs torch, transformers and safetensors.
"""
import contextlib
import json
import pathlib
import shutil
import struct
import sys
import tempfile

import torch
import transformers

TOKENS = 48
SHARD_BYTES = 40_000
VOCABULARY = 96
COMMON = dict(vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2, pad_token_id=0)
WIDTHS = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=64)
PLAIN = dict(rope_type="default", rope_theta=10000.0)
FULL = ["full_attention"]

# name: family, what the config has beside COMMON and WIDTHS, how it is saved, and changes to the
# config each of which must move the logits.
MODELS = {
    "llama": dict(
        family="Llama", tie_word_embeddings=True, rms_norm_eps=1e-5,
        rope_parameters=dict(PLAIN),
        matters=[dict(rope_parameters={**PLAIN, "rope_theta": 500.0})]),
    "llama3": dict(
        family="Llama", tie_word_embeddings=True, num_attention_heads=2, num_key_value_heads=1,
        max_position_embeddings=256,
        rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0,
                             low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=32),
        matters=[dict(rope_parameters=dict(PLAIN)),
                 dict(rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=8.0))]),
    "linear": dict(
        family="Llama", tie_word_embeddings=True, dtype=torch.float16, max_position_embeddings=256,
        rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0),
        matters=[dict(rope_parameters=dict(PLAIN))]),
    "mistral": dict(
        family="Mistral", tie_word_embeddings=False, sliding_window=12, head_dim=8,
        rope_parameters=dict(PLAIN), shard=True,
        matters=[dict(sliding_window=None), dict(sliding_window=11), dict(sliding_window=13)]),
    "qwen2": dict(
        family="Qwen2", tie_word_embeddings=False, rms_norm_eps=1e-6,
        rope_parameters={**PLAIN, "rope_theta": 1000000.0},
        matters=[dict(rope_parameters=dict(PLAIN))]),
    "yarn": dict(
        family="Qwen2", tie_word_embeddings=True, dtype=torch.bfloat16, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=128,
        rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0,
                             original_max_position_embeddings=32),
        matters=[dict(rope_parameters={**PLAIN, "rope_theta": 1000.0}),
                 dict(rope_parameters=dict(rope_type="linear", rope_theta=1000.0, factor=4.0)),
                 dict(rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0,
                                           attention_factor=1.0,
                                           original_max_position_embeddings=32))]),
    "qwen3": dict(
        family="Qwen3", tie_word_embeddings=True, head_dim=16, rms_norm_eps=1e-6,
        rope_parameters={**PLAIN, "rope_theta": 1000000.0},
        matters=[dict(rope_parameters=dict(PLAIN))]),
    "olmo2": dict(
        family="Olmo2", tie_word_embeddings=False, rms_norm_eps=1e-6,
        rope_parameters={**PLAIN, "rope_theta": 500000.0},
        matters=[dict(rope_parameters=dict(PLAIN))]),
    "gemma2": dict(
        family="Gemma2", dtype=torch.bfloat16, head_dim=16, sliding_window=8,
        attn_logit_softcapping=5.0, final_logit_softcapping=3.0,
        query_pre_attn_scalar=24, rope_parameters=dict(PLAIN),
        matters=[dict(attn_logit_softcapping=None), dict(final_logit_softcapping=None),
                 dict(query_pre_attn_scalar=16), dict(sliding_window=9),
                 dict(layer_types=FULL * 2), dict(layer_types=["sliding_attention"] * 2),
                 dict(layer_types=["full_attention", "sliding_attention"])]),
    "gemma3": dict(
        family="Gemma3", num_hidden_layers=6, head_dim=8, sliding_window=8,
        query_pre_attn_scalar=12, dtype=torch.bfloat16,
        layer_types=(["sliding_attention"] * 2 + FULL) * 2,
        rope_parameters={
            "full_attention": dict(rope_type="linear", rope_theta=1000000.0, factor=8.0),
            "sliding_attention": dict(rope_type="default", rope_theta=10000.0)},
        matters=[dict(query_pre_attn_scalar=8), dict(sliding_window=9), dict(layer_types=FULL * 6),
                 dict(rope_parameters={
                     "full_attention": dict(rope_type="default", rope_theta=1000000.0),
                     "sliding_attention": dict(rope_type="default", rope_theta=10000.0)}),
                 dict(rope_parameters={
                     "full_attention": dict(rope_type="linear", rope_theta=1000000.0, factor=8.0),
                     "sliding_attention": dict(rope_type="default", rope_theta=1000000.0)})]),
    "gpt2": dict(
        family="GPT2", n_embd=32, n_layer=2, n_head=4, n_positions=64,
        matters=[dict(activation_function="silu"), dict(scale_attn_weights=False)]),
    "wide": dict(
        family="Llama", tie_word_embeddings=True, dtype=torch.bfloat16, head_dim=32,
        max_position_embeddings=256, rope_parameters=dict(PLAIN),
        matters=[dict(rope_parameters={**PLAIN, "rope_theta": 500.0})]),
}
CLASSES = {"Gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM"),
           "GPT2": ("GPT2Config", "GPT2LMHeadModel")}
OURS = ("family", "dtype", "shard", "matters")


def classes(family):
    config, model = CLASSES.get(family, (family + "Config", family + "ForCausalLM"))
    return getattr(transformers, config), getattr(transformers, model)


def make_config(row, **changes):
    widths = {} if row["family"] == "GPT2" else WIDTHS  # it names them its own way
    keys = {k: v for k, v in row.items() if k not in OURS}
    config, _ = classes(row["family"])
    # Configs change what they are given; rows are used again.
    made = config(**json.loads(json.dumps({**COMMON, **widths, **keys, **changes})))
    made._attn_implementation = "eager"
    return made


def make_model(row, seed):
    """Random weights on the grid of the type they are saved in, held as float32."""
    torch.manual_seed(seed)
    _, model_class = classes(row["family"])
    model = model_class(make_config(row)).eval()
    adds_one = row["family"].startswith("Gemma")  # its norms multiply by 1 + weight
    with torch.no_grad():
        for name, x in model.named_parameters():
            if x.dim() > 1:
                x.normal_(0.0, 0.3)
            elif name.endswith("bias"):
                x.normal_(0.0, 0.2)
            else:
                x.normal_(0.0 if adds_one else 1.0, 0.2)
            x.copy_(x.to(row.get("dtype", torch.float32)))
    return model


@contextlib.contextmanager
def doubles():
    """transformers asks for float32 by name in norms, softmax and rope; here it gets float64."""
    single = torch.float32
    torch.float32 = torch.float64
    try:
        yield
    finally:
        torch.float32 = single


def logits_of(model, ids):
    with torch.no_grad(), doubles():
        return model(ids[None], use_cache=False).logits[0].double()


def as_version_4(config):
    """The keys that files made before transformers 5 have for the same thing."""
    gone = ("rope_parameters", "dtype", "layer_types", "_sliding_window_pattern")
    old = {k: v for k, v in config.items() if k not in gone}
    old["torch_dtype"] = config["dtype"]
    old["transformers_version"] = "4.45.0"
    if config.get("use_sliding_window") is False:
        old["sliding_window"] = 8  # files of Qwen 2 have a number here that counts for nothing
    rope = config.get("rope_parameters")
    if rope and "full_attention" in rope:
        old["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        old["sliding_window_pattern"] = config["layer_types"].index("full_attention") + 1
        rope = rope["full_attention"]
    if rope:
        old["rope_theta"] = rope["rope_theta"]
        scaling = {k: v for k, v in rope.items() if k != "rope_theta"}
        old["rope_scaling"] = None if scaling["rope_type"] == "default" else scaling
    return dict(sorted(old.items()))


def save(model, row, folder):
    stored = model.to(row.get("dtype", torch.float32))
    stored.save_pretrained(folder, max_shard_size=SHARD_BYTES if row.get("shard") else "1GB")
    new = json.loads((folder / "config.json").read_text())
    for file in folder.glob("*.safetensors"):
        file.chmod(0o644)
    (folder / "config_5.json").write_text(json.dumps(new, indent=2) + "\n")
    (folder / "config.json").write_text(json.dumps(as_version_4(new), indent=2) + "\n")


def reload(row, folder, config_name):
    """The saved model in float64, read with one of its two configs."""
    with tempfile.TemporaryDirectory() as copy:
        copy = pathlib.Path(copy)
        for file in [*folder.glob("model*"), folder / "generation_config.json"]:
            shutil.copy(file, copy)
        shutil.copy(folder / config_name, copy / "config.json")
        _, model_class = classes(row["family"])
        return model_class.from_pretrained(copy, attn_implementation="eager",
                                           dtype=torch.float32).eval().double()


def distance(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def check_features(name, row, model, ids, expected):
    _, model_class = classes(row["family"])
    for change in row["matters"]:
        other = model_class(make_config(row, **change)).eval()
        other.load_state_dict(model.state_dict())
        moved = distance(logits_of(other.double(), ids), expected)
        assert moved > 1e-2, f"{name}: {change} moves the logits by {moved:.2g} only"
    # And every tensor takes part; 1e-4 is what the tests allow.
    for key, x in model.named_parameters():
        with torch.no_grad():
            kept = x.clone()
            x += 0.1 * torch.randn_like(x)
            moved = distance(logits_of(model, ids), expected)
            x.copy_(kept)
        assert moved > 1e-4, f"{name}: {key} moves the logits by {moved:.2g} only"


def write_expected(folder, name, ids, logits):
    data = [*map(float, ids.tolist()), *logits.reshape(-1).tolist()]
    vocabulary = logits.shape[1]
    lines = ["focal golden 1", f"case {name} {TOKENS} {vocabulary}", f"tensor ids 0 {TOKENS}",
             f"tensor logits {TOKENS} {TOKENS * vocabulary}"]
    (folder / "expected.manifest").write_text("\n".join(lines) + "\n")
    (folder / "expected.bin").write_bytes(struct.pack(f"<{len(data)}d", *data))


def make(name, row, seed, root):
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = make_model(row, seed)
    ids = torch.randint(3, VOCABULARY, (TOKENS,), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        single = model(ids[None], use_cache=False).logits[0].double()
    save(model, row, folder)
    expected = logits_of(reload(row, folder, "config_5.json"), ids)
    old = logits_of(reload(row, folder, "config.json"), ids)
    assert torch.equal(expected, old), f"{name}: the configs differ by {distance(old, expected)}"
    rounding = distance(single, expected)
    assert rounding < 1e-4, f"{name}: float32 is {rounding:.2g} away"
    check_features(name, row, reload(row, folder, "config_5.json"), ids, expected)
    write_expected(folder, name, ids, expected)
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{name:8} {size:7} bytes, logits {expected.min():.2f} to {expected.max():.2f}, "
          f"deviation {expected.std():.2f}, float32 within {rounding:.1e}")
    return size


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                        pathlib.Path(__file__).resolve().parent.parent / "tests/golden/models")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    total = sum(make(name, row, seed, root) for seed, (name, row) in enumerate(MODELS.items(), 1))
    print(f"{total} bytes in all")
    assert total < 1_500_000


if __name__ == "__main__":
    main()
