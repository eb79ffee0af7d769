"""Compares libfocal with jinja2 on generated templates: text, or failure of both.

    diff_templates.py build/libfocal.so [--count 5000] [--seed 1] [--show 20]

A template that jinja2 renders and focal refuses with "not supported" counts apart. Not run by the
gate.
"""
import argparse
import collections
import random
import re

from template_bindings import Focal, render_jinja

VARIABLES = {
    "n": 7, "z": 0, "neg": -3, "big": 12345, "x": 2.5, "tiny": 1e-7, "huge": 1e22, "t": True, "f": False,
    "none_": None, "s": "Hello World", "empty": "", "u": "héllo wörld ñ 你好 🙂", "ws": "  \n padded\t\n ",
    "html": "<b>&'\"</b>", "num": "42", "flt": "3.75", "multi": "one\ntwo\n\nthree\n", "words": "a,b,,c",
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "nested": [[1, 2], [3, [4]]], "el": [],
    "mixed": [1, "two", None, 3.0, True],
    "d": {"b": 1, "a": "x", "C": None, "list": [1, 2], "items": "shadow", "k": {"q": [5, 6]}}, "ed": {},
    "users": [{"name": "Zoe", "age": 30, "tags": ["x"]}, {"name": "adam", "age": 25, "ok": True},
              {"name": "Bob", "age": 30, "ok": False}],
}
CHAT = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi  "},
                     {"role": "assistant", "content": None, "tool_calls": [
                         {"function": {"name": "f", "arguments": {"a": 1, "b": "é"}}}]},
                     {"role": "tool", "content": "{\"r\": 1}"},
                     {"role": "user", "content": [{"type": "text", "text": "part"}, {"type": "image"}]}],
        "variables": VARIABLES}

NAMES = list(VARIABLES) + ["missing", "messages", "loop"]
STRINGS = ["''", "'a'", '"b c"', "'\\n'", "'é'", "','", "'o'", "'%s|%d'", "'l'", "' '", "'role'", "'Hello'",
           "'name'", "'age'", "'\\u00e9\\x41'", "'{}'", "'two'", "'x' 'y'", "'\\\\'", "'a.b'"]
