#!/usr/bin/env python3
"""Compares the findings of two runs of the same cells: verdicts, and of each finding claim, step,
tensor, ranks and ratio.

    tests/compare_findings.py BEFORE AFTER

BEFORE and AFTER are folders of runs, or their record.json. Run both with the same arguments, for a
change that must not alter any verdict:

    lockstep run --matrix --ranks 2,3,4 --max-cells 450 --out before

Words, clocks and tolerances are not compared. Prints each cell that differs. Exits with 1 if one
does, and with 2 if the runs have different cells.
"""

import json
import pathlib
import sys


def load(place):
    path = pathlib.Path(place)
    return json.loads((path / "record.json" if path.is_dir() else path).read_text())


def rounded(number):
    """Ratios of a run that is repeated elsewhere may differ in their last bits."""
    return float(f"{number:.6g}") if isinstance(number, float) else number


def finding(found):
    failure = found["failure"]
    return {
        "step": found["step"],
        "tensor": found["tensor"],
        "ranks": found["groups"],
        "ratio": rounded(found["ratio"]),
        "failed": failure and failure["rank"],
    }


# Names of the phases in records of 1.x.
PHASES = {"forward": "pre_forward", "backward": "post_backward", "reduced": "pre_step", "stepped": "post_step"}


def claim(said):
    phase = said.get("phase", said.get("point"))
    return said["predicate"], said["kind"], PHASES.get(phase, phase)


def mismatch(cell):
    """If a rank died, chance decides which call of which rank is the last in its log, and so
    whether a collective counts as never called, and by which ranks. The judge's conclusion is in
    the findings."""
    found = cell.get("mismatch", cell.get("missed_meeting"))
    kinds = {end.get("kind", end.get("ending")) for end in cell.get("exits", cell.get("ends"))}
    if not found or kinds & {"raised", "exited", "signalled"}:
        return None
    return {key: found[key] for key in ("fault", "group", "number", "culprits")}


def decided(cell):
    symptom = cell.get("symptom", cell.get("outcome"))
    return {
        "verdict": cell["verdict"],
        "symptom": symptom["kind"],
        "symptom_step": symptom["step"],
        "claims": [
            (claim(result["claim"]), result["verdict"], [finding(found) for found in result["findings"]])
            for result in cell["results"]
        ],
        "mismatch": mismatch(cell),
    }


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 64
    before, after = ({cell["folder"]: decided(cell) for cell in load(place)["cells"]} for place in sys.argv[1:])
    for folder in sorted(before.keys() ^ after.keys()):
        print(f"{folder}: only in {sys.argv[1] if folder in before else sys.argv[2]}")
    differing = [folder for folder in before if folder in after and before[folder] != after[folder]]
    for folder in differing:
        print(folder)
        for part, value in before[folder].items():
            if value != after[folder][part]:
                print(f"  {part}: {value}\n  {' ' * len(part)}  {after[folder][part]}")
    print(f"{len(before)} and {len(after)} cells, {len(differing)} with other findings")
    if before.keys() != after.keys():
        return 2
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
