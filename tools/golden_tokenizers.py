#!/usr/bin/env python3
"""Makes tests/golden/tokenizers: small tokenizers of every kind, and what the tokenizers and
sentencepiece packages make of a list of nasty texts with them.

    NAME.json     a tokenizer.json, or for SentencePiece an object with tokens, scores and types
    vectors.json  {"texts": [...], "cases": [...]}; a case has

        file    the tokenizer
        pre     present: load its vocabulary the GGUF way, with this tokenizer.ggml.pre
        texts   how many of the texts, from the first, it has ids for
        parsed  ids of each text, special tokens recognised; false where the package makes a byte
                token of its name, which SentencePiece does not
        plain   the same with special tokens taken as text; null where nothing changes, false where
                the package's model makes a special token of text all the same
        around  [before, behind]: ids that are put around a text
        shown   the decoded text of `parsed`; null where it is the text itself (left out for
                tokenizers without a decoder), false where there is nothing to compare: the
                package shows some added tokens normalised
        skipped the same without special tokens; null where it is as shown

Usage: golden_tokenizers.py [FOLDER]; needs the packages tokenizers and sentencepiece."""
import json
import pathlib
import sys
import tempfile

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1
                      else pathlib.Path(__file__).parents[1] / "tests/golden/tokenizers")

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*%s|"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GGUF_PRE = {  # what the names of tokenizer.ggml.pre mean
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "llama-bpe": [LLAMA3],
    "qwen2": [QWEN2],
    "tekken": [CASED % ("", "") + r"\p{N}" + TAIL],
    "gpt-4o": [CASED % (SHORT, SHORT) + r"\p{N}{1,3}" + TAIL],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
                    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
                    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
                    r"|\s*[\r\n]+|\s+(?!\S)|\s+"],
}

CORPUS = """The lighthouse keeper counted the ships that passed in 1907, and wrote each one down.
"They're late," he said; "we'll see them at 12:45, won't we?"  She didn't answer. It's the fog,
the fog that comes in from the sea and stays for days, and nobody can say when it will lift.
    for (int i = 0; i < count; i++) { total += values[i] * 3.14159; }
def keeper(name, ships=None):\n\treturn {"name": name, "ships": ships or []}\n
Der Bär lief über die Straße; où est la bibliothèque? El niño comió mañana. Привет, как дела?
漢字とかな 中文字符 한국어 العربية עברית ไทย हिन्दी 🙂🚀 naïve café résumé
the ship the ships the shipping of the keeper's keepers kept keeping the light, lighter, lightest
""" * 3

# The first of them are for every case, the rest for the main ones.
TEXTS = [
    "Hello world", " Hello world", "", " ", "  ", "   x", "x   ", "\n", "\n\n\n", "a\nb\r\nc\rd",
    " \n \n  x", "\t\ttabs\tand  spaces ", "They're late, we'll see; IT'S he'd I'M you'VE 'twas",
    "'s 't 're", "1", "12", "123", "1234567", "3.14159 1,000 0x1F", "abc123def 4th",
    "the keeper's ships, the light!", "def f(x):\n\treturn {\"a\": [1, 2]}\n",
    "wow!!! ... ??? --- ***", "a_b c-d e.f", "naïve café résumé", "cafe\u0301 nai\u0308ve",
    "漢字とかな", "中文 字符", "Привет, мир", "🙂", "👩‍👩‍👧🏽 🇩🇪", "مرحبا ١٢٣", "x\u00a0y\u2003z\u3000w",
    "<s>", "text<|end|>more", "<|end|><|end|> <|end|>", "▁low ▁▁ line", "<0x41><unk>",
    "ñ ½ ² Ⅷ ①", "a\u0000b\u0001\u007f\u0085c",
    "ｆｕｌｌ　ｗｉｄｔｈ ﬁ ﷺ", "İstanbul ISTANBUL ǅ ẞ", "\ufeffbom\u200bzero\u200dwidth", "ｶﾞ ハ\u309a 각 각",
    "q\u0307\u0323 \u0301 a\u0323\u0302\u0307\u0327", "हिन्दी ไทย தமிழ்", "𝒳𝓎 𝟙𝟚 𐍈", "'ſ 'S ’s",
    "line one\n\n\n  line two\n   \n\t\nend  \n", "https://a.bc/d?e=f&g=%20#h", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "The quick brown fox jumps over the lazy dog. " * 3, "\u180e\u1680\u2028x", "( ) [ ] { } \\ / | ~ ^ ` @ # $ %",
    "keeper<|user|>keeper <|user|> end", "MASK mask masked [MASK]  [MASK] x", "   <|end|>   x",
]
FEW = 40


