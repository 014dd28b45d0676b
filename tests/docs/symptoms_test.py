#!/usr/bin/env python3
"""Runs a training with each symptom in the table of README.md, and expects Lockstep to say the sentence beside it.

    symptoms_test.py PROGRAM PYTHON     PYTHON: with torch and torchrun"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The rows in order: the symptom of symptoms.py, and the options of `lockstep watch`.
ROWS = (("bypass", ""), ("hang", "--stall 10 --on-stall kill"), ("killed", ""), ("not finite", ""),
        ("same samples", "--data"), ("buffers", "--also buffers"), ("sum", "--data"))


def sentences():
    table = (ROOT / "README.md").read_text().partition("\n| symptom |")[2].partition("\n\n")[0]
    return re.findall(r"^\| .* \| `([^`]+)` \|$", table, re.MULTILINE)


def said_of(program, folder, environment, symptom, options):
    def run(command):
        done = subprocess.run(command, shell=True, cwd=folder, env=environment, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        return done.stdout

    watch = "%s watch --keep 0 %s --out two -- torchrun --nproc-per-node 2 train.py '%s'" % (program, options, symptom)
    if symptom != "sum":
        return run(watch)
    one = run("%s watch --data --out one -- python train.py '%s'" % (program, symptom))
    return one + run(watch) + run("%s diff one two" % program)


def main():
    program, python = pathlib.Path(sys.argv[1]).absolute(), pathlib.Path(sys.argv[2]).absolute()
    environment = dict(os.environ, PATH="%s:%s" % (python.parent, os.environ["PATH"]), OMP_NUM_THREADS="1",
                       NO_COLOR="1", COLUMNS="1000", PET_STANDALONE="1")  # torchrun has a free port
    expected, status = sentences(), 0
    if len(expected) != len(ROWS):
        sys.exit("README.md has %d sentences, not %d" % (len(expected), len(ROWS)))
    for (symptom, options), sentence in zip(ROWS, expected):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(ROOT / "tests/docs/symptoms.py", pathlib.Path(folder, "train.py"))
            said = said_of(program, folder, environment, symptom, options)
        if sentence not in said:
            print("FAILED: of '%s', Lockstep does not say\n%s\nbut\n%s" % (symptom, sentence, said), file=sys.stderr)
            status = 1
        else:
            print("%s: as README.md says" % symptom, flush=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
