#!/usr/bin/env python3
"""Writes tests/golden/templates/expected.json: what jinja2, set up as transformers does it, makes of
every template in that folder over the conversations below; null where it fails. The templates are
written from the list of constructs, which are those that the templates of well-known models use;
a construct that none of them has is an error.

Usage: tools/golden_templates.py [FOLDER]. Needs jinja2 >= 3.1.6.
"""
import json
import pathlib
import re
import sys

from template_bindings import render_jinja

# What a template must be able to say, and how to see that one does.
CONSTRUCTS = {
    # loops
    "for over messages": r"for m in messages",
    "for with a condition": r"for \w+ in [^%]* if ",
    "for over pairs": r"for \w+, \w+ in .*\.items\(\)",
    "for over a mapping's keys": r"for k in c\.arguments",
    "for, else": r"{%-? else -?%}[^{]*\n{%-? endfor",
    "loop.first": r"loop\.first", "loop.last": r"loop\.last", "loop.index": r"loop\.index\b",
    "loop.index0": r"loop\.index0", "loop.length": r"loop\.length", "loop.revindex": r"loop\.revindex\b",
    "loop.previtem": r"loop\.previtem", "loop.nextitem": r"loop\.nextitem", "loop.cycle": r"loop\.cycle\(",
    "loop.changed": r"loop\.changed\(", "break": r"{%-? break", "continue": r"{%-? continue",
    # conditions and names
    "elif": r"{%-? elif", "an inline if without else": r"{{[^}]*' if [^}]*[^e] }}",
    "an inline if with else": r" if .* else ", "set": r"{%-? set \w+ =", "set of two": r"set ns\.\w+, ns\.\w+ =",
    "set block": r"{%-? set \w+ -?%}", "set block with filters": r"{%-? set \w+ \|", "with": r"{%-? with ",
    "namespace": r"namespace\(\w+=", "set of a namespace's attribute": r"set \w+\.\w+ =",
    "set of a caller's name": r"set messages = messages\[1:\]", "comparison chain": r"1 < [\w.]+ <=",
    "in a list": r" in \['", "in a tuple": r" in \('", "not in": r" not in ", "in a text": r"'/short' in ",
    "defined and not none": r"is defined and [\w.]+ is not none",
    # macros and blocks
    "macro with defaults": r"macro \w+\(\w+, \w+=", "macro that calls itself": r"kind_of\(schema\.additional",
    "macro called by keyword": r"width=8\)", "filter block": r"{%-? filter ", "raw": r"{%-? raw",
    "generation": r"{%-? generation", "comment": r"{#",
    # functions
    "raise_exception": r"raise_exception\(", "strftime_now": r"strftime_now\(", "strftime_now is defined": r"strftime_now is defined",
    "range": r"range\(", "dict": r"dict\(a=",
    # reaching in
    "slice from": r"messages\[1:\]", "slice to": r"\[:1\]", "slice, negative": r"\[-2:\]", "slice, step": r"\[::2\]",
    "slice, backwards": r"\[::-1\]", "last item": r"messages\[-1\]", "key in brackets": r"m\['role'\]",
    "key in brackets, twice": r"\['function'\]\['arguments'\]", "computed index": r"messages\[loop\.index0 [-+] 1\]",
    "get": r"\.get\('", "get with a default": r"\.get\(m\.role, '", "items": r"\.items\(\)", "values": r"\.values\(\)",
    # operators
    "~": r" ~ ", "text + text": r"' \+ ", "text * number": r"'>' \*", "%, a remainder": r"% 2", "%, a format": r"%03d' %",
    "//": r" // ", "**": r" \*\* ", "or for a default": r" or '", "not": r" not [a-z]", "neighbouring texts": r"'x' 'y'",
    # tests
    **{f"is {name}": rf" is (not )?{name}\b" for name in (
        "defined", "none", "string", "mapping", "iterable", "number", "sequence", "boolean", "true", "false", "odd", "float",
        "divisibleby", "sameas", "lower", "upper", "undefined")},
    "is not defined": r" is not defined", "not X is defined": r"not \w+ is defined",
    # filters
    **{f"filter {name}": rf"\| ?{name}\b" for name in (
        "trim", "length", "count", "upper", "title", "capitalize", "default", "replace", "indent", "string", "int", "float",
        "round", "abs", "e", "safe", "join", "list", "first", "last", "reverse", "unique", "sort", "dictsort", "items", "sum",
        "min", "max", "batch", "wordcount", "format", "select", "reject", "selectattr", "rejectattr", "tojson")},
    "map by attribute": r"map\(attribute='\w+'\)", "map with a default": r"map\(attribute='\w+', default=",
    "map by filter": r"map\('trim'\)", "default for what is false": r"default\([^)]*, true\)",
    "tojson with indent": r"tojson\(indent=4\)", "tojson with separators": r"tojson\(separators=",
    "tojson with ensure_ascii": r"tojson\(ensure_ascii=", "tojson with sort_keys": r"sort_keys=true",
    # texts
    **{f".{name}()": rf"\.{name}\(" for name in (
        "strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "startswith", "endswith", "upper", "lower", "title",
        "replace", "find", "count", "partition", "removesuffix", "format", "join")},
    "split, the last piece": r"\.split\([^)]*\)\[-1\]", "startswith one of several": r"startswith\(\(",
    # white space
    "{%- and -%}": r"{%- [^%]*-%}", "{%+": r"{%\+", "+%}": r"\+%}", "{{- and -}}": r"{{- .*-}}", "{#- and -#}": r"{#-[^#]*-#}",
    "a tag alone in an indented line": r"\n +{% \w+.*%}\n", "escapes in texts": r"'\\u00e9\\x41'", "all in one line": r"\A[^\n]{200,}\Z",
}


