#!/usr/bin/env python3
"""Shows that `focal tokenize --train` makes what Hugging Face's BpeTrainer makes of the same text.

For each way of splitting and each size: vocabulary and merges are compared, and the ids of every file
as focal's tokenizer.json gives them in the tokenizers package, as that package's own result does, and
as focal itself does (read from the shards that it writes). Both times are printed.
Usage: tools/check_tokenizer_train.py FOCAL FILE...; needs tokenizers and numpy.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

END = "<|endoftext|>"
WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|"
         r"\s*[\r\n]+|\s+(?!\S)|\s+")
SPLITS = {"qwen2": WORDS % "", "llama3": WORDS % "{1,3}", "gpt-2": None}
SIZES = [512, 4096, 16384]
HEADER = 128  # docs/FORMATS.md


def rival(split, size, texts):
    """The tokenizers package's own result, and the seconds it took."""
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=SPLITS[split] is None)
    steps = [byte_level]
    if SPLITS[split]:
        steps.insert(0, pre_tokenizers.Split(Regex(SPLITS[split]), "isolated"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=2, special_tokens=[END],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    start = time.time()
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer, time.time() - start


def shard_ids(folder):
    """All ids of a set of shards."""
    parts = []
    for path in sorted(folder.glob("shard-*.tokens")):
        data = path.read_bytes()
        bits = int.from_bytes(data[12:16], "little")
        count = int.from_bytes(data[16:24], "little")
        parts.append(numpy.frombuffer(data, f"<u{bits // 8}", count, HEADER))
    return numpy.concatenate(parts).tolist()


def compare(focal, split, size, files, texts):
    """Faults found for one way and size."""
    faults = []
    with tempfile.TemporaryDirectory() as name:
        path, shards = pathlib.Path(name) / "tokenizer.json", pathlib.Path(name) / "shards"
        start = time.time()
        subprocess.run([focal, "tokenize", "--train", "--vocab", str(size), "--split", split,
                        "-o", path, "--json", *files], check=True, stdout=subprocess.DEVNULL)
        seconds = time.time() - start
        subprocess.run([focal, "tokenize", "-m", path, "-o", shards, "--json", *files], check=True,
                       stdout=subprocess.DEVNULL)
        theirs, their_seconds = rival(split, size, texts)
        ours = Tokenizer.from_file(str(path))
        ours.encode_special_tokens = theirs.encode_special_tokens = True  # as plain text
        a, b = (json.loads(t.to_str())["model"] for t in (ours, theirs))
        if a["vocab"] != b["vocab"]:
            faults.append("another vocabulary")
        if a["merges"] != b["merges"]:
            faults.append("other merges")
        ids = []
        for file, text in zip(files, texts):
            mine = ours.encode(text, add_special_tokens=False).ids
            if mine != theirs.encode(text, add_special_tokens=False).ids:
                faults.append(f"other ids for {file} in tokenizers")
            ids += mine + [ours.token_to_id(END)]
        if ids != shard_ids(shards):
            faults.append("other ids in focal's shards")
    print(f"{split} {size}: {len(a['vocab'])} tokens, {len(a['merges'])} merges, {len(ids)} ids; "
          f"focal {seconds:.2f} s, tokenizers {their_seconds:.2f} s"
          f"{'' if faults else ', all equal'}")
    return [f"{split} {size}: {fault}" for fault in faults]


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    focal, files = sys.argv[1], sys.argv[2:]
    texts = [pathlib.Path(file).read_bytes().decode("utf-8") for file in files]
    faults = []
    for split in SPLITS:
        for size in SIZES:
            faults += compare(focal, split, size, files, texts)
    for fault in faults:
        print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
