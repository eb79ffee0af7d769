#!/usr/bin/env python3
"""Writes tests/golden/mc: questions with choices, and what transformers finds for SmolLM2.

items.jsonl holds the questions, prefix.txt a text to put before them, smollm2.json for each question the
log-probability and the number of tokens of every choice: alone, behind the prefix, and behind the last tokens of
it. Ids are cut as _encode_pair of lm-evaluation-harness cuts them; a text is one pass in float32, and nothing is
kept from one to the next. test_mc_models compares.
Usage: OMP_NUM_THREADS=1 tools/golden_mc.py FOLDER, which has SmolLM2-135M-Instruct.Q4_1.gguf; needs torch and
transformers.
"""
import json
import pathlib
import sys

import tokenizers
import torch
import transformers

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "mc"
PREFIX_TOKENS = 25

# Choices with and without a space before them, white space at the end of contexts, other scripts, digits, choices
# of one token and of many, a context a choice, no context at all.
ITEMS = [
    ("Question: What do bees make?\nAnswer:", [" honey", " iron", " glass", " paper"], 0),
    ("Question: What do bees make?\nAnswer:", ["iron", "honey"], 1),
    ("The opposite of hot is", [" cold", " warm", " blue"], 0),
    ("The opposite of hot is ", ["blue", "cold"], 1),
    ("A list of colours:\n- red\n- green\n- ", ["blue", "seventeen"], 0),
    ("A list of colours:\n- red\n- green\n-\n\n", ["- blue", "and then they all went home"], 0),
    ("Two and two are", [" 4", " 5", " 22", " 1000000"], 0),
    ("2 + 2 =", ["4", "5"], 0),
    ("The year in which the wall fell was 19", ["89", "12", "elephants"], 0),
    ("Paris is the capital of", [" France, a country in the west of Europe.", " Spain.", " the moon"], 0),
    ("In French, 'good evening' is", [" « bonsoir »", " « été »", " naïve café"], 0),
    ("東京は", ["日本の首都です", "フランスの首都です"], 0),
    ("Она сказала:", [" да", " нет, никогда", " 🙂🙂"], 1),
    ("", ["The cat sat on the mat.", "Mat the on sat cat the."], 0),
    ("   ", ["Once upon a time", "upon Once time a"], 0),
    (["The trophy does not fit into the suitcase because the trophy",
      "The trophy does not fit into the suitcase because the suitcase"], [" is too large.", " is too large."], 0),
    (["She poured water into the cup until it", "She poured water out of the cup until it"],
     ["was full", "was full"], 0),
    ("def add(a, b):\n    return", [" a + b", " a - b", "\n\nclass Add:"], 0),
    ("Water boils at one hundred degrees", [" Celsius", " below zero, in the dark, at night, on the moon, alone"], 0),
    ("I do", ["n't know", " not know", "g"], 1),
    ("Q: Is the sky blue?\nA:", ["\tyes", "\tno"], 0),
    ("The names of the months are", [f" {name}" for name in "January February March April May June July August "
                                     "September October November December".split()], 0),
]

PREFIX = """Question: What do cows drink?
Answer: water

Question: Which is larger, an ant or a naïve elephant?
Answer: an elephant

"""


def ids_of(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


def pair_ids(tokenizer, prefix, context, choice):
    """All ids and how many of them are the context's."""
    context = prefix + context
    if context and not context[-1].isspace() and not choice[0].isspace():
        choice = " " + choice
    spaces = len(context) - len(context.rstrip())
    if spaces:
        context, choice = context[:-spaces], context[-spaces:] + choice
    if not context:
        return [tokenizer.bos_token_id] + ids_of(tokenizer, choice), 1
    whole, own = ids_of(tokenizer, context + choice), ids_of(tokenizer, context)
    assert whole[:len(own)] == own, "a choice changes its context: the harness loses text then, focal does not"
    return whole, len(own)


def score(model, tokenizer, prefix, context, choice):
    ids, first = pair_ids(tokenizer, prefix, context, choice)
    with torch.no_grad():
        logits = model(torch.tensor([ids[:-1]])).logits[0].double()
    probabilities = torch.log_softmax(logits, dim=-1)
    return sum(float(probabilities[n - 1, ids[n]]) for n in range(first, len(ids))), len(ids) - first


def score_all(model, tokenizer, prefix):
    rows = []
    for context, choices, _ in ITEMS:
        contexts = context if isinstance(context, list) else [context] * len(choices)
        scores = [score(model, tokenizer, prefix, a, b) for a, b in zip(contexts, choices)]
        rows.append({"logprob": [round(p, 6) for p, _ in scores], "tokens": [n for _, n in scores]})
    return rows


def main():
    folder = sys.argv[1]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=FILE)
    # The file's pre-tokenizer, "smollm", which transformers does not know: digits one by one.
    tokenizer.backend_tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Digits(individual_digits=True),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE, dtype=torch.float32,
                                                              attn_implementation="eager").eval()
    end = tokenizer.decode(ids_of(tokenizer, PREFIX)[-PREFIX_TOKENS:])
    assert PREFIX.endswith(end) and len(ids_of(tokenizer, end)) == PREFIX_TOKENS
    OUT.mkdir(exist_ok=True)
    with open(OUT / "items.jsonl", "w", encoding="utf-8") as file:
        for n, (context, choices, answer) in enumerate(ITEMS):
            item = {"id": n, "context": context, "choices": choices, "answer": answer}
            print(json.dumps(item, ensure_ascii=n % 2 == 0), file=file)
    (OUT / "prefix.txt").write_text(PREFIX, encoding="utf-8")
    result = {"prefix_tokens": PREFIX_TOKENS, "alone": score_all(model, tokenizer, ""),
              "behind": score_all(model, tokenizer, PREFIX), "behind_end": score_all(model, tokenizer, end)}
    with open(OUT / "smollm2.json", "w", encoding="utf-8") as file:
        print("{" + f'"prefix_tokens": {PREFIX_TOKENS}', end="", file=file)
        for name in ("alone", "behind", "behind_end"):
            lines = ",\n".join(json.dumps(row) for row in result[name])
            print(f',\n"{name}": [\n{lines}]', end="", file=file)
        print("}", file=file)


main()