def check_constructs(sources):
    """Names the constructs that no template has."""
    missing = [name for name, pattern in CONSTRUCTS.items() if not any(re.search(pattern, text) for text in sources)]
    if missing:
        sys.exit("no template has: " + "; ".join(missing))


WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather at a place, now or on a day",
    "parameters": {"type": "object", "properties": {
        "place": {"type": "string", "description": "A town, like \"Zürich\"\nor <here>"},
        "days": {"type": "array", "items": {"type": "integer"}},
        "unit": {"type": ["string", "null"], "enum": ["C", "F"]},
        "exact": {"type": "boolean", "default": False}}, "required": ["place"]},
    "return": {"type": "number"}}}
TIME = {"type": "function", "function": {"name": "time", "description": "", "parameters": {
    "type": "object", "properties": {"zone": {"type": "object", "additionalProperties": {"type": "number"}},
                                     "form": {"type": "string", "enum": ["12h", "24h"]}},
    "required": []}}}


def call(name, arguments, number="a1b2c3d4e"):
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


ASKED = [turn("user", "What is the weather in Zürich?"),
         turn("assistant", None, tool_calls=[call("get_weather", {"place": "Zürich", "days": [1, 2], "exact": True})]),
         turn("tool", "{\"temperature\": 21.5}", tool_call_id="a1b2c3d4e", name="get_weather")]

