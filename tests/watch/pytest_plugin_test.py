"""Runs tests of a training repository by the plug-in of pytest, in a pytest of their own.

    pytest_plugin_test.py BUILD PYTHON      PYTHON: with torch

Exits with 77 if this Python has no pytest."""

import importlib.util
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve()
TRAIN = HERE.parents[2] / "examples/loss_on_unwrapped_module/train.py"

if importlib.util.find_spec("pytest") is None:
    print("skipped: Python's pytest is missing (Debian package python3-pytest)")
    sys.exit(77)

if __name__ == "__main__":
    environment = dict(os.environ, PYTHONPATH=sys.argv[1] + "/share/lockstep/python", LOCKSTEP_TEST_TORCH=sys.argv[2],
                       OMP_NUM_THREADS="1")
    sys.exit(subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "pytester", "-p", "lockstep.pytest_plugin",
                             "-p", "no:cacheprovider", str(HERE)], env=environment, check=False).returncode)

HEAD = """
import functools
from lockstep.testing import assert_fixed, assert_in_lockstep, assert_same_training

PYTHON, TRAIN = %r, %r
""" % (os.environ["LOCKSTEP_TEST_TORCH"], str(TRAIN))


def run(pytester, tests):
    pytester.makepyfile(HEAD + tests)
    return pytester.runpytest_subprocess("-p", "lockstep.pytest_plugin", "-p", "no:cacheprovider")


def test_ranks_in_lockstep_pass_and_a_failure_shows_the_finding(pytester):
    result = run(pytester, """
JOBS = {}  # each takes seconds

def test_fixed(lockstep_watch):
    JOBS["one"] = one = lockstep_watch([TRAIN, "--fixed"], ranks=1, python=PYTHON)
    two = lockstep_watch([TRAIN, "--fixed"], python=PYTHON, options=["--min-steps", "5"])
    assert two.verdict == "holds" and two.exit_status == 0 and not two.findings
    assert_in_lockstep(two)
    assert_same_training(one, two)
    JOBS["two"] = two

def test_buggy(lockstep_watch):
    JOBS["buggy"] = job = lockstep_watch("%s" % TRAIN, python=PYTHON)
    assert [finding["kind"] for finding in job.findings][0] == "gradients-differ"
    assert_in_lockstep(job)

def test_same():
    assert_same_training(JOBS["one"], JOBS["buggy"])

def test_fix():
    assert_fixed(JOBS["buggy"], JOBS["two"], JOBS["one"])

def test_no_fix():
    assert_fixed(JOBS["two"], JOBS["buggy"], JOBS["one"])
""")
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(["*AssertionError: the job did not stay in lockstep:",
                                 "*gradients do not agree across ranks: first in step 1*",
                                 "*AssertionError: the second training is not shown to be the first one:",
                                 "*DIFFERENT: all * updates differ in step 1*", "*lockstep explain weights-differ*",
                                 "*AssertionError: the fault is not shown to be fixed:", "*NEW: all * differ*"])
    result.stdout.no_fnmatch_line("*raise AssertionError*")


def test_a_job_that_fails_shows_its_output(pytester):
    result = run(pytester, """
def test_no_script(lockstep_watch):
    assert_in_lockstep(lockstep_watch(["no_such_script.py"], python=PYTHON))

def test_no_program(lockstep_watch):
    assert_in_lockstep(lockstep_watch(["no-such-program"], ranks=None))

def test_wrong_option(lockstep_watch):
    job = lockstep_watch([TRAIN], options=["--no-such-option"])
    assert job.exit_status == 64 and job.verdict == "" and not job.summary
    assert_in_lockstep(job)
""")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["*no_such_script.py*", "*no-such-program*", "*--no-such-option*"])
