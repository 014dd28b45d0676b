#!/usr/bin/env python3
"""Runs the catalogue with its own ranks over gloo, and with those of a foreign launcher over a
backend. Reports differences between the results.

  same_verdicts.py LOCKSTEP BACKEND LAUNCHER [SCENARIO...]

LAUNCHER has the form of `lockstep run --launcher`. Exits with 1 on any difference, with 77 and a
reason if there is no such launcher.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile


def run(lockstep, arguments, out):
    command = [lockstep, "run", *arguments, "--ranks", "2", "--out", out]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode not in (0, 1, 2):
        sys.exit(f"status {done.returncode} of {' '.join(command)}\n{done.stdout[-4000:]}")
    with open(os.path.join(out, "record.json"), encoding="utf-8") as file:
        return {title(cell): cell for cell in json.load(file)["cells"]}


def title(cell):
    what = cell["cell"]
    axes = " ".join(f"{axis['axis']}={axis['value']}" for axis in what["axes"])
    return f"{what['scenario']}/{what['variant']} {axes}".strip()


def findings(result):
    """A finding without its numbers, which depend on the order of summation."""
    return [(f["step"], f.get("tensor"), f.get("groups")) for f in result["findings"]]


def come_to(cell, same_words):
    """The result of a cell. The words of a failure are the backend's."""
    said = {
        "verdict": cell["verdict"],
        "symptom": cell["symptom"]["kind"],
        "claims": {json.dumps(r["claim"]): r["verdict"] for r in cell["results"]},
        "found in": {
            json.dumps(r["claim"]): findings(r)
            for r in cell["results"]
            if r["claim"]["predicate"] not in ("ranks_finish", "collectives_match")
        },
        "not applicable": cell["expectation"]["not_applicable"],
    }
    missed = cell.get("mismatch")
    if missed:
        said["mismatch"] = [missed[key] for key in ("fault", "group", "number", "step")]
        said["culprits"] = missed["culprits"]
    if same_words:
        said["symptom in words"] = cell["symptom"]["text"]
        said["checks"] = [(check["promise"], check["result"]) for check in cell["checks"]]
    return said


def main():
    lockstep, backend, launcher, *scenarios = sys.argv[1:]
    if not shutil.which(launcher.split()[0]):
        print(f"same_verdicts: skipped: there is no {launcher.split()[0]}", file=sys.stderr)
        return 77
    # Unless told otherwise, Open MPI starts nothing as root and no more ranks than there are cores.
    os.environ.update(
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
        OMP_NUM_THREADS="1",
    )
    with tempfile.TemporaryDirectory() as folder:
        own = run(lockstep, scenarios, os.path.join(folder, "own"))
        theirs = run(
            lockstep,
            [*scenarios, "--backend", backend, "--launcher", launcher],
            os.path.join(folder, "theirs"),
        )
    different = 0
    for name in sorted(set(own) | set(theirs)):
        if name not in own or name not in theirs:
            different += 1
            print(f"{name}: only {'launched' if name in theirs else 'self-launched'}")
            continue
        expected = come_to(own[name], backend == "gloo")
        found = come_to(theirs[name], backend == "gloo")
        if expected == found:
            continue
        different += 1
        print(name)
        for key in sorted(set(expected) | set(found)):
            if expected.get(key) != found.get(key):
                print(f"  {key}: self-launched {expected.get(key)}, launched {found.get(key)}")
    print(f"{len(own)} cells, {different} of them come to something else over {backend} by {launcher}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
