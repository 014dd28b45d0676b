#!/usr/bin/env python3
"""Draws cells of the catalogue, hides what they are, and counts what the judge finds in their files.

    blind_trial.py PROGRAM [--cells N] [--seed S] [--keep DIR]

PROGRAM: a built lockstep. Scenarios, variants, seeds and numbers of ranks are drawn; half of the cells are faulty
(`buggy` or `wrong-fix`, as the catalogue calls them), half are healthy (`fixed`). They run as usual. Then each is copied
under a number: the names in its record and in its files are replaced, its expectation, results and manifest
are removed. `lockstep report` judges these copies, and the key is opened afterwards.

A cell is told without a reference if a claim about its ranks alone is violated: they agree, finish, call the same
collectives, stay finite, share no samples. It is told with one if any claim is. Prints a table in Markdown and each cell
that was missed, or accused while healthy; exit status 1 if there is one.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import typing

FAULTY, HEALTHY = ("buggy", "wrong-fix"), ("fixed",)
WITH_REFERENCE = ("equal_reference", "at_most_reference")
RANKS = (2, 3)
SEEDS = 6


def variants_by_role(program):
    listed = subprocess.run([program, "list", "--format", "json"], capture_output=True, text=True, check=True)
    found = {"faulty": [], "healthy": []}
    for scenario in json.loads(listed.stdout)["scenarios"]:
        for variant in scenario["variants"]:
            name = f"{scenario['id']}/{variant['name']}"
            if variant["role"] in FAULTY:
                found["faulty"].append(name)
            elif variant["role"] in HEALTHY:
                found["healthy"].append(name)
    return found


def draw(variants, count, generator):
    """Pairs of ranks and seed, with the variants that run with them."""
    drawn, seeds = {}, generator.sample(range(1000), SEEDS)
    for kind in ("faulty", "healthy"):
        for name in generator.sample(variants[kind], min(count // 2, len(variants[kind]))):
            drawn.setdefault((generator.choice(RANKS), generator.choice(seeds)), []).append(name)
    return drawn


def run(program, names, ranks, seed, folder):
    subprocess.run([program, "run", *names, "--ranks", str(ranks), "--seed", str(seed), "--out", str(folder)],
                   capture_output=True, text=True, check=False)
    record = folder / "record.json"
    return json.loads(record.read_text())["cells"] if record.exists() else []


def hide_names(source, target, old, new):
    """Copies the files of an execution but those that are derived, with another name in them."""
    target.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.name == "manifest.csv" or file.suffix in (".index", ".log"):
            continue
        (target / file.name).write_bytes(file.read_bytes().replace(old, new))


def renamed(cell, name, variant, role):
    """The entry of a cell without what tells it or what was found in it."""
    return {**cell, "folder": f"{name}/{variant}", "results": [], "manifest": None, "checks": [], "notes": [],
            "source": "", "reproduce": "",
            "cell": {**cell["cell"], "scenario": name, "variant": variant, "role": role},
            "symptom": {**cell["symptom"], "kind": "undecided", "step": 0, "wrong_step": 0, "tensor": "",
                        "error": "", "text": ""},
            "expectation": {**cell["expectation"], "breaks": [], "raises": [], "meets": [], "pins": []}}


def identity(cell):
    """As its files name a cell."""
    return f"{cell['cell']['scenario']}/{cell['cell']['variant']}".encode()


def hidden(drawn, number, target):
    """The entries of a cell, and of its reference if it has one, in the record of the hidden run."""
    entries = []
    for cell, letter, role in ((drawn.cell, "c", "buggy"), (drawn.reference, "r", "reference")):
        if cell is None:
            continue
        # As long as before: files have tables of their own length.
        name = f"t{number:03d}".ljust(len(cell["cell"]["scenario"]), "x")
        variant = letter * len(cell["cell"]["variant"])
        hide_names(drawn.run / cell["folder"], target / name / variant, identity(cell), f"{name}/{variant}".encode())
        entries.append(renamed(cell, name, variant, role))
    entries[0]["reference_folder"] = entries[1]["folder"] if drawn.reference else ""
    return entries


def violated(cell):
    """Predicates of the violated claims."""
    return {result["claim"]["predicate"] for result in cell["results"] if result["verdict"] == "violated"}


class Drawn(typing.NamedTuple):
    run: pathlib.Path  # the folder
    cell: dict
    reference: dict | None  # another cell of the run


class Score:
    def __init__(self):
        self.cells = self.alone = self.told = 0
        self.wrong = []

    def add(self, name, predicates, is_faulty):
        self.cells += 1
        self.alone += bool(predicates - set(WITH_REFERENCE))
        self.told += bool(predicates)
        if bool(predicates) != is_faulty:
            self.wrong.append(name)

    def row(self, kind):
        return f"| {kind} | {self.cells} | {self.alone} | {self.told} |"


def is_in_trial(cell):
    """A fix that refuses to train is neither healthy nor faulty, nor is a fault that shows in no value of this cell."""
    role, expected = cell["cell"]["role"], cell["expectation"]
    shows = bool(expected["raises"] or expected["breaks"])
    return role in FAULTY and shows or role in HEALTHY and not shows


def cells_of(drawn, program, work):
    """Runs what was drawn. Cells that the catalogue does not run with so many ranks are left out."""
    cells = []
    for number, ((ranks, seed), names) in enumerate(sorted(drawn.items())):
        folder = work / f"run-{number}"
        ran = run(program, names, ranks, seed, folder)
        by_folder = {cell["folder"]: cell for cell in ran}
        cells += [Drawn(folder, cell, by_folder.get(cell["reference_folder"])) for cell in ran
                  if is_in_trial(cell) and (folder / cell["folder"]).is_dir()]
    return cells


def judged_blindly(cells, program, folder):
    """What the judge finds in each of the cells."""
    folder.mkdir()
    record = json.loads((cells[0].run / "record.json").read_text())
    record["cells"] = [entry for number, drawn in enumerate(cells) for entry in hidden(drawn, number, folder)]
    record["command"] = []
    record["planned"] = {**record["planned"], "cells": len(record["cells"]),
                         "claims": sum(len(cell["claims"]) for cell in record["cells"])}
    (folder / "record.json").write_text(json.dumps(record))
    report = subprocess.run([program, "report", str(folder), "--format", "json"], stdout=subprocess.PIPE, check=False)
    return [cell for cell in json.loads(report.stdout)["cells"] if cell["cell"]["role"] != "reference"]


def trial(program, work, drawn, generator):
    cells = cells_of(drawn, program, work)
    generator.shuffle(cells)
    scores = {"faulty": Score(), "healthy": Score()}
    for one, seen in zip(cells, judged_blindly(cells, program, work / "blind"), strict=True):
        what = one.cell["cell"]
        is_faulty = what["role"] in FAULTY
        name = f"{what['scenario']}/{what['variant']} with {what['world_size']} ranks, seed {what['seed']}"
        scores["faulty" if is_faulty else "healthy"].add(name, violated(seen), is_faulty)
    return scores


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--cells", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", help="folder for the runs and what was judged")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.program)
    generator = random.Random(arguments.seed)
    drawn = draw(variants_by_role(program), arguments.cells, generator)
    with tempfile.TemporaryDirectory() as scratch:
        scores = trial(program, pathlib.Path(arguments.keep or scratch), drawn, generator)
    print("| cells | judged | told without a reference | told with one |\n|---|---|---|---|")
    for kind, score in scores.items():
        print(score.row(kind))
    for name in scores["faulty"].wrong:
        print("missed:", name)
    for name in scores["healthy"].wrong:
        print("accused:", name)
    return 1 if scores["faulty"].wrong or scores["healthy"].wrong else 0


if __name__ == "__main__":
    sys.exit(main())