INTS = ["0", "1", "2", "3", "-1", "-2", "10", "1_000", "0x1F", "100"]
FLOATS = ["0.5", "1.0", "2.5e3", "-0.25", "1e16", "123456789.125", "0.1", "1e-5"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
FILTERS = ["trim", "length", "count", "upper", "lower", "title", "capitalize", "first", "last", "list", "string",
           "int", "float", "abs", "sum", "min", "max", "sort", "reverse", "unique", "items", "dictsort", "escape",
           "e", "safe", "tojson", "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(separators=(',',':'))",
           "tojson(indent=0, sort_keys=true)", "join", "join(', ')", "join('-', attribute='name')", "round",
           "round(1)", "round(0, 'ceil')", "round(1, 'floor')", "round(-1)", "default('D')", "d('D', true)",
           "default", "replace('a', 'b')", "replace('l', '', 1)", "replace('', '-')", "indent", "indent(2, true)",
           "indent(width=3, blank=true)", "map('upper')", "map(attribute='name')", "map('int')|sum",
           "map(attribute='age', default=0)", "map('string')|join", "select", "reject", "select('defined')",
           "select('odd')", "selectattr('ok')", "rejectattr('ok')", "selectattr('age', 'gt', 26)",
           "rejectattr('role', 'equalto', 'user')", "selectattr('role', '==', 'user')", "list|first", "list|length",
           "sort(reverse=true)", "sort(attribute='name')", "sort(case_sensitive=true)", "sort(attribute='age,name')",
           "sum(attribute='age')", "sum(start=1)", "wordcount", "batch(2)|list", "batch(2, 'z')|list", "center(9)",
           "dictsort(by='value')", "dictsort(true, reverse=true)", "unique(attribute='age')|list", "unique|list",
           "max(attribute='age')", "min(case_sensitive=true)", "int(base=16)", "int(5)", "float(1.5)", "reverse|list",
           "format(1, 2)", "format('x')", "trim('Hd ')", "attr('name')", "first(1)", "nosuch", "map", "items|list",
           "string|length", "forceescape", "map('length')|list", "map('trim')|list", "map(attribute=0)|list"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float",
         "boolean", "true", "false", "odd", "even", "divisibleby 3", "divisibleby(2)", "equalto 1", "eq(2)",
         "in [1, 'a']", "in(l)", "sameas none", "lower", "upper", "callable", "gt 2", "lt(3)", "ge 1", "le 2",
         "ne 1", "escaped"]
METHODS = ["strip()", "lstrip()", "rstrip()", "strip('Hd')", "split()", "split(',')", "split(None, 1)",
           "rsplit(' ', 1)", "rsplit()", "split('l', 2)", "rsplit(None, 1)", "split('o')[-1]", "splitlines()",
           "splitlines(true)",
           "startswith('H')", "endswith('d')", "startswith(('x', 'H'))", "startswith('e', 1)", "endswith('o', 0, 5)",
           "upper()", "lower()", "title()", "capitalize()", "swapcase()", "find('o')", "find('o', 5)", "rfind('o')",
           "index('l')", "rindex('l')", "count('l')", "count('')", "count(3)", "index(1)", "replace('l', 'L')",
           "replace('l', 'L', 1)", "join(ls)", "join(l)", "format(1)", "format('a', 'b')", "items()", "keys()",
           "values()", "get('a')", "get('zz')", "get('zz', 5)", "get('b')", "copy()", "append(1)", "pop()",
           "update({})", "partition(' ')", "rpartition('o')", "zfill(8)", "ljust(14)", "rjust(14, '*')",
           "center(15)", "center(14, '-')", "isdigit()", "isalpha()", "isupper()", "islower()", "isspace()",
           "isalnum()", "removeprefix('He')", "removesuffix('ld')", "strip(chars='x')", "nosuch()", "split(sep=',')",
           "split(maxsplit=1)", "find('o', -4)", "find('', 3)", "count('o', 2, -2)", "encode()"]
ATTRIBUTES = ["name", "a", "b", "list", "items", "k.q", "k", "0", "1", "role", "content", "zz", "append", "upper"]


STR_METHODS = [m for m in METHODS if not any(w in m for w in ("items", "keys", "values", "get(", "copy", "append", "pop",
               "update", "nosuch", "encode", "chars=", "join(l)", "count(3)", "index(1)"))]
STR_TO_STR = [m for m in STR_METHODS if m.split("(")[0] in (
    "strip", "lstrip", "rstrip", "upper", "lower", "title", "capitalize", "swapcase", "replace", "join", "zfill", "ljust",
    "rjust", "center", "removeprefix", "removesuffix", "format")]
STR_FILTERS = ["trim", "upper", "lower", "title", "capitalize", "replace('l', 'LL')", "replace('o', '', 1)", "indent", "indent(2, true)",
               "indent(width=1, blank=true)", "string", "reverse", "escape|string", "center(20)", "trim('Hd')", "default('q')",
               "tojson", "tojson(ensure_ascii=true)", "first", "last", "list|join('.')", "sort|join", "unique|join", "e ~ s"]
LIST_FILTERS = ["list", "sort", "sort(reverse=true)", "reverse|list", "unique|list", "map('string')|list", "select|list", "reject|list",
                "batch(2)|list", "batch(2, 0)|list", "select('defined')|list", "map('string')|sort|list"]
USER_FILTERS = ["map(attribute='name')|list", "selectattr('ok')|list", "rejectattr('ok')|list", "selectattr('age', 'gt', 26)|list",
                "selectattr('ok', 'defined')|list", "sort(attribute='name')", "sort(attribute='age,name', reverse=true)",
                "map(attribute='tags', default=[])|list", "map(attribute='tags.0')|list", "groupby('age')", "unique(attribute='age')|list",
                "map(attribute='ok', default='?')|list", "rejectattr('name', 'in', ['Bob'])|list"]


LAZY = re.compile(r"\|(select|reject|map|items|unique|batch)")


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *choices):
        return self.random.choice(choices[0] if len(choices) == 1 else choices)

    def atom(self):
        kind = self.random.random()
        if kind < 0.55:
            return self.pick(NAMES)
        if kind < 0.72:
            return self.pick(STRINGS)
        if kind < 0.86:
            return self.pick(INTS)
        if kind < 0.92:
            return self.pick(FLOATS)
        return self.pick("true", "false", "none", "[]", "{}", "()", "True", "None", "(1,)", "range(3)",
                         "range(1, 10, 3)", "range(5, 0, -2)", "namespace(a=1, b='q')", "dict(a=1)", "dict(d)")

    def expression(self, depth):
        if depth <= 0:
            return self.atom()
        e, r = self.expression, self.random.random()
        if r < 0.18:
            return f"{e(depth - 1)} {self.pick(BINARY)} {e(depth - 1)}"
        if r < 0.26:
            return f"({e(depth - 1)})"
        if r < 0.46:
            return f"({e(depth - 1)})|{self.pick(FILTERS)}" if self.random.random() < 0.5 else \
                f"{self.atom()}|{self.pick(FILTERS)}|{self.pick(FILTERS)}"
        if r < 0.56:
            return f"({e(depth - 1)}) is {self.pick('', 'not ')}{self.pick(TESTS)}"
        if r < 0.70:
            return f"({e(depth - 1)}).{self.pick(METHODS)}"
        if r < 0.76:
            return f"({e(depth - 1)}).{self.pick(ATTRIBUTES)}"
        if r < 0.82:
            return f"({e(depth - 1)})[{self.pick(e(depth - 2), self.pick(INTS), repr(self.pick(ATTRIBUTES)))}]"
        if r < 0.88:
            bound = lambda: self.pick("", "", "1", "-1", "2", "-2", "5", "none")
            return f"({e(depth - 1)})[{bound()}:{bound()}{self.pick('', ':' + self.pick('', '1', '2', '-1', '-2'))}]"
        if r < 0.92:
            return f"{e(depth - 1)} if {e(depth - 1)}{self.pick('', ' else ' + e(depth - 1))}"
        if r < 0.94:
            return f"not {e(depth - 1)}"
        if r < 0.96:
            return f"{self.pick('-', '+')}{e(depth - 1)}"
        if r < 0.98:
            return "[" + ", ".join(e(depth - 1) for _ in range(self.random.randint(0, 3))) + "]"
        return "{" + ", ".join(f"{self.pick(STRINGS)}: {e(depth - 1)}" for _ in range(2)) + "}"

    def text(self, depth):
        """An expression that most likely is a str."""
        r = self.random.random()
        if depth <= 0 or r < 0.1:
            return self.pick("s", "u", "ws", "html", "num", "multi", "words", "empty", "messages[0].content", "d.a", *STRINGS)
        if r < 0.3:
            return f"({self.text(depth - 1)})|{self.pick(STR_FILTERS)}"
        if r < 0.5:
            return f"({self.text(depth - 1)}).{self.pick(STR_TO_STR)}"
        if r < 0.65:
            return f"{self.text(depth - 1)} {self.pick('+', '~', 'or', 'and')} {self.text(depth - 1)}"
        if r < 0.7:
            return f"({self.text(depth - 1)})[{self.pick('', '1', '-3', '2')}:{self.pick('', '4', '-1')}{self.pick('', ':-1', ':2', ':')}]"
        if r < 0.76:
            return f"({self.any(depth - 1)})|{self.pick('string', 'tojson', 'tojson(indent=1)', 'tojson(sort_keys=true)')}"
        if r < 0.82:
            return f"({self.list(depth - 1)})|join({self.text(0)})"
        if r < 0.88:
            return f"({self.text(depth - 1)} if {self.truth(depth - 1)} else {self.text(depth - 1)})"
        if r < 0.93:
            return f"'{self.pick('%s', '%5s', '%-7s|', '%r', '%.2s', '%%%s')}' % ({self.text(depth - 1)})"
        return f"'{self.pick('%d', '%5.2f', '%05d', '%x', '%+d', '%e', '%g', '%-6d|', '%i')}' % ({self.number(depth - 1)})"

    def number(self, depth):
        r = self.random.random()
        if depth <= 0 or r < 0.15:
            return self.pick("n", "z", "neg", "big", "x", "tiny", "t", *INTS, *FLOATS)
        if r < 0.45:
            return f"({self.number(depth - 1)} {self.pick('+', '-', '*', '/', '//', '%', '+', '*')} {self.number(depth - 1)})"
        if r < 0.55:
            return f"({self.number(depth - 1)})|{self.pick('abs', 'int', 'float', 'round', 'round(2)', 'round(1)', 'round(-1)')}"
        if r < 0.65:
            return f"({self.list(depth - 1)})|{self.pick('length', 'count')}"
        if r < 0.75:
            return f"({self.text(depth - 1)})|{self.pick('length', 'int', 'float', 'wordcount', 'int(7)')}"
        if r < 0.85:
            return f"({self.text(depth - 1)}).{self.pick('find', 'rfind', 'count')}({self.text(0)})"
        if r < 0.92:
            return f"{self.pick('l', 'range(5)', '[2, 0.5]', 'nested[0]')}|{self.pick('sum', 'max', 'min', 'first', 'last')}"
        return f"(-{self.number(depth - 1)})"

    def list(self, depth):
        r = self.random.random()
        if depth <= 0 or r < 0.15:
            return self.pick("l", "ls", "nested", "el", "mixed", "users", "range(4)", "[1, 'a']", "(1, 2)", "d.list", "messages")
        if r < 0.4:
            return f"({self.list(depth - 1)})|{self.pick(LIST_FILTERS)}"
        if r < 0.5:
            return f"users|{self.pick(USER_FILTERS)}"
        if r < 0.62:
            bounds = f"{self.pick('', '1', '-2')}:{self.pick('', '2', '-1')}{self.pick('', ':-1', ':2')}"
            return f"({self.list(depth - 1)})[{bounds}]"
        if r < 0.72:
            return f"({self.text(depth - 1)}).{self.pick('split()', 'split(None, 1)', 'splitlines()', 'rsplit(None, 1)', 'partition(' + chr(39) + 'l' + chr(39) + ')')}"
        if r < 0.8:
            return f"({self.dict(depth - 1)}).{self.pick('items()', 'keys()', 'values()')}|list"
        if r < 0.85:
            return f"{self.list(depth - 1)} + {self.list(depth - 1)}"
        return "[" + ", ".join(self.any(depth - 1) for _ in range(self.random.randint(0, 3))) + "]"

    def dict(self, depth):
        if depth <= 0 or self.random.random() < 0.5:
            return self.pick("d", "users[0]", "messages[1]", "{'q': 1, 2: 'z', none: true}", "dict(a=1, b=n)", "d.k", "ed",
                             "messages[2].tool_calls[0].function", "dict(d, z=1)", "dict([('a', 1)])")
        return "{" + ", ".join(f"{self.text(0)}: {self.any(depth - 1)}" for _ in range(self.random.randint(1, 3))) + "}"

    def truth(self, depth):
        r = self.random.random()
        if depth <= 0 or r < 0.1:
            return self.pick("t", "f", "true", "s", "empty", "missing", "none_", "el", "n", "z")
        if r < 0.3:
            return f"({self.any(depth - 1)}) is {self.pick('', 'not ')}{self.pick(TESTS[:13])}"
        if r < 0.45:
            return f"{self.number(depth - 1)} {self.pick('<', '<=', '>', '>=', '==', '!=')} {self.number(depth - 1)}"
        if r < 0.55:
            return f"{self.text(depth - 1)} {self.pick('in', 'not in', '==', '<', '!=')} {self.text(depth - 1)}"
        if r < 0.65:
            return f"{self.any(depth - 1)} {self.pick('in', 'not in', '==')} {self.list(depth - 1)}"
        if r < 0.75:
            return f"({self.text(depth - 1)}).{self.pick('startswith', 'endswith')}({self.text(0)})"
        if r < 0.85:
            return f"not {self.truth(depth - 1)}"
        return f"({self.truth(depth - 1)} {self.pick('and', 'or')} {self.any(depth - 1)})"

    def any(self, depth):
        return self.pick(self.text, self.text, self.number, self.list, self.dict, self.truth)(depth)

    def tag(self, text):
        return "{%" + self.pick("", "", "-", "+") + " " + text + " " + self.pick("", "", "-", "+") + "%}"

    def blank(self):
        return self.pick("", "", " ", "\n", "\n  ", "text ", " x\n", "  \n\n  ", "\t", "{{ s }}", "{# c #}", "{#- c -#}\n",
                         "\r\n", "é\n", "{", "}", "%", "{ %")

    def statement(self, depth):
        if depth <= 0:
            return self.blank() + self.pick("{{", "{{-", "{{") + " " + self.pick(self.any, self.any, self.expression)(2) + " " + \
                self.pick("}}", "-}}", "}}") + self.blank()
        body = lambda: "".join(self.pick(self.blank, lambda: self.statement(depth - 1))() for _ in range(2))
        e, r = self.pick(self.any, self.any, self.any, self.expression), self.random.random()
        if r < 0.25:
            middle = self.pick("", self.tag("else") + body(), self.tag("elif " + e(1)) + body() + self.tag("else") + body())
            return self.blank() + self.tag("if " + e(2)) + body() + middle + self.tag("endif")
        if r < 0.55:
            target, what = self.pick(("i", self.pick(NAMES)), ("i", e(1)), ("k, v", "d.items()"), ("k, v", "d|dictsort"),
                                     ("m", "messages"), ("i", "range(4)"), ("k, v", "nested"), ("c", "s"), ("i", "ls|reverse"))
            test = self.pick("", "", " if i is defined", " if loop is defined", " if i")
            inner = body() + self.pick("", "{{ loop.index }}{{ i }}", "{{ loop.last }},{{ loop.first }}", "{{ loop.revindex0 }}",
                                       "{{ loop.previtem }}{{ loop.nextitem }}", "{{ loop.cycle('a', 'b') }}", "{{ loop.length }}",
                                       self.tag("if loop.index == 2") + self.tag(self.pick("break", "continue")) + self.tag("endif"),
                                       "{{ m.role }}", "{{ k }}={{ v }}", "{{ loop.changed(i) }}", self.tag("set q = loop.index"))
            return self.blank() + self.tag(f"for {target} in {what}{test}") + inner + \
                self.pick("", "", self.tag("else") + body()) + self.tag("endfor") + self.pick("", "{{ q }}")
        if r < 0.70:
            name = self.pick("a", "b", "ns.a", "n", "x, y")
            if self.random.random() < 0.3:
                return self.tag(f"set {name}{self.pick('', '|upper', '|trim')}") + body() + self.tag("endset") + "{{ a }}"
            return self.tag("set ns = namespace(a=1)") + self.tag(f"set {name} = {e(2)}") + "{{ a }}{{ b }}{{ ns.a }}{{ n }}"
        if r < 0.82:
            return self.tag(f"macro m({self.pick('', 'p', 'p, q=1', 'p=n, q=p')})") + body() + "{{ p }}{{ q }}" + \
                self.tag("endmacro") + "{{ m(" + self.pick("", "1", "p=2", "1, q=3", e(1), "1, 2, 3", "r=1") + ") }}" + self.blank()
        if r < 0.88:
            return self.tag(f"with a = {e(1)}, b = a") + body() + "{{ a }}{{ b }}" + self.tag("endwith") + "{{ a }}"
        if r < 0.92:
            return self.tag("filter " + self.pick("upper", "trim", "indent(1)", "replace('a', 'b')|upper")) + body() + self.tag("endfilter")
        if r < 0.95:
            return self.tag("raw") + self.blank() + "{{ n }}{% if %}" + self.blank() + self.tag("endraw")
        if r < 0.97:
            return self.tag("generation") + body() + self.tag("endgeneration")
        return self.blank() + self.tag(self.pick("nosuch", "endif", "else", "break", "include 'x'", "set", "if", "for x", "call m()",
                                                 "do n", "extends 'x'"))


