"""Marked examples are found and run; a failing one fails the check."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_readme  # noqa: E402

TEXT = """# Title
```sh
false
```
<!-- run -->
```sh
true
test -f README.md
```
"""


class CheckReadme(unittest.TestCase):
    def test_only_marked_blocks_are_taken(self):
        self.assertEqual(check_readme.blocks(TEXT), [(7, "true\ntest -f README.md\n")])

    def test_a_mark_without_a_block_is_an_error(self):
        with self.assertRaises(ValueError):
            check_readme.blocks("<!-- run -->\ntext\n```sh\ntrue\n```\n")

    def test_the_first_failing_command_ends_a_block(self):
        with tempfile.TemporaryDirectory() as build:
            folder = pathlib.Path(build)
            self.assertEqual(check_readme.run_block(folder, "test -d build\n").returncode, 0)
            self.assertEqual(check_readme.run_block(folder, "exit 3\n").returncode, 3)
            self.assertNotEqual(check_readme.run_block(folder, "false | true\ntrue\n").returncode, 0)


if __name__ == "__main__":
    unittest.main()
