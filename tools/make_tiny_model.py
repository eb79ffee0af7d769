#!/usr/bin/env python3
"""Writes tests/golden/models/tiny.gguf: a model of 100 KB that knows one sentence.

The tests of the program run it. It is a llama of two layers with a SentencePiece vocabulary
(bytes, the sentence's words and their beginnings) and a chat template. A token's row of the head is
the sum of the embeddings of the tokens that it follows, so the likeliest next token is the one of
CHAINS by a wide margin on every kernel; the layers are random and small.
Usage: tools/make_tiny_model.py [FILE]; needs numpy and gguf.
"""
import pathlib
import sys

import gguf
import numpy

C, H, G, D, F, L, CONTEXT = 64, 4, 2, 16, 32, 2, 256
CHAINS = [
    ["<s>", "The", "\u2581quick", "\u2581brown", "\u2581fox", "\u2581jumps", "\u2581over",
     "\u2581the", "\u2581lazy", "\u2581dog", ".", "<|im_end|>"],
    ["<0x0A>", "The"],
    ["\u2581caf", "<0xC3>", "<0xA9>", "!", "</s>"],
]
TEMPLATE = ("{% for message in messages %}<|im_start|>{{ message.role }}\n"
            "{{ message.content }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def vocabulary():
    """Tokens, their scores and types: control, bytes, then pieces; longer ones score lower."""
    kinds = gguf.TokenType
    rows = [("<unk>", 0.0, kinds.UNKNOWN), ("<s>", 0.0, kinds.CONTROL), ("</s>", 0.0, kinds.CONTROL),
            ("<|im_start|>", 0.0, kinds.CONTROL), ("<|im_end|>", 0.0, kinds.CONTROL)]
    rows += [(f"<0x{byte:02X}>", 0.0, kinds.BYTE) for byte in range(256)]
    words = [word for chain in CHAINS for word in chain if not word.startswith("<")]
    pieces = {word[:n] for word in words for n in range(1, len(word) + 1)}
    pieces |= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789,?'-:/")
    for rank, piece in enumerate(sorted(pieces, key=lambda piece: (len(piece), piece))):
        rows.append((piece, -1.0 - rank, kinds.NORMAL))
    return rows


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "tests/golden/models/tiny.gguf"
    random = numpy.random.default_rng(1)
    rows = vocabulary()
    index = {row[0]: n for n, row in enumerate(rows)}
    embed = random.standard_normal((len(rows), C)).astype(numpy.float32)
    head = 0.02 * random.standard_normal((len(rows), C)).astype(numpy.float32)
    for chain in CHAINS:
        for before, after in zip(chain, chain[1:]):
            head[index[after]] += 0.3 * embed[index[before]]

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_license("MIT")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(C)
    writer.add_block_count(L)
    writer.add_feed_forward_length(F)
    writer.add_head_count(H)
    writer.add_head_count_kv(G)
    writer.add_rope_dimension_count(D)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(rows))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([row[0] for row in rows])
    writer.add_token_scores([row[1] for row in rows])
    writer.add_token_types([int(row[2]) for row in rows])
    writer.add_unk_token_id(index["<unk>"])
    writer.add_bos_token_id(index["<s>"])
    writer.add_eos_token_id(index["</s>"])
    writer.add_eot_token_id(index["<|im_end|>"])
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)

    def add(name, values):
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

    def noise(*shape):
        return (0.05 * random.standard_normal(shape)).astype(numpy.float32)

    add("token_embd.weight", embed)
    add("output.weight", head)
    writer.add_tensor("output_norm.weight", numpy.ones(C, numpy.float32))
    for layer in range(L):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", numpy.ones(C, numpy.float32))
        for name, shape in (("attn_q", (H * D, C)), ("attn_k", (G * D, C)), ("attn_v", (G * D, C)),
                            ("attn_output", (C, H * D)), ("ffn_gate", (F, C)), ("ffn_up", (F, C)),
                            ("ffn_down", (C, F))):
            add(f"blk.{layer}.{name}.weight", noise(*shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{path}: {path.stat().st_size} bytes, {len(rows)} tokens")


if __name__ == "__main__":
    main()
