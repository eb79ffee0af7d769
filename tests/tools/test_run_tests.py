"""The counts behind `N passed, N failed` must not hide a failure."""
import pathlib
import sys
import unittest
import xml.etree.ElementTree as ElementTree

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import run_tests  # noqa: E402

PASSED = "[==========] 3 test(s) run.\n[  PASSED  ] 3 test(s).\n"
FAILED = ("[==========] 3 test(s) run.\n[  PASSED  ] 1 test(s).\n"
          "[  FAILED  ] base: 2 test(s), listed below:\n[  FAILED  ] a\n[  FAILED  ] b\n\n"
          " 2 FAILED TEST(S)\n")
SKIPPED = ("[==========] 2 test(s) run.\n[  PASSED  ] 1 test(s).\n"
           "[  SKIPPED ] base: 1 test(s), listed below:\n[  SKIPPED ] a\n")


def case(status, output, child=None):
    element = ElementTree.Element("testcase", name="x", status=status)
    ElementTree.SubElement(element, "system-out").text = output
    if child:
        ElementTree.SubElement(element, child)
    return element


class RunTests(unittest.TestCase):
    def test_cmocka_tests_are_counted_one_by_one(self):
        self.assertEqual(run_tests.count_case(case("run", PASSED)), [3, 0, 0])
        self.assertEqual(run_tests.count_case(case("fail", FAILED)), [1, 2, 0])
        self.assertEqual(run_tests.count_case(case("run", SKIPPED)), [1, 0, 1])

    def test_other_tests_count_as_one(self):
        self.assertEqual(run_tests.count_case(case("run", "fine\n")), [1, 0, 0])
        self.assertEqual(run_tests.count_case(case("fail", "Segmentation fault\n")), [0, 1, 0])

    def test_a_crash_after_passing_tests_is_a_failure(self):
        self.assertEqual(run_tests.count_case(case("fail", PASSED))[1], 1)

    def test_a_test_that_did_not_run_is_a_failure(self):
        self.assertEqual(run_tests.count_case(case("notrun", "")), [0, 1, 0])
        self.assertEqual(run_tests.count_case(case("notrun", "", "skipped")), [0, 0, 1])

    def test_a_skipped_test_says_what_it_needs(self):
        self.assertEqual(run_tests.skips(case("run", PASSED)), [])
        self.assertEqual(run_tests.skips(case("run", "skipped: needs a: b\n" + SKIPPED)),
                         ["x: skipped a test that needs a: b"])
        with self.assertRaises(SystemExit):
            run_tests.skips(case("run", SKIPPED))

    def test_failures_with_exit_status_0_are_refused(self):
        with self.assertRaises(SystemExit):
            run_tests.count_case(case("run", FAILED))


if __name__ == "__main__":
    unittest.main()