def case(name, tokenizer, texts, pre=None):
    """What the package makes of the first texts."""
    tokenizer.no_padding()
    out = {"file": name, "texts": texts, "parsed": [], "plain": [], "shown": [], "skipped": []}
    if pre:
        out["pre"] = pre
    for text in TEXTS[:texts]:
        tokenizer.encode_special_tokens = False
        parsed = tokenizer.encode(text, add_special_tokens=False).ids
        named = isinstance(tokenizer.model, models.Unigram) and "<0x" in text
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        shown = tokenizer.decode(parsed, skip_special_tokens=False)
        skipped = tokenizer.decode(parsed, skip_special_tokens=True)
        odd = any(t.normalized and t.content != tokenizer.id_to_token(n)
                  for n, t in tokenizer.get_added_tokens_decoder().items() if n in parsed)
        out["parsed"].append(False if named else parsed)
        leaks = isinstance(tokenizer.model, models.Unigram) and any(t in text for t in SPECIALS)
        out["plain"].append(False if leaks else None if plain == parsed else plain)
        out["shown"].append(False if odd else None if shown == text else shown)
        out["skipped"].append(None if skipped == shown else skipped)
    tokenizer.encode_special_tokens = False
    inside = tokenizer.encode("a", add_special_tokens=False).ids
    full = tokenizer.encode("a").ids
    at = next(i for i in range(len(full) + 1) if full[i:i + len(inside)] == inside)
    out["around"] = [full[:at], full[at + len(inside):]]
    if not tokenizer.decoder:
        del out["shown"], out["skipped"]
    return out


