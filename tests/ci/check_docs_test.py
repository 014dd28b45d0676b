#!/usr/bin/env python3
"""Plants differences between documents and a program in a project of its own, and expects ci/check-docs
to find and to mend them."""

import json
import pathlib
import runpy
import shutil
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).resolve().parent.parent.parent / "ci/check-docs"
PROGRAM = """#!/bin/sh
case "$*" in
  "run a-fault/bug") printf 'head\\nbug (buggy): as expected\\n  by up to\\n  1.01356, open for 2.1 s at a.cc:7\\n  again: x\\ntail\\n' ;;
  "watch -- python train.py") python train.py >&2 ;;
  "run a-fault/fix") printf 'FAILED: fix\\n  why\\n'; exit 1 ;;
  "run --ranks 2,4 --out run --format json") mkdir run && cp "$0.json" run/report.json ;;
esac
"""
BUG = """<!-- from: bug (
     to: open for
     from: tail -->
```console
$ lockstep run a-fault/bug
bug (buggy): as expected
  by up to 1.01361, open for 1.9 s at a.cc:3
[...]
tail
```
"""
FIX = """<!-- from: FAILED
     exit: 1 -->
```console
$ lockstep run a-fault/fix
FAILED: fix
```
"""
FILE = """<!-- from: HUNG -->
```console
$ cat tests/words
HUNG
```
"""
DOCUMENTS = runpy.run_path(str(CHECK))["DOCUMENTS"]
INDEX = "<!-- index: ci/check-docs --index --write -->\n%s<!-- end of index -->\n"


def cell(scenario, kind, text="", exits=(), **symptom):
    return {"cell": {"scenario": scenario}, "exits": [{"kind": end} for end in exits],
            "symptom": dict(symptom, kind=kind, text=text)}


class CheckDocs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.program = self.root / "build/release/bin/lockstep"
        for folder in ("ci", "docs", "reference", "scenarios", "tests", "build/release/bin"):
            (self.root / folder).mkdir(parents=True)
        shutil.copy(CHECK, self.root / "ci")
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)
        (self.root / "tests/words").write_text("a\nHUNG\n")
        (self.root / "scenarios/CMakeLists.txt").write_text("lockstep_add_scenarios(x\n  hooks/a_fault)\n")
        for name in DOCUMENTS:
            if not name.startswith("docs/findings/"):  # of the project, which are found by their folder
                self.write(name, "")
        self.write("docs/faq.md", INDEX % "")
        self.write("docs/reading-a-report.md", "# Page\n\n" + BUG + FIX + FILE)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def read(self, name):
        return (self.root / name).read_text()

    def check(self, *options):
        done = subprocess.run([sys.executable, self.root / "ci/check-docs", *options], text=True,
                              capture_output=True)
        return done.returncode, done.stderr

    def test_accepts_parts_that_depend_on_the_machine(self):
        self.assertEqual(self.check(), (0, ""))
        self.assertEqual(self.check("--write"), (0, ""))
        self.assertIn("by up to 1.01361, open for 1.9 s at a.cc:3", self.read("docs/reading-a-report.md"))
        self.write("docs/reading-a-report.md", BUG.replace("1.01361", "1.02356"))
        self.assertEqual(self.check()[0], 1)

    def test_finds_and_replaces_another_line(self):
        self.write("docs/reading-a-report.md", BUG.replace("as expected", "as hoped"))
        status, error = self.check()
        self.assertEqual(status, 1)
        self.assertIn("docs/reading-a-report.md:5: $ lockstep run a-fault/bug: prints other lines", error)
        self.assertEqual(self.check("--write"), (0, ""))
        self.assertIn("as expected\n  by up to\n  1.01356, open for 2.1 s at a.cc:7\n[...]\ntail\n```",
                      self.read("docs/reading-a-report.md"))

    def test_quotes_the_report_of_a_watched_job(self):
        python = self.root / "environment/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\necho in lockstep, $(cat lockstep.toml | wc -l) settings\n")
        python.chmod(0o755)
        self.write("docs/watching.md", "<!-- from: in lockstep -->\n```console\n$ lockstep watch -- python train.py\n"
                                       "in lockstep, 2 settings\n```\n")
        self.assertEqual(self.check(self.program, python), (0, ""))
        (self.root / "build/release/CMakeCache.txt").write_text("A:B=C\nLOCKSTEP_PYTHON:FILEPATH=%s\n" % python)
        self.assertEqual(self.check(), (0, ""))
        (self.root / "build/release/CMakeCache.txt").unlink()
        self.assertEqual(self.check()[0], 1)

    def test_finds_another_exit_status(self):
        self.write("docs/reading-a-report.md", FIX.replace("exit: 1", "exit: 2"))
        self.assertIn("exit status 1, not 2", self.check()[1])

    def test_finds_a_range_that_is_not_printed(self):
        self.write("docs/reading-a-report.md", FIX.replace("from: FAILED", "from: PASSED"))
        self.assertIn("no line with 'PASSED'", self.check("--write")[1])
        self.write("docs/reading-a-report.md", FIX.replace("exit: 1", "to: never\nexit: 1"))
        self.assertIn("no line with 'never' after that with 'FAILED'", self.check()[1])

    def test_finds_a_scenario_that_does_not_exist(self):
        self.assertEqual(self.check("--names"), (0, ""))
        self.write("docs/faq.md", "| The job hangs | `a-fault`, `no-fault` |\n")
        self.write("README.md", "    lockstep show other-fault/x\n")
        status, error = self.check("--names")
        self.assertEqual(status, 1)
        self.assertIn("docs/faq.md:1: there is no scenario 'no-fault'", error)
        self.assertIn("README.md:1: there is no scenario 'other-fault'", error)
        self.assertNotIn("'a-fault'", error)

    def test_finds_a_link_to_a_page_or_heading_that_does_not_exist(self):
        self.write("docs/formats.md", "# Journal: `rank-N.csv`\n[a](#journal-rank-ncsv) [b](https://x.y/z)\n")
        self.write("README.md", "[c](docs/formats.md#journal-rank-ncsv) [d](docs)\n")
        self.assertEqual(self.check("--names"), (0, ""))
        self.write("README.md", "[a](docs/none.md)\n[b](docs/formats.md#none)\n")
        self.assertEqual(self.check("--names")[1].splitlines(), [
            "ci/check-docs: README.md:1: there is no 'docs/none.md'",
            "ci/check-docs: README.md:2: there is no 'docs/formats.md#none'"])

    def test_makes_the_index_from_a_run(self):
        cells = [cell("right", "right"), cell("hangs", "not finished", exits=["finished", "unfinished"]),
                 cell("dies", "not finished", exits=["signalled"]), cell("raises", "raised"),
                 cell("scaled", "agree but wrong", cosine=1.0), cell("scaled", "agree but wrong", cosine=1.0),
                 cell("turned", "agree but wrong", cosine=0.5), cell("full", "raised", "... out of memory")]
        pathlib.Path(str(self.program) + ".json").write_text(json.dumps({"cells": cells}))
        self.assertEqual(self.check("--index")[0], 1)
        self.assertEqual(self.check("--index", "--write"), (0, ""))
        self.assertEqual(self.check("--index"), (0, ""))
        rows = self.read("docs/faq.md").splitlines()[3:-1]
        self.assertEqual([row.split("|")[2].strip() for row in rows],
                         ["`hangs`", "`dies`", "`full`", "`raises`", "`scaled`", "`turned`"])


if __name__ == "__main__":
    unittest.main()
