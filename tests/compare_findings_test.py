#!/usr/bin/env python3
"""Plants differences in a record and expects compare_findings.py to report them, but not
differences in wording."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE / "reports/formats/json.golden"


class CompareFindings(unittest.TestCase):
    def status(self, bend):
        record = json.loads(GOLDEN.read_text())
        bend(record)
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "record.json").write_text(json.dumps(record))
            command = [sys.executable, HERE / "compare_findings.py", GOLDEN, folder]
            return subprocess.run(command, capture_output=True, text=True).returncode

    def first_finding(self, record):
        return next(f for c in record["cells"] for r in c["results"] for f in r["findings"] if f["ratio"])

    def test_sees_what_was_decided(self):
        def steps_on(record):
            self.first_finding(record)["step"] += 1

        def doubles(record):
            self.first_finding(record)["ratio"] *= 2

        def swaps_ranks(record):
            self.first_finding(record)["groups"] = [[1], [0]]

        def renames(record):
            self.first_finding(record)["tensor"] = "another"

        def forgets(record):
            next(r for c in record["cells"] for r in c["results"] if r["findings"])["findings"].clear()

        def decides(record):
            record["cells"][0]["verdict"] = "undecided"

        for bend in (steps_on, doubles, swaps_ranks, renames, forgets, decides):
            self.assertEqual(self.status(bend), 1, bend.__name__)

    def test_sees_a_cell_that_is_gone(self):
        self.assertEqual(self.status(lambda record: record["cells"].pop()), 2)

    def test_passes_other_words_and_clocks(self):
        def rewords(record):
            self.first_finding(record)["sentence"] = "in other words"
            record["cells"][0]["duration_s"] = 12345
            record["environment"]["host"] = "elsewhere"

        self.assertEqual(self.status(rewords), 0)


if __name__ == "__main__":
    unittest.main()
