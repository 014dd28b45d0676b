"""Compares lockstep::DistributedDataParallel with Python's.

Both sides run the same training. Outcome, collectives and bits must be equal, for every variant of
the scenario ddp-parity and every rank.

ddp_parity.py TESTBED [--every-world] [--keep FOLDER]: TESTBED is the program lockstep_testbed. A fourth of the
variants run, on 2 and on 3 ranks in turns; with --every-world all of them, each on both. FOLDER keeps the
files.
"""

import argparse
import csv
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zlib

WORLDS = (2, 3)
TRAINING = pathlib.Path(__file__).with_name("ddp_training.py")
RANKS = pathlib.Path(__file__).resolve().parents[1] / "forked_ranks.py"
ENTRY = struct.Struct("<QQqQQqqIiiiB7x24s16s16s32s64s64s88s")  # docs/formats.md, "Collective log"

# As `lockstep` starts a program that forks ranks (harness/cli/start_variables.h).
FORKS = {"LD_BIND_NOW": "lockstep", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}

# Peers of a rank that raised see different errors, depending on a race.
GONE = "the peer is gone"
PEER_IS_GONE = re.compile(r"Connection (closed|reset) by peer|Broken pipe|Read error")


def text_of(field):
    return field.rstrip(b"\0").decode()


def read_collectives(file):
    data = file.read_bytes()
    count = struct.unpack_from("<Q", data, 24)[0]
    called = []
    for index in range(count):
        entry = ENTRY.unpack_from(data, ENTRY.size * (index + 1))
        if entry[1] > 0:  # joining the group has no number
            called.append([text_of(entry[12]), entry[3], text_of(entry[14])])
    return called


def read_safetensors(file):
    data = file.read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return {
        name: data[8 + size + entry["data_offsets"][0] : 8 + size + entry["data_offsets"][1]].hex()
        for name, entry in header.items()
    }


def rows_of(journal):
    """The rows of a journal, by column, combined with the columns of their tensors."""

    def rows(file):
        return csv.DictReader(file.read_text().split("\n")[1:])

    tensors = {row["tensor"]: row for row in rows(journal.with_suffix(".tensors.csv"))}
    return [{**tensors[row["tensor"]], **row} for row in rows(journal)]


def fragment(error):
    """An error without the parts that differ between two programs that raise the same."""
    if PEER_IS_GONE.search(error):
        return GONE
    error = re.split(r"\nException raised from|Please report a bug to PyTorch", error)[0]
    return " ".join(error.split())


def read_ours(folder, rank):
    tensors = {}
    for file in folder.glob(f"rank-{rank}.step-*.safetensors"):
        step = file.name.split(".")[1].removeprefix("step-")
        for key, bits in read_safetensors(file).items():
            if "/post_backward/parameter/" not in key:  # the weights before the first step, which Python's do not note
                tensors[f"{step}/{key}"] = bits
    statement = folder / f"rank-{rank}.status.json"
    error = json.loads(statement.read_text())["error"] if statement.exists() else "killed"
    collectives = read_collectives(folder / f"collectives-{rank}.bin")
    return {"error": error, "collectives": collectives, "tensors": tensors}


# c10d's names of element types in the flight recorder, if they differ from torch's.
DTYPES = {"float": "float32", "long": "int64", "int": "int32", "": ""}


def read_python(folder, rank):
    theirs = json.loads((folder / f"rank-{rank}.json").read_text())
    if "collectives" not in theirs:  # it makes other calls with the same result
        return theirs
    theirs["collectives"] = [
        [operation, elements, DTYPES.get(dtype, dtype)] for operation, dtype, elements in theirs["collectives"]
    ]
    return theirs


def outcome_difference(ours, theirs):
    """Compares the errors of a cell's ranks. If a peer raised, a rank may see the peer's absence
    before it raises the same error itself: a race decides."""
    errors = [{fragment(end["error"]) for end in ends} - {GONE} for ends in (ours, theirs)]
    if errors[0] != errors[1]:
        return f"outcome: ours {errors[0]}, Python's {errors[1]}"
    for rank, (one, other) in enumerate(zip(ours, theirs)):
        pair = {fragment(one["error"]), fragment(other["error"])}
        if len(pair) > 1 and (GONE not in pair or "" in pair):
            return f"outcome of rank {rank}: ours '{one['error']}', Python's '{other['error']}'"
    return None


