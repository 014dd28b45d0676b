"""Jobs under watch in the tests of a training repository. With pytest, the fixture `lockstep_watch` runs
them in the test's own folder; docs/testing.md has examples."""

import json
import os
import shlex
import subprocess
import sys

from _lockstep._installed import path_of

__all__ = ["Job", "assert_fixed", "assert_in_lockstep", "assert_same_training", "run_watched"]

_LINES = 30  # of a job's output, in the message of a failure


class Job:
    """A job that was watched and has ended.

    folder       its run, which `lockstep report` and `lockstep diff` read
    exit_status  of `lockstep watch`: 0 if the ranks stayed in lockstep and the job succeeded
    output       what the job and `lockstep` printed
    summary      the object of `summary.json`; empty if `lockstep` refused the job
    verdict      "holds", "undecided", "violated", or "recorded": nothing to compare between ranks; "": there is none
    findings     the objects of its findings, each with `kind`, `step`, `tensor` and `sentence`"""

    def __init__(self, folder, exit_status, output, summary):
        self.folder = folder
        self.exit_status = exit_status
        self.output = output
        self.summary = summary
        judged = (summary.get("jobs") or [{}])[0]
        self.verdict = judged.get("verdict", "")
        self.findings = judged.get("findings", [])
        self._sentences = [judged.get("sentence", "")]
        self._sentences += [one["sentence"] for one in self.findings]
        self._sentences += ["undecided: " + one["reason"] for one in judged.get("undecided", [])]

    def __str__(self):
        lines = [sentence for sentence in self._sentences if sentence]
        if self.verdict != "violated":  # then the output says what is wrong
            lines += self.output.splitlines()[-_LINES:]
        return "\n".join(lines + ["exit status %d, files in %s" % (self.exit_status, self.folder)])


def run_watched(command, ranks=2, folder="lockstep-run", options=(), python=None):
    """Runs a training under `lockstep watch`, and returns its Job. A job that hangs is ended
    (`--stall SECONDS` in `options`).

    command  of torchrun: a script with its arguments, or "-m" and a module; text or a list of words
    ranks    to start; None: `command` is a whole command line
    folder   of the files, new or empty
    options  of `lockstep watch`
    python   that has torch; this one by default"""
    words = shlex.split(command) if isinstance(command, str) else [os.fspath(word) for word in command]
    if ranks is not None:
        words = [python or sys.executable, "-m", "torch.distributed.run", "--standalone",
                 "--nproc-per-node", str(ranks)] + words
    folder = os.path.abspath(os.fspath(folder))
    written = os.path.join(folder, "summary.json")
    if os.path.exists(written):
        raise FileExistsError("%s holds an earlier job: name another folder" % folder)
    watch = ["watch", "--out", folder, "--format", "summary", "--on-stall", "kill"]
    ended = _lockstep(watch + list(options) + ["--"] + words)
    try:
        with open(written, encoding="utf-8") as file:
            summary = json.load(file)
    except FileNotFoundError:
        summary = {}
    return Job(folder, ended.returncode, ended.stdout, summary)


def assert_in_lockstep(job):
    """Fails unless the ranks of `job` agree in every observed step and the job succeeded."""
    __tracebackhide__ = True
    if job.exit_status != 0 or job.verdict == "recorded":
        raise AssertionError("the job did not stay in lockstep:\n%s" % job)


def assert_same_training(one, other):
    """Fails unless `other` trains as `one` does, up to rounding; each is a Job, or a folder or a file that
    `lockstep diff` reads. They may have another number of ranks or another layout."""
    __tracebackhide__ = True
    ended = _lockstep(["diff"] + [os.fspath(getattr(side, "folder", side)) for side in (one, other)])
    if ended.returncode != 0:
        raise AssertionError("the second training is not shown to be the first one:\n"
                             + ended.stdout.rstrip())


def assert_fixed(before, after, reference):
    """Fails unless `before` goes wrong in whatever way, and `after` trains as `reference` does; each is a Job, or
    a folder that `lockstep diff` reads."""
    __tracebackhide__ = True
    sides = [os.fspath(getattr(side, "folder", side)) for side in (reference, before, after)]
    ended = _lockstep(["diff", "--expect", "fixed"] + sides)
    if ended.returncode != 0:
        raise AssertionError("the fault is not shown to be fixed:\n" + ended.stdout.rstrip())


def _lockstep(arguments):
    return subprocess.run([path_of(os.path.join("bin", "lockstep"))] + arguments, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", check=False)
