#!/usr/bin/env python3
"""Runs the catalogue on GPUs, and sees that each rank computes there. Exit status 77: there is no GPU.

    catalogue_test.py LOCKSTEP [--device KIND] [--backend NAME] [--ranks LIST] [SCENARIO...]

KIND is cuda; with sim it tests itself on virtual devices. Every cell that can be run is as expected. A rank that
trains on a device of its own has memory of it at the end of each step, and one that places its model itself
has weights there.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

NOTHING_RAN = 3


def device_memory(journal, device):
    """(name, bytes) of each note of a rank about the memory of such devices."""
    def rows(path):
        with open(path, encoding="utf-8", newline="") as file:
            next(file)  # its writer
            yield from csv.DictReader(file)
    names = {row["tensor"]: row["name"] for row in rows(journal.with_suffix(".tensors.csv"))
             if row["kind"] == "memory" and " on %s:" % device in row["name"]}
    return [(names[row["tensor"]], float(row["norm"])) for row in rows(journal) if row["tensor"] in names]


def beside_its_device(cell, folder, device):
    """Ranks that trained at least one step and have nothing on a device."""
    ranks = [end["rank"] for end in cell["exits"] if end["kind"] == "finished"]
    notes = {rank: device_memory(folder / ("rank-%d.csv" % rank), device) for rank in ranks}
    return [rank for rank in ranks if not notes[rank] or any(bytes_there <= 0 for _, bytes_there in notes[rank])]


def is_seen(cell):
    """Whether its processes note where they compute. References of models that are only run do not."""
    return cell["cell"]["role"] != "reference" or cell["cell"]["scenario"] != "split-map-overridden-in-inference"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lockstep")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("scenarios", nargs="*")
    given = parser.parse_intermixed_args()
    if given.device == "cuda":
        asked = subprocess.run([given.lockstep, "run", "--ranks", "gpus", "--require", "gpus=1", "no-such-scenario"],
                               capture_output=True, text=True, check=False)
        if "there is no GPU" in asked.stderr:
            print("catalogue_test.py: skipped: " + asked.stderr.strip())
            return 77
    with tempfile.TemporaryDirectory() as place:
        out = pathlib.Path(place) / "run"
        run = subprocess.run([given.lockstep, "run", *given.scenarios, "--device", given.device, "--backend",
                              given.backend, "--ranks", given.ranks, "--timeout", "120", "--out", str(out)],
                             text=True, stdout=subprocess.PIPE, check=False)
        print(run.stdout)
        if run.returncode not in (0, NOTHING_RAN):
            return 1
        cells = json.loads((out / "record.json").read_text())["cells"]
        tried = [cell for cell in cells if cell["processes"] > 0 and is_seen(cell)]
        beside = {cell["folder"]: ranks for cell in tried
                  if (ranks := beside_its_device(cell, out / cell["folder"], given.device))}
        print("%d of %d cells on %s over %s; %d scenarios" % (
            len(tried), sum(is_seen(cell) for cell in cells), given.device, given.backend,
            len({cell["cell"]["scenario"] for cell in tried})))
        for folder, ranks in beside.items():
            print("%s: ranks %s computed beside their device" % (folder, ranks))
        return 1 if beside or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