def make(seed):
    gen = Generator(seed)
    if seed % 4 == 1:
        return "{{ " + gen.any(gen.random.randint(1, 5)) + " }}"
    if seed % 4 == 3:
        return "{{ " + gen.expression(gen.random.randint(1, 4)) + " }}"
    return "".join(gen.statement(gen.random.randint(0, 3)) for _ in range(gen.random.randint(1, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=20)
    options = parser.parse_args()
    focal = Focal(options.library)
    counts = collections.Counter()
    shown = 0
    for seed in range(options.seed, options.seed + options.count):
        source = make(seed)
        expected, why_jinja = render_jinja(source, CHAT)
        found, status, why = focal.render(source, CHAT)
        # An address or a hash in the text: nobody can match that, nor wants to.
        if expected is not None and (" at 0x" in expected or "<built-in" in expected or "<bound method" in expected
                                     or "<function" in expected or "<jinja2" in expected or "<LoopContext" in expected
                                     or "<Macro" in expected or "<class" in expected or "<template_bindings" in expected):
            counts["unprintable objects"] += 1
            continue
        if expected == found:
            counts["both fail" if found is None else "equal text"] += 1
        elif found is None and "not supported" in why:
            counts["not supported"] += 1
        elif found is None and "cannot be sliced" in why:
            counts["constants sliced wrongly (jinja2 folds that to undefined)"] += 1
        elif found is None and LAZY.search(source):
            counts["errors in a generator that nobody may have read"] += 1
        else:
            counts["DISAGREE"] += 1
            if shown < options.show:
                shown += 1
                print(f"--- {seed}\n{source}\n  jinja2: {str(expected)[:300]!r} {why_jinja}\n  focal:  {str(found)[:300]!r} {why}")
    print(dict(counts))


if __name__ == "__main__":
    main()