def save(name, tokenizer):
    text = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def byte_level(pre, size=420, normalizer=None, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([CORPUS], trainers.BpeTrainer(
        vocab_size=size, show_progress=False, special_tokens=["<|begin|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def split(*patterns):
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def begin_template(token, number):
    return processors.TemplateProcessing(single=f"{token} $A", special_tokens=[(token, number)])


SPECIALS = ["<unk>", "<s>", "</s>", "<|end|>"]
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def characters(normalizer, pre, decoder, size=260, with_bytes=True):
    """BPE over characters, as converted SentencePiece models are."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre:
        tokenizer.pre_tokenizer = pre
    tokenizer.train_from_iterator([CORPUS], trainers.BpeTrainer(
        vocab_size=size, show_progress=False, special_tokens=SPECIALS, limit_alphabet=90,
        max_token_length=12))
    model = json.loads(tokenizer.to_str())["model"]
    tokens = list(model["vocab"])
    if with_bytes:
        tokens = SPECIALS + BYTES + tokens[len(SPECIALS):]
    tokenizer.model = models.BPE(
        {token: n for n, token in enumerate(tokens)}, [tuple(m) for m in model["merges"]],
        unk_token="<unk>", fuse_unk=True, byte_fallback=with_bytes)
    if decoder:
        tokenizer.decoder = decoder
    return tokenizer


def fallback_decoder(strip):
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strip else []))


def unigram(pre, normalizer, decoder, byte_fallback):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.train_from_iterator([CORPUS], trainers.UnigramTrainer(
        vocab_size=220, show_progress=False, unk_token="<unk>", special_tokens=SPECIALS,
        n_sub_iterations=2))
    vocab = json.loads(tokenizer.to_str())["model"]["vocab"]
    if byte_fallback:
        vocab = vocab[:len(SPECIALS)] + [[b, 0.0] for b in BYTES] + vocab[len(SPECIALS):]
    tokenizer.model = models.Unigram([tuple(v) for v in vocab], 0, byte_fallback)
    tokenizer.decoder = decoder
    return tokenizer


def main_cases():
    gpt2 = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    yield "gpt2", gpt2
    llama3 = byte_level(split(LLAMA3))
    model = json.loads(llama3.to_str())["model"]
    # Without its merges, whole words are still tokens: ignore_merges shows.
    llama3.model = models.BPE(model["vocab"], [tuple(m) for m in model["merges"][:60]],
                              ignore_merges=True)
    llama3.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=False), begin_template("<|begin|>", 0)])
    yield "llama3", llama3
    yield "qwen2", byte_level(split(QWEN2), normalizer=normalizers.NFC())
    yield "smollm", byte_level(pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    prefix = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), size=360,
                        normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]))
    prefix.post_processor = processors.RobertaProcessing(("<|end|>", 1), ("<|begin|>", 0))
    prefix.add_special_tokens([AddedToken("[MASK]", lstrip=True, rstrip=True, normalized=False)])
    prefix.add_tokens([AddedToken("<|user|>", normalized=False), AddedToken("Keeper", normalized=True),
                       AddedToken("mask", single_word=True, normalized=True)])
    yield "prefix", prefix
    llama2 = characters(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
                        None, fallback_decoder(True))
    llama2.post_processor = begin_template("<s>", 1)
    llama2.add_special_tokens(SPECIALS)
    yield "llama2", llama2
    gemma = characters(normalizers.Replace(" ", "▁"),
                       pre_tokenizers.Split(" ", "merged_with_previous"), fallback_decoder(False))
    gemma.add_special_tokens(SPECIALS)
    gemma.add_tokens([AddedToken("\n\n", normalized=False), AddedToken("▁▁", normalized=False)])
    yield "gemma", gemma
    mistral = characters(None, pre_tokenizers.Metaspace("▁", "first", False), fallback_decoder(True))
    mistral.add_special_tokens(SPECIALS)
    yield "mistral", mistral
    plain = unigram(pre_tokenizers.Metaspace("▁", "always"), normalizers.NFKC(),
                    decoders.Metaspace("▁", "always"), False)
    plain.add_special_tokens(SPECIALS)
    yield "unigram", plain
    fallback = unigram(pre_tokenizers.Metaspace("▁", "never"),
                       normalizers.Sequence([normalizers.NFKD(), normalizers.Strip()]),
                       decoders.Sequence([decoders.Metaspace("▁", "never"), decoders.ByteFallback(),
                                          decoders.Fuse()]), True)
    fallback.add_special_tokens(SPECIALS)
    yield "unigram_bytes", fallback


def small_cases():
    """One small vocabulary, whose tokens reach across words, behind every kind of splitter."""
    P, N, R = pre_tokenizers, normalizers, Regex(r"\d+|[aeiou]")
    splitters = [P.Split(R, "isolated"), P.Split(R, "removed"), P.Split(R, "merged_with_previous"),
                 P.Split(R, "merged_with_next"), P.Split(R, "contiguous"),
                 P.Split(R, "removed", invert=True), P.Split(R, "merged_with_next", invert=True),
                 P.Split(Regex("x*"), "isolated"),
                 P.Whitespace(), P.WhitespaceSplit(), P.Punctuation(), P.Punctuation("contiguous"),
                 P.Punctuation("merged_with_previous"), P.Digits(), P.Split(" ", "removed"),
                 P.Sequence([P.WhitespaceSplit(), P.Sequence([P.Punctuation("removed"), P.Digits(True)])])]
    forms = [N.NFD(), N.NFKD(), N.NFC(), N.Strip(True, False), N.Replace(Regex(r"\s+"), " "),
             N.Sequence([N.Prepend(">"), N.Replace("e", "ee"), N.Lowercase()])]
    base = characters(None, None, None, size=190, with_bytes=False)
    for n, splitter in enumerate(splitters):
        base.pre_tokenizer = splitter
        yield f"split{n}", base
    base.pre_tokenizer = None
    for n, form in enumerate(forms):
        base.normalizer = form
        yield f"normal{n}", base


def sentencepiece_case(name, **options):
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text"
        text.write_text(CORPUS, encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input=str(text), model_prefix=folder + "/m", model_type="bpe", vocab_size=500,
            byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
            character_coverage=0.98, minloglevel=2, **options)
        model = sentencepiece.SentencePieceProcessor(model_file=folder + "/m.model")
    ids = range(model.get_piece_size())
    kinds = [2 if model.is_unknown(i) else 3 if model.is_control(i) else 6 if model.is_byte(i)
             else 5 if model.is_unused(i) else 1 for i in ids]
    out = {"tokens": [model.id_to_piece(i) for i in ids], "scores": [model.get_score(i) for i in ids],
           "types": kinds}
    (FOLDER / f"{name}.json").write_text(
        json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    parsed = [model.encode(t) for t in TEXTS]
    shown = [model.decode(p) for p in parsed]
    return {"file": name, "texts": len(TEXTS), "sentencepiece": options.get("add_dummy_prefix", True),
            "parsed": parsed, "plain": parsed,
            "shown": [None if s == t else s for s, t in zip(shown, TEXTS)],
            "skipped": [None] * len(TEXTS), "around": [[1], []]}


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.json"):
        old.unlink()
    cases = []
    for name, tokenizer in main_cases():
        save(name, tokenizer)
        cases.append(case(name, tokenizer, len(TEXTS)))
        if name == "gpt2":
            own = tokenizer.pre_tokenizer
            for pre, patterns in GGUF_PRE.items():
                if pre == "llama-bpe":
                    continue  # comes with ignore_merges; llama3.json has that
                tokenizer.pre_tokenizer = split(*patterns)
                cases.append(case(name, tokenizer, FEW if pre != "default" else len(TEXTS), pre))
            tokenizer.pre_tokenizer = own
    for name, tokenizer in small_cases():
        save(name, tokenizer)
        cases.append(case(name, tokenizer, FEW))
    cases.append(sentencepiece_case("sentencepiece"))
    cases.append(sentencepiece_case("sentencepiece_bare", add_dummy_prefix=False))
    lines = ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in cases)
    (FOLDER / "vectors.json").write_text(
        '{"texts":' + json.dumps(TEXTS, ensure_ascii=True) + ',\n"cases":[\n' + lines + "\n]}\n",
        encoding="utf-8")


main()