CHATS = {
    "one": dict(messages=[turn("user", "Hello")], add_generation_prompt=True),
    "one_no_prompt": dict(messages=[turn("user", "Hello")]),
    "system": dict(messages=[turn("system", "Be brief. "), turn("user", "  Hi there\n")], add_generation_prompt=True),
    "turns": dict(messages=[turn("user", "a"), turn("assistant", " b \n"), turn("user", "c"), turn("assistant", "d")]),
    "system_turns": dict(messages=[turn("system", "S"), turn("user", "1"), turn("assistant", "2"), turn("user", "3")],
                         add_generation_prompt=True),
    "two_users": dict(messages=[turn("user", "a"), turn("user", "b")]),
    "two_systems": dict(messages=[turn("system", "a"), turn("system", "b"), turn("user", "c")]),
    "nothing": dict(messages=[], add_generation_prompt=True),
    "empty_content": dict(messages=[turn("user", ""), turn("assistant", "")], add_generation_prompt=True),
    "none_content": dict(messages=[turn("user", None)]),
    "missing_content": dict(messages=[{"role": "user"}]),
    "missing_role": dict(messages=[{"content": "x"}]),
    "unicode": dict(messages=[turn("user", "naïve 你好 🙂 Ünïcode\u00a0\u2028 \u200b\t|"), turn("assistant", "ЖÄß")],
                    add_generation_prompt=True),
    "like_a_template": dict(messages=[turn("user", "{{ 7 * 7 }} {% raise %} {# no #} {%- if x -%}"),
                                      turn("assistant", "}} %} '\\n' \"q\" </s> <b>&amp;</b>")]),
    "tools": dict(messages=[turn("user", "What is the weather in Zürich?")], tools=[WEATHER, TIME],
                  add_generation_prompt=True),
    "tools_system": dict(messages=[turn("system", "Use tools."), turn("user", "And now?")], tools=[WEATHER]),
    "tool_result": dict(messages=ASKED, tools=[WEATHER], add_generation_prompt=True),
    "tool_answer": dict(messages=[*ASKED, turn("assistant", "21.5 degrees."), turn("user", "Thanks"),
                                  turn("assistant", "Welcome")], tools=[WEATHER]),
    "two_calls": dict(messages=[turn("user", "?"), turn("assistant", "Let me see.", tool_calls=[
        call("time", {}), call("get_weather", "{\"place\": \"X\"}", "123456789")]), turn("tool", "1"), turn("tool", "2")],
        add_generation_prompt=True),
    "thinking": dict(messages=[turn("user", "q"), turn("assistant", "<think>\nlong\n\nthought\n</think>\n\nanswer"),
                               turn("user", "more"), turn("assistant", "so", reasoning_content="because\n")]),
    "no_thinking": dict(messages=[turn("user", "q")], add_generation_prompt=True, variables={"enable_thinking": False}),
    "parts": dict(messages=[turn("user", [{"type": "text", "text": " Look: "}, {"type": "image"},
                                          {"type": "text", "text": "well?"}]), turn("assistant", "Yes.")]),
    "documents": dict(messages=[turn("user", "Who?")], add_generation_prompt=True, variables={
        "documents": [{"title": "One", "text": "first"}, {"title": "Two", "text": "second\nline"}],
        "controls": {"citations": True, "length": "short"}}),
    "settings": dict(messages=[turn("user", "x")], tools=[TIME], variables={
        "day": "01 May 2025", "plugins": ["search", "interpreter"]}),
    "plugins": dict(messages=[turn("user", "x"), turn("assistant", "", tool_calls=[
        call("search", {"query": "cats", "where": "web"})]), turn("tool", {"found": 3})],
        variables={"plugins": ["search", "interpreter"]}),
    "style": dict(messages=[turn("system", "Plain words. /short"), turn("user", "q"), turn("assistant", "\n\na")],
                  add_generation_prompt=True),
    "numbers": dict(messages=[turn("user", "n", weight=0.1, big=1e22, small=-1.5e-7, count=3, ok=True, no=None)]),
}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          pathlib.Path(__file__).parents[1] / "tests/golden/templates")
    templates = {path.name: path.read_bytes().decode() for path in sorted(folder.glob("*.jinja"))}
    check_constructs(templates.values())
    cases = []
    for template, source in templates.items():
        for name, chat in CHATS.items():
            text, _ = render_jinja(source, chat)
            cases.append({"template": template, "chat": name, "text": text})
    lines = [json.dumps(case, ensure_ascii=False) for case in cases]
    chats = [f"{json.dumps(name)}: {json.dumps(chat, ensure_ascii=False)}" for name, chat in CHATS.items()]
    (folder / "expected.json").write_text(
        '{"chats": {\n' + ",\n".join(chats) + '\n},\n"cases": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")
    failed = sum(case["text"] is None for case in cases)
    print(f"{len(cases)} cases, {failed} of them fail")


if __name__ == "__main__":
    main()
