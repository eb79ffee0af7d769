"""The comparison of bench/versus/model.py, with contestants whose speeds are known."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "versus" / "model.py"
sys.path.insert(0, str(SCRIPT.parent))
import model  # noqa: E402

model.REST_SECONDS = 0
model.say = lambda words: None

# Answers as rivals.py does: 100 tokens a second for each token of the question, and a log of who
# was asked what. Its peak is 50 MB more when its context fits the prompt alone.
RIVAL = """
import json, sys
log, context = sys.argv[1], int(sys.argv[sys.argv.index("--context") + 1])
if "--first" in sys.argv:
    print(json.dumps({"seconds": 8.0, "prompt_tokens": 9}))
    sys.exit()
print(json.dumps({"name": "a rival", "ubatch": 256}), flush=True)
for line in sys.stdin:
    question = json.loads(line)
    with open(log, "a") as file:
        file.write("rival %s %d\\n" % (question["kind"], question["depth"]))
    if question["count"] == 666:
        sys.exit(3)
    print(json.dumps({"ts": 100.0 * question["count"], "python_mb": 20.0,
                      "peak_mb": 300.0 + 50 * (context == question["count"])}), flush=True)
"""

FOCAL = """#!/usr/bin/env python3
import json, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("focal 9.9")
elif words[:2] == ["bench", "model"]:
    value = dict(zip(words[2::2], words[3::2]))
    with open(value["-m"] + ".log", "a") as file:
        file.write("focal %s %s\\n" % ("pp" if value["-n"] == "0" else "tg", value["-d"]))
    count = int(value["-p"]) + int(value["-n"])
    print(json.dumps({"avg_ts": 250.0 * count, "floor_fraction": 0.5, "read_gb_per_s": 30.0,
                      "peak_gflops": 400.0, "peak_rss_mb": 110.0}))
elif words[0] == "generate":
    assert words[words.index("-n") + 1] == "1"
else:
    sys.exit("focal: what?")
"""


def row(test, label, *values):
    samples = [{"value": value, "round": n} for n, value in enumerate(values)]
    return {"test": test, "label": label, "samples": samples}


def report(*rows):
    return {"model": "m.gguf", "threads": 2, "machine": "here", "date": "2026-01-01",
            "names": {"focal": "focal 9.9"}, "rows": list(rows)}


class Versus(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        program, rival = self.path / "focal", self.path / "rival.py"
        program.write_text(FOCAL)
        program.chmod(0o755)
        rival.write_text(RIVAL)
        self.log = self.path / "m.log"
        self.focal = model.Focal(str(program), str(self.path / "m"), 2)
        self.rival = model.Rival("rival", [sys.executable, str(rival), str(self.log)],
                                 ("pp", "tg", "peak", "first"), 4096)
        self.addCleanup(self.rival.close)

    def contest(self, tests, rounds=2):
        tests = [model.Test(name) for name in tests.split(",")]
        return model.contest(tests, [self.focal, self.rival], rounds, lambda count: "text")

    def test_contestants_take_turns(self):
        self.contest("pp512,tg32@d8192")
        turns = ["focal pp 0", "rival pp 0"] * 2 + ["focal tg 8192", "rival tg 8192"] * 2
        self.assertEqual(self.log.read_text().splitlines(), turns)

    def test_values_go_into_the_table(self):
        rows = self.contest("pp512,tg8")
        lines = model.table(report(*rows)).splitlines()
        self.assertIn("| prompt of 512 (`pp512`) | focal | 128,000 tokens/s | ± 0.0 % "
                      "| 50 % of the floor |", lines)
        self.assertIn("|  | rival | 51,200 tokens/s | ± 0.0 % | **2.50x** |", lines)
        self.assertIn("| decode, empty context (`tg8`) | focal | 2,000 tokens/s | ± 0.0 % "
                      "| 50 % of the floor |", lines)

    def test_memory_is_that_of_a_fresh_process_without_python(self):
        rows = self.contest("peak64")
        self.assertEqual([r["samples"] for r in rows],
                         [[{"value": 110.0, "round": 0}],
                          [{"value": 330.0, "python_mb": 20.0, "round": 0}]])
        self.assertIn("| rival | 330 MB | one run | **3.00x** |", model.table(report(*rows)))

    def test_first_token(self):
        ours, theirs = self.contest("first8160", rounds=1)
        self.assertEqual(theirs["samples"], [{"value": 8.0, "prompt_tokens": 9, "round": 0}])
        self.assertGreater(ours["samples"][0]["value"], 0)

    def test_a_contestant_that_fails_is_left_out(self):
        rows = self.contest("pp666,pp512")
        self.assertEqual([(r["test"], r["label"]) for r in rows],
                         [("pp666", "focal"), ("pp512", "focal")])
        self.assertIn("| prompt of 512 (`pp512`) | focal |", model.table(report(*rows)))

    def test_ratios_are_within_rounds(self):
        # medians alone would say 20 / 10; round by round it is 3, 1 and 4
        ours, theirs = row("pp9", "focal", 30, 10, 20), row("pp9", "x", 10, 10, 5)
        self.assertEqual(model.times_better(model.Test("pp9"), ours, theirs), "**3.00x**")
        self.assertEqual(model.times_better(model.Test("first9"), row("first9", "focal", 2),
                                            row("first9", "x", 8)), "**4.00x**")
        self.assertEqual(model.times_better(model.Test("pp9"), row("pp9", "focal"), theirs), "")

    def test_spread(self):
        self.assertEqual(model.spread(row("pp9", "x", 90, 100, 120)), "± 15.0 %")
        self.assertEqual(model.spread(row("pp9", "x", 90)), "one run")

    def test_kept_samples_are_joined(self):
        parts = [report(row("pp9", "focal", 30)),
                 report(row("pp9", "focal", 50), row("pp9", "x", 10))]
        paths = [self.path / "a.json", self.path / "b.json"]
        for path, part in zip(paths, parts):
            path.write_text(json.dumps(part))
        done = subprocess.run([sys.executable, SCRIPT, "--table", *paths], capture_output=True,
                              text=True, check=True)
        self.assertIn("| focal | 40.0 tokens/s | ± 25.0 % |", done.stdout)
        # x was there in the second run alone, so it is compared with that one
        self.assertIn("|  | x | 10.0 tokens/s | one run | **5.00x** |", done.stdout)

    def test_other_models_are_not_joined(self):
        other = report(row("pp9", "focal", 30))
        other["model"] = "n.gguf"
        for name, part in (("a.json", report()), ("b.json", other)):
            (self.path / name).write_text(json.dumps(part))
        with self.assertRaisesRegex(SystemExit, "b.json: another model"):
            model.merge([self.path / "a.json", self.path / "b.json"])

    def test_names_of_tests(self):
        self.assertEqual(model.Test("tg32@d8192").words(), "decode behind 8,192")
        for name in ("pp", "pp0", "xx5", "peak8@d5", "pp5@", "pp5 "):
            with self.assertRaises(SystemExit, msg=name):
                model.Test(name)

    def test_command_line(self):
        for words, says in ((["--contestants", "nobody"], "no contestant 'nobody'"),
                            (["--contestants", "focal"], "which model?"),
                            (["--contestants", "focal", "--rounds", "0"], "at least 1"),
                            (["--contestants", "focal", "--model", "/none"], "/none is not there")):
            done = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True,
                                  check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main()
