#!/usr/bin/env python3
"""Plants faults in documents and in the list of their commands, and expects commands_test.py to find them."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import commands_test
from commands_test import Listed
from documented_commands import cmake_files_of, commands_in_sentences, commands_of, without_comment

PAGE = """Text about `lockstep run` and
    lockstep in a paragraph.

- In a list:

      lockstep list   # all of them
      lockstep run a \\
          --ranks 2

- run: lockstep watch

    - run: lockstep watch -- true

```console
$ lockstep show a
lockstep a
```

    #!/bin/sh
    make || exit 125
    exec lockstep

Text.

    A=1 B=2 torchrun x
    lockstep: a sentence
    build/a/b --c
"""


class Commands(unittest.TestCase):
    def test_are_those_of_code_blocks(self):
        self.assertEqual([(one.line, without_comment(one.text)) for one in commands_of("page", PAGE)], [
            (6, "lockstep list"), (7, "lockstep run a --ranks 2"), (12, "lockstep watch -- true"),
            (15, "lockstep show a"), (19, "#!/bin/sh make || exit 125 exec lockstep"), (25, "A=1 B=2 torchrun x"),
            (27, "build/a/b --c")])

    def test_files_of_cmake_are_found(self):
        page = "    # CMakeLists.txt\n    a()\n\n    # b/CMakeLists.txt: c\n    d(\n      e)\n\n    cmake -S .\n"
        self.assertEqual(cmake_files_of(page), {
            "CMakeLists.txt": "# CMakeLists.txt\na()\n", "b/CMakeLists.txt": "# b/CMakeLists.txt: c\nd(\ne)\n"})


class ListOfCommands(unittest.TestCase):
    def setUp(self):
        self.list = commands_test.LISTED
        self.addCleanup(setattr, commands_test, "LISTED", self.list)

    def sorted_out(self, listed, runs_slow=False):
        commands_test.LISTED = listed
        commands = commands_of("page", "    lockstep list  # b\n\nText\n\n    lockstep run\n")
        with contextlib.redirect_stdout(io.StringIO()) as said:
            blocks, counts, faults = commands_test.sorted_out(commands, set(), runs_slow)
        run = [command.text for block in blocks.values() for command, _ in block]
        return run, dict(counts), faults, said.getvalue()

    def test_a_new_command_is_run(self):
        self.assertEqual(self.sorted_out({}), (["lockstep list  # b", "lockstep run"], {"here": 2}, [], ""))

    def test_what_is_not_run_is_said(self):
        run, counts, faults, said = self.sorted_out({("page", "lockstep list"): Listed(cannot="a reason")})
        self.assertEqual((run, counts, faults), (["lockstep run"], {"here": 1, "not run": 1}, []))
        self.assertEqual(said, "not run: page:1: lockstep list: a reason\n")

    def test_a_slow_command_is_run_in_the_soak(self):
        slow = {("page", "lockstep run"): Listed(slow=True)}
        self.assertEqual(self.sorted_out(slow)[:2], (["lockstep list  # b"], {"here": 1, "in the soak": 1}))
        self.assertEqual(len(self.sorted_out(slow, runs_slow=True)[0]), 2)

    def test_those_of_the_readme_are_one_block_with_its_sessions(self):
        commands_test.LISTED = {("README.md", "pip install a"): Listed(wheel=True)}
        commands = commands_of("README.md", "    pip install a\n\nText\n\n```console\n$ lockstep run\n```\n\n    lockstep list\n")
        for has_wheel in False, True:
            blocks, counts, faults = commands_test.sorted_out(commands, {("README.md", 6)}, True, has_wheel)
            self.assertEqual([[command.text for command, _ in block] for block in blocks.values()],
                             [["pip install a"] * has_wheel + ["lockstep run", "lockstep list"]])
            self.assertEqual((counts["in the soak"], faults), (not has_wheel, []))

    def test_an_entry_without_its_command_is_a_fault(self):
        self.assertIn("page no longer has the command", self.sorted_out({("page", "lockstep gone"): Listed()})[2][0])


PROGRAM = """#!/bin/sh
[ "$1" = --help ] && printf '  --version               the version\\n' && exit
[ "$1 $2" = "run --help" ] && printf '  -o,--out DIR            where, beside --other\\n'
"""


class Sentences(unittest.TestCase):
    def faults(self, text):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "lockstep")
            program.write_text(PROGRAM)
            program.chmod(0o755)
            return list(commands_test.faults_of_sentences(program, commands_in_sentences("page", text)))

    def test_may_name_what_there_is(self):
        self.assertEqual(self.faults("Text `lockstep\nrun --out DIR -- a --b`, `run A`, `lockstep --version`,\n"
                                     "`ci/lint --fix`, `torchrun --x`, `lockstep step index 1`.\n\n    lockstep `go`\n"), [])

    def test_a_wrong_option_is_a_fault(self):
        self.assertEqual(self.faults("\n`lockstep run [--other]`"),
                         ["page:2: `lockstep run [--other]`: run has no --other"])
        self.assertEqual(self.faults("`run --out A --in B`"), ["page:1: `run --out A --in B`: run has no --in"])
        self.assertEqual(self.faults("`ci/lint --none`"), ["page:1: `ci/lint --none`: ci/lint has no --none"])

    def test_a_command_that_does_not_exist_is_a_fault(self):
        self.assertEqual(self.faults("`lockstep go`"), ["page:1: `lockstep go`: there is no go"])
        self.assertEqual(self.faults("`ci/none a`"), ["page:1: `ci/none a`: there is no ci/none"])


class Block(unittest.TestCase):
    def faults(self, *commands, page="page"):
        """Of commands (text, what is listed) in a folder of their own, as a block of a page."""
        with tempfile.TemporaryDirectory() as folder:
            place = commands_test.Workplace.__new__(commands_test.Workplace)
            place.adopt(pathlib.Path(folder), dict(PATH="/usr/bin:/bin"))
            pathlib.Path(folder, "base/runs").mkdir()
            block = [(commands_of(page, "    %s\n" % text)[0], listed) for text, listed in commands]
            with contextlib.redirect_stdout(io.StringIO()):
                return list(commands_test.check_block(place, 1, block))

    def test_keeps_folder_and_variables(self):
        self.assertEqual(self.faults(("mkdir a", Listed()), ("cd a", Listed()), ("export B=c", Listed()),
                                     ("cat d", Listed(before="echo $PWD $B >d", says="/a c"))), [])

    def test_of_the_readme_begins_without_runs(self):
        self.assertEqual(self.faults(("cd runs", Listed())), [])
        self.assertEqual(self.faults(("cd runs", Listed(status=1)), page="README.md"), [])

    def test_another_status_is_a_fault(self):
        self.assertIn("page:1: cat none: exit status 1, not 0:", self.faults(("cat none", Listed()))[0])
        self.assertEqual(self.faults(("cat none", Listed(status=1))), [])

    def test_another_output_is_a_fault(self):
        self.assertIn("does not say 'b'", self.faults(("cat a", Listed(before="echo c >a", says="b")))[0])

    def test_what_comes_before_must_succeed(self):
        self.assertIn("exit status 1, not 0", self.faults(("cd .", Listed(before="false")))[0])


if __name__ == "__main__":
    unittest.main()