def rank_difference(one, other):
    """The first difference between two ranks, as a sentence; None if there is none."""
    calls = [(side["collectives"] if "collectives" in other else []) for side in (one, other)]
    for index, (call, their_call) in enumerate(zip(*calls)):
        if call != their_call:
            return f"collective {index}: ours {call}, Python's {their_call}"
    keys = set(one["tensors"]) | set(other["tensors"])
    if fragment(one["error"]) == fragment(other["error"]) != GONE:
        if len(calls[0]) != len(calls[1]):
            return f"{len(calls[0])} collectives, Python's {len(calls[1])}"
    else:  # it ended when its peers did
        keys = set(one["tensors"]) & set(other["tensors"])
    for key in sorted(keys):
        if one["tensors"].get(key) != other["tensors"].get(key):
            bits = one["tensors"].get(key), other["tensors"].get(key)
            return f"bits of {key}: ours {bits[0]}, Python's {bits[1]}"
    return None


def cell_difference(ours, theirs, world):
    one = [read_ours(ours, rank) for rank in range(world)]
    other = [read_python(theirs, rank) for rank in range(world)]
    if difference := outcome_difference(one, other):
        return difference
    for rank in range(world):
        if difference := rank_difference(one[rank], other[rank]):
            return f"rank {rank}: {difference}"
    return None


def run_python(training, variants_of_worlds, folder):
    """In one process, because importing torch takes seconds."""
    command = [sys.executable, str(RANKS), str(training)]
    for world, variants in variants_of_worlds.items():
        command += [*(["--"] if len(command) > 3 else []), str(world), str(folder), *variants]
    environment = {**os.environ, **FORKS, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {ended.returncode}\n{ended.stderr[-4000:]}")


def compare(ours, theirs, variants, world):
    """One sentence per cell that differs."""
    differences = []
    for variant in variants:
        cell = f"{variant}/w{world}"
        if difference := cell_difference(ours / cell, theirs / cell, world):
            differences.append(f"{cell}: {difference}")
    return differences


def variants_of(testbed, scenario):
    """The variants that the scenario declares."""
    command = [testbed, "list", scenario, "--format", "json"]
    catalogue = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    scenarios = {one["id"]: one for one in catalogue["scenarios"]}
    return sorted(variant["name"] for variant in scenarios[scenario]["variants"])


def fourth_of(variants):
    """A fourth of many variants, drawn by their names, and others until each word of a name occurs."""
    if len(variants) < 20:
        return variants
    drawn = sorted(variants, key=lambda name: zlib.crc32(name.encode()))
    chosen, words = [], set()
    for place, name in enumerate(drawn):
        if place < len(drawn) / 4 or not words.issuperset(name.split("+")):
            chosen.append(name)
            words.update(name.split("+"))
    return chosen


def check(testbed, folder, scenario, training, every_world, prefixes=("",)):
    """Runs both sides in `folder` and compares them; returns the exit status. Only variants that
    begin with one of `prefixes` run. Our files are in `folder`/ours-w<world>/<scenario>."""
    variants = [name for name in variants_of(testbed, scenario) if name.startswith(prefixes)]
    if not every_world:
        variants = fourth_of(variants)
    differences, cells, statuses = [], 0, []
    turns = {world: variants if every_world else variants[turn :: len(WORLDS)] for turn, world in enumerate(WORLDS)}
    turns = {world: chosen for world, chosen in turns.items() if chosen}
    run_python(training, turns, folder / "python")
    for world, chosen in turns.items():
        names, out = [f"{scenario}/{variant}" for variant in chosen], folder / f"ours-w{world}"
        run = [testbed, "run", *names, "--ranks", str(world), "--out", str(out), "--quiet"]
        environment = {**os.environ, **FORKS}
        ended = subprocess.run(run, env=environment, stdout=subprocess.DEVNULL, check=False)
        statuses.append(ended.returncode)
        differences += compare(out / scenario, folder / "python", chosen, world)
        cells += len(chosen)
    print(*differences, sep="\n")
    print(f"{cells} cells compared, {len(differences)} differ; exit statuses of the runs: {statuses}")
    return 0 if set(statuses) <= {0, 1} and cells and not differences else 1


def main(scenario, training, check=check):
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--every-world", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    chosen = parser.parse_args()
    if chosen.keep:
        return check(chosen.program, chosen.keep, scenario, training, chosen.every_world)
    with tempfile.TemporaryDirectory() as folder:
        return check(chosen.program, pathlib.Path(folder), scenario, training, chosen.every_world)


if __name__ == "__main__":
    sys.exit(main("ddp-parity", TRAINING))
