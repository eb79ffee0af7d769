#!/usr/bin/env python3
"""Writes tests/golden/templates/expected.json: what jinja2, set up as transformers does it, makes of
every template in that folder over the conversations below; null where it fails.

Usage: tools/golden_templates.py [FOLDER]. Needs jinja2 >= 3.1.6.
"""
import json
import pathlib
import sys

from template_bindings import render_jinja

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather at a place, now or on a day",
    "parameters": {"type": "object", "properties": {
        "place": {"type": "string", "description": "A town, like \"Zürich\"\nor <here>"},
        "days": {"type": "array", "items": {"type": "integer"}},
        "unit": {"type": ["string", "null"], "enum": ["C", "F"]},
        "exact": {"type": "boolean", "default": False}}, "required": ["place"]},
    "return": {"type": "number"}}}
TIME = {"type": "function", "function": {"name": "time", "description": "", "parameters": {
    "type": "object", "properties": {"zone": {"type": "object", "additionalProperties": {"type": "number"}}},
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
                                      turn("assistant", "}} %} '\\n' \"q\" <|im_end|> <b>&amp;</b>")]),
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
        "date_string": "01 May 2025", "builtin_tools": ["search", "interpreter"], "tools_in_user_message": False}),
    "builtin": dict(messages=[turn("user", "x"), turn("assistant", "", tool_calls=[
        call("search", {"query": "cats", "where": "web"})]), turn("tool", {"found": 3})],
        variables={"builtin_tools": ["search", "interpreter"]}),
    "modes": dict(messages=[turn("system", "Short. /no_think"), turn("user", "q"), turn("assistant", "\n\na")],
                  add_generation_prompt=True),
    "numbers": dict(messages=[turn("user", "n", weight=0.1, big=1e22, small=-1.5e-7, count=3, ok=True, no=None)]),
}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          pathlib.Path(__file__).parents[1] / "tests/golden/templates")
    cases = []
    for path in sorted(folder.glob("*.jinja")):
        for name, chat in CHATS.items():
            text, _ = render_jinja(path.read_bytes().decode(), chat)
            cases.append({"template": path.name, "chat": name, "text": text})
    lines = [json.dumps(case, ensure_ascii=False) for case in cases]
    chats = [f"{json.dumps(name)}: {json.dumps(chat, ensure_ascii=False)}" for name, chat in CHATS.items()]
    (folder / "expected.json").write_text(
        '{"chats": {\n' + ",\n".join(chats) + '\n},\n"cases": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")
    failed = sum(case["text"] is None for case in cases)
    print(f"{len(cases)} cases, {failed} of them fail")


if __name__ == "__main__":
    main()
