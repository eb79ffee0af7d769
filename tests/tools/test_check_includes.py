"""The include check must fail on every kind of bad arrow, and pass on good ones."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_includes  # noqa: E402

GOOD = {
    "include/focal/base.h": "",
    "src/base/ctx.h": '#include "focal/base.h"\n',
    "src/base/ctx.c": '#include "base/ctx.h"\n#include <stdio.h>\n',
    "src/simd/avx2.h": '#include "base/ctx.h"\n',
    "src/io/gguf.h": '#include "base/ctx.h"\n',
    "src/ops/attn/attn.h": '#include "simd/avx2.h"\n',
    "src/ops/attn/attn.c": '#include "ops/attn/attn.h"\n/* #include "ops/route/route.h" */\n',
    "src/ops/route/route.h": '#include "base/ctx.h"\n',
    "src/model/forward.h": '#include "ops/attn/attn.h"\n#include "io/gguf.h"\n',
    "cli/main.c": '#include "focal/base.h"\n#include "options.h"\n',
    "cli/options.h": "",
}

# file, what it includes, a part of the complaint
BAD = [
    ("src/base/error.h", "simd/avx2.h", "base may not see simd"),
    ("src/base/error.h", "ops/attn/attn.h", "base may not see ops"),
    ("src/simd/scalar.h", "io/gguf.h", "simd may not see io"),
    ("src/ops/route/top.c", "ops/attn/attn.h", "may not see inside ops/attn"),
    ("src/ops/attn/more.c", "model/forward.h", "ops may not see model"),
    ("src/base/error.h", "../simd/avx2.h", "write the path from src/"),
    ("src/ops/attn/more.c", "attn.h", "write the path from src/"),
    ("src/base/error.h", "base/missing.h", "no such file"),
    ("src/base/error.h", "tests/check.h", "in no layer"),
    ("src/misc/thing.c", "base/ctx.h", "in no layer"),
    ("include/focal/more.h", "base/ctx.h", "public headers only"),
    ("cli/bench.c", "base/ctx.h", "cli sees include/focal only"),
    ("cli/bench.c", "missing.h", "cli sees include/focal only"),
]


def faults_of(files):
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        return check_includes.check(root)


def headed(files):
    return {path: "/* What it is. */\n" + text for path, text in files.items()}


class CheckIncludes(unittest.TestCase):
    def test_good_arrows_pass(self):
        self.assertEqual(faults_of(headed(GOOD)), [])

    def test_every_bad_arrow_fails(self):
        for path, name, complaint in BAD:
            with self.subTest(path=path, name=name):
                files = headed({**GOOD, path: f'#include "{name}"\n'})
                faults = faults_of(files)
                self.assertEqual(len(faults), 1, faults)
                self.assertTrue(faults[0].startswith(path + ":"), faults)
                self.assertIn(complaint, faults[0])

    def test_files_need_a_head(self):
        faults = faults_of({**headed(GOOD), "src/base/plain.c": "int x;\n"})
        self.assertEqual(len(faults), 1)
        self.assertIn("src/base/plain.c: begins without a comment", faults[0])

    def test_names_are_unique(self):
        faults = faults_of(headed({**GOOD, "src/model/attn.c": ""}))
        self.assertEqual(len(faults), 1)
        self.assertIn("has the name of", faults[0])


if __name__ == "__main__":
    unittest.main()
