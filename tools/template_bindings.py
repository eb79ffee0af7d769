"""Renders chat templates twice: with jinja2 as transformers sets it up, and with libfocal.

For the scripts beside it that make golden vectors and compare the two; not run by the gate. Needs
jinja2 and, for the second half, a build of libfocal.so with Jansson.
"""
import ctypes
import datetime
import json

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2024, 7, 26, 9, 5, 3)


class Generation(jinja2.ext.Extension):
    """{% generation %}...{% endgeneration %}: a call block, as transformers makes it."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    @staticmethod
    def _render(caller):
        return caller()


class TemplateNamespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            TemplateNamespace.check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        TemplateNamespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError("an underscore")


class TemplateDict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: NOW.strftime(form)
    env.globals["dict"] = TemplateDict()
    env.globals["namespace"] = TemplateNamespace
    return env


ENVIRONMENT = environment()


def render_jinja(source, chat):
    """The text, or None when jinja2 fails; and why."""
    variables = {"messages": chat.get("messages", []), "tools": chat.get("tools"), "documents": None,
                 "add_generation_prompt": chat.get("add_generation_prompt", False),
                 "bos_token": "<s>", "eos_token": "</s>"}
    variables.update(chat.get("variables", {}))
    try:
        return ENVIRONMENT.from_string(source).render(**variables), ""
    except Exception as error:  # whatever Python raises is the template's failure
        return None, f"{type(error).__name__}: {error}"


class Tm(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in (
        "sec", "min", "hour", "mday", "mon", "year", "wday", "yday", "isdst")] + [
            ("gmtoff", ctypes.c_long), ("zone", ctypes.c_char_p)]


class Chat(ctypes.Structure):
    _fields_ = [("messages", ctypes.c_void_p), ("message_count", ctypes.c_int32),
                ("messages_json", ctypes.c_char_p), ("tools_json", ctypes.c_char_p),
                ("variables_json", ctypes.c_char_p), ("bos_token", ctypes.c_char_p),
                ("eos_token", ctypes.c_char_p), ("add_generation_prompt", ctypes.c_bool),
                ("now", ctypes.POINTER(Tm)), ("max_steps", ctypes.c_int64),
                ("max_output_bytes", ctypes.c_size_t), ("max_memory_bytes", ctypes.c_size_t)]


class Focal:
    def __init__(self, library):
        self.lib = ctypes.CDLL(library)
        self.lib.focal_ctx_error.restype = ctypes.c_char_p
        self.ctx = ctypes.c_void_p()
        assert self.lib.focal_ctx_open(None, ctypes.byref(self.ctx), None) == 0
        parts = NOW.timetuple()
        self.now = Tm(parts.tm_sec, parts.tm_min, parts.tm_hour, parts.tm_mday, parts.tm_mon - 1,
                      parts.tm_year - 1900, (parts.tm_wday + 1) % 7, parts.tm_yday - 1)

    def error(self):
        return self.lib.focal_ctx_error(self.ctx).decode("utf-8", "replace")

    def render(self, source, chat):
        """The text, or None when focal fails; its status and why."""
        template, text, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        data = source.encode()
        status = self.lib.focal_template_new(self.ctx, data, ctypes.c_size_t(len(data)),
                                             ctypes.byref(template))
        if status:
            return None, status, self.error()

        def dumps(key):
            return json.dumps(chat[key]).encode() if chat.get(key) is not None else None

        call = Chat(messages_json=dumps("messages"), tools_json=dumps("tools"),
                    variables_json=dumps("variables"), bos_token=b"<s>", eos_token=b"</s>",
                    add_generation_prompt=chat.get("add_generation_prompt", False),
                    now=ctypes.pointer(self.now))
        status = self.lib.focal_template_render(template, ctypes.byref(call), ctypes.byref(text),
                                                ctypes.byref(size))
        result = None if status else ctypes.string_at(text.value, size.value).decode()
        why = self.error() if status else ""
        if not status:
            self.lib.focal_template_text_free(template, text)
        self.lib.focal_template_free(template)
        return result, status, why
