#!/usr/bin/env python3
"""Tests of ci/label-times, and of ci/shares.csv against the tests of a build.

label_times_test.py CTEST BUILD
"""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARES = ROOT / "ci/shares.csv"


def labels_of_shares():
    with open(SHARES, encoding="utf-8", newline="") as file:
        return {row["label"] for row in csv.DictReader(file)}


class LabelTimes(unittest.TestCase):
    def printed(self, times, shares, parallel="2"):
        with tempfile.TemporaryDirectory() as folder:
            files = pathlib.Path(folder, "times"), pathlib.Path(folder, "shares.csv")
            files[0].write_text(times)
            files[1].write_text("label,seconds\n" + shares)
            command = [ROOT / "ci/label-times", *files, parallel]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def test_adds_up_what_several_presets_took(self):
        lines = self.printed("unit 10\ncli 6\nunit 30\nquick 46\n", "unit,25\ncli,2\n").splitlines()
        self.assertEqual(lines[2].split()[:4], ["unit", "20", "s", "25"])
        self.assertNotIn("more than", lines[2])
        self.assertIn("more than its share", lines[3])
        self.assertEqual(lines[4].split()[:4], ["all", "23", "s", "27"])

    def test_has_a_label_without_tests(self):
        self.assertIn("speed", self.printed("", "speed,20\n"))


class Shares(unittest.TestCase):
    def test_leave_room_in_eight_minutes_and_a_half_for_what_is_to_come(self):
        with open(SHARES, encoding="utf-8", newline="") as file:
            total = sum(int(row["seconds"]) for row in csv.DictReader(file))
        self.assertLessEqual(total, 560)

    def test_count_every_quick_test_once(self):
        shown = subprocess.run(
            [CTEST, "--test-dir", BUILD, "-L", "^quick$", "--show-only=json-v1"],
            capture_output=True, text=True, check=True,
        ).stdout
        known, tests = labels_of_shares(), json.loads(shown)["tests"]
        self.assertGreater(len(tests), 10)
        for test in tests:
            labels = next(p["value"] for p in test["properties"] if p["name"] == "LABELS")
            self.assertEqual(len(known & set(labels)), 1, (test["name"], labels))


if __name__ == "__main__":
    CTEST, BUILD = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
