#!/usr/bin/env python3
"""Writes the text that a router is fitted on: several kinds, in shares, as JSON lines for
`focal tokenize --special -o`. Several, because routers learn to tell apart what they are shown
(docs/MATH.md, 6.1). Short texts are joined, so that documents are longer than a training sequence.

Usage: tools/fit_texts.py --books DIR --wiki FILE --stories FILE --questions FILE... --code DIR -o OUT
  --books      plain text files, a novel each
  --wiki       articles under lines " = Title = " (WikiText)
  --stories    stories between lines <|endoftext|> (TinyStories)
  --questions  JSON lines with "question", "answers" and a passage: "text" or "paragraphs"
  --code       Python files (Debian's are in /usr/lib/python3.11)
"""
import argparse
import json
import pathlib
import random
import re

SHARES = {"books": 0.50, "wiki": 0.25, "stories": 0.08, "questions": 0.10, "code": 0.07}
JOINED = 16000  # characters of a document that is made of short ones: about 4,000 tokens
TURN = "<|im_start|>{}\n{}<|im_end|>\n"


def joined(texts, between="\n\n"):
    """Documents of about JOINED characters out of shorter texts."""
    parts, size = [], 0
    for text in texts:
        parts.append(text)
        size += len(text)
        if size >= JOINED:
            yield between.join(parts)
            parts, size = [], 0


def books(folder):
    for path in sorted(pathlib.Path(folder).glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        for at in range(0, len(text) - 4 * JOINED + 1, 4 * JOINED):
            yield text[at:at + 4 * JOINED]


def wiki(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    starts = [found.start() for found in re.finditer(r"^ = [^=].* = $", text, re.MULTILINE)]
    articles = [text[a:b] for a, b in zip(starts, starts[1:] + [len(text)])]
    return joined(articles, "")


def stories(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    return joined(story.strip() for story in text.split("<|endoftext|>") if story.strip())


def passage(item):
    if "text" in item:
        return item["text"]
    return "\n\n".join(p["text"] for p in item["paragraphs"])


def turns(paths):
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                item = json.loads(line)
                asked = f"{passage(item)}\n\n{item['question']}"
                yield TURN.format("user", asked) + TURN.format("assistant", item["answers"][0])


def questions(paths):
    return joined(turns(paths), "")


def code(folder):
    files = sorted(pathlib.Path(folder).glob("*.py"))
    return joined((path.read_text(encoding="utf-8") for path in files), "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--books", required=True, metavar="DIR")
    parser.add_argument("--wiki", required=True, metavar="FILE")
    parser.add_argument("--stories", required=True, metavar="FILE")
    parser.add_argument("--questions", required=True, metavar="FILE", nargs="+")
    parser.add_argument("--code", required=True, metavar="DIR")
    parser.add_argument("-o", "--output", required=True, metavar="OUT")
    parser.add_argument("--characters", type=int, default=12_000_000,
                        help="in all; about four a token [12000000]")
    args = parser.parse_args()
    order, documents = random.Random(1), []
    for kind, share in SHARES.items():
        found = list(globals()[kind](getattr(args, kind)))
        order.shuffle(found)
        size = 0
        for text in found:
            if size >= share * args.characters:
                break
            documents.append({"kind": kind, "text": text})
            size += len(text)
        print(f"{kind}: {size} characters")
    order.shuffle(documents)
    with open(args.output, "w", encoding="utf-8") as out:
        for document in documents:
            out.write(json.dumps(document, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
