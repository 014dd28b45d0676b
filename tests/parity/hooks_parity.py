"""Compares the scenarios about gradient hooks with the same trainings in Python's DDP.

A fixed set of cells runs on both sides: the first of each scenario, and one on 3 ranks. Python's outcomes follow from its own errors and gradients,
compared with its own plain training in one process. Then outcome, errors and the bits of every
gradient and parameter must equal lockstep's.

hooks_parity.py LOCKSTEP [--every-selection | --matrix] [--keep FOLDER]: LOCKSTEP is the program;
--every-selection runs the whole set, --matrix covers every pair of values of every two axes instead;
FOLDER keeps the files.
"""

import gc

gc.disable()  # while torch is imported: a fourth less time
import argparse
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # DDP prints advice for most of these cells
import torch

import hooks_training
from ddp_parity import GONE, fragment, read_safetensors, rows_of
from hooks_outcome import bits, outcome
from hooks_scenarios import ROUTED, SCENARIOS, SUMMED, Cell

LIMIT_S = 120  # for all ranks of a cell
LEAST_CELLS = 60
LEAST_CELLS_QUICK = 50
UNDEFINED = "undefined"

TILED = "tiled-backward-fires-hooks-per-tile"
TILED_FIXES = ("grad-but-last", "explicit-inputs")
TILED_STATIC = ("static-graph-in-place", "static-graph-set-aside")
TILED_HOOKED = ("backward-per-tile", *TILED_FIXES, *TILED_STATIC)
ABSENT = "tiled-parameter-absent-from-last-tile"
MASK = "recomputed-tile-draws-another-dropout-mask"
CHECKPOINT = "reentrant-checkpoint-under-ddp"
INPUT = "tiled-input-needs-no-gradient"
ACCUMULATOR = "tiled-gradient-accumulator-under-ddp"
ACCUMULATED = (
    "ddp-published",
    "ddp-published-static-graph",
    "ddp-mended-hooks",
    "ddp-mended-hooks-static-graph",
)

# Cells to run: scenario, variants (none: all), ranks, and the axes that are not at their default.
SELECTIONS = (
    (TILED, (), 2, ""),
    (TILED, (*TILED_HOOKED, "one-tile-set-aside"), 3, "length=11 tiles=3"),
    (TILED, TILED_HOOKED, 2, "tiles=1 accumulation=2"),
    (TILED, TILED_HOOKED, 2, "around=above"),
    (TILED, TILED_HOOKED, 2, "around=nothing accumulation=2 prior=on"),
    (TILED, TILED_HOOKED, 2, "around=vision-language-model"),
    (TILED, (*TILED_HOOKED, "one-tile-set-aside"), 2, "accumulation=2 no_sync=on batch=1"),
    (TILED, TILED_HOOKED, 3, "accumulation=4 no_sync=on prior=on dtype=float64"),
    (TILED, (*TILED_HOOKED, "one-tile-set-aside"), 2, "bucket_view=on"),
    (TILED, TILED_HOOKED, 2, "bucket_view=on prior=on tiles=8 bucket=small around=above"),
    (TILED, TILED_HOOKED, 2, "frozen=gate bucket=small"),
    (TILED, TILED_HOOKED, 2, "frozen=all find_unused=on"),
    (TILED, TILED_HOOKED, 2, "values=dyadic prior=on"),
    (TILED, TILED_HOOKED, 2, "dtype=bfloat16 tiles=2"),
    (TILED, ("backward-per-tile", *TILED_FIXES), 2, "find_unused=on"),
    (TILED, TILED_FIXES, 2, "static_graph=on"),
    (TILED, TILED_FIXES, 2, "static_graph=on bucket_view=on accumulation=2 prior=on"),
    (ABSENT, (), 2, ""),
    (ABSENT, (), 3, "accumulation=2 bucket_view=on"),
    (ABSENT, (), 2, "accumulation=2 no_sync=on prior=on length=11"),
    (ABSENT, (), 2, "tiles=1 bucket=small dtype=float64"),
    (INPUT, (), 2, ""),
    (INPUT, (), 3, "accumulation=2 bucket_view=on"),
    (INPUT, (), 2, "accumulation=2 no_sync=on prior=on length=11"),
    (INPUT, (), 2, "above=nothing"),
    (CHECKPOINT, (), 2, ""),
    (CHECKPOINT, ("shared-adapters-reentrant", "non-reentrant-offload"), 2, "dropout=on"),
    (ROUTED, (), 2, ""),
    (ROUTED, (), 3, "length=11 tiles=3"),
    (ROUTED, (), 2, "tiles=1 accumulation=2"),
    (ROUTED, (), 2, "bucket_view=on"),
    (ROUTED, (), 2, "find_unused=on"),
    (ROUTED, (), 2, "static_graph=on"),
    (SUMMED, (), 2, ""),
    (SUMMED, (), 3, "accumulation=2 bucket_view=on"),
    (SUMMED, (), 2, "prior=on tiles=2 no_sync=on accumulation=2"),
    (ACCUMULATOR, ACCUMULATED, 2, ""),
    (ACCUMULATOR, ACCUMULATED, 3, "accumulation=2 tile_values=random tiles=3"),
    (ACCUMULATOR, ACCUMULATED, 2, "tiles=1 dtype=float64"),
    (MASK, (), 2, ""),
    (MASK, (), 3, "accumulation=2 no_sync=on residual=off dtype=float64"),
    (MASK, (), 2, "autocast=on lost=autocast"),
    (MASK, (), 2, "autocast=on lost=both residual=off tiles=3 length=11"),
)


def arguments_of(selection):
    scenario, variants, ranks, axes = selection
    names = [f"{scenario}/{variant}" for variant in variants] or [scenario]
    choices = [argument for choice in axes.split() for argument in ("--set", choice)]
    return [*names, "--ranks", str(ranks), *choices]


def quick_selections():
    firsts = {}
    for selection in SELECTIONS:
        firsts.setdefault(selection[0], selection)
    on_three_ranks = next(selection for selection in SELECTIONS if selection[2] == 3)
    return [*firsts.values(), on_three_ranks]


def matrices():
    matrix = ("--ranks", "2", "--matrix")
    accumulated = [f"{ACCUMULATOR}/{variant}" for variant in ACCUMULATED]
    others = [scenario for scenario in SCENARIOS if scenario != ACCUMULATOR]
    return [*([scenario, *matrix] for scenario in others), [*accumulated, *matrix]]


def run_lockstep(program, arguments, out):
    """The cells in the record of a run."""
    command = [program, "run", *arguments, "--out", str(out)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        said = ended.stdout[-4000:] + ended.stderr[-4000:]
        sys.exit(f"{' '.join(command)}: exit status {ended.returncode}\n{said}")
    return json.loads((out / "record.json").read_text())["cells"]


def cell_of(record):
    cell = record["cell"]
    return Cell(
        record["folder"],
        cell["scenario"],
        cell["variant"],
        cell["world_size"],
        cell["steps"],
        cell["seed"],
        {choice["axis"]: choice["value"] for choice in cell["axes"]},
    )


def fork(train, cell, rank, world, folder):
    """A process of a cell, because its peers may die with it."""
    child = os.fork()
    if child:
        return child
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # as in forked_ranks.py, once in each forked process
    try:
        hooks_training.run(train, cell, rank, world, folder)
    except BaseException:
        traceback.print_exc()
    os._exit(0)


def wait_for(children):
    deadline = time.monotonic() + LIMIT_S
    while children and time.monotonic() < deadline:
        time.sleep(0.002)
        children = [child for child in children if os.waitpid(child, os.WNOHANG)[0] == 0]
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def read_python(folder, rank):
    file = folder / f"rank-{rank}.pt"
    return torch.load(file) if file.exists() else {"step": 0, "error": "killed", "tensors": {}}


def run_python(cell, folder):
    """Tensors of the ranks of a cell, and of its own reference."""
    alone, ranks = folder / "reference", range(cell.world)
    children = [fork(hooks_training.train_reference, cell, 0, 1, alone)]
    children += [fork(hooks_training.train_rank, cell, rank, cell.world, folder) for rank in ranks]
    wait_for(children)
    return [read_python(folder, rank) for rank in ranks], read_python(alone, 0)


def our_outcome(record):
    """Lockstep's outcome of the cell."""
    return record["symptom"]["kind"], record["symptom"]["step"]


def read_ours(folder, rank):
    """The format of hooks_training.run, with the bits in hexadecimal."""
    tensors = {}
    for row in rows_of(folder / f"rank-{rank}.csv"):
        if row["phase"] in ("pre_step", "post_step"):
            fields = ("step", "micro_batch", "phase", "kind", "name")
            is_undefined = row["not_comparable"].startswith("undefined")
            key = "/".join(row[field] for field in fields)
            tensors[key] = UNDEFINED if is_undefined else "not kept"
    for file in folder.glob(f"rank-{rank}.step-*.safetensors"):
        step = file.name.split(".")[1].removeprefix("step-")
        for key, data in read_safetensors(file).items():
            if f"{step}/{key}" in tensors:
                tensors[f"{step}/{key}"] = data
    statement = json.loads((folder / f"rank-{rank}.status.json").read_text())
    return {"step": statement["step"], "error": statement["error"], "tensors": tensors}


def ending_difference(ours, theirs):
    """The difference in the ranks' exits: finished, or the error and its step. If a peer raised, a
    rank may see the peer's absence before it raises the same error itself: a race decides."""
    ends = [[(fragment(rank["error"]), rank["step"]) for rank in side] for side in (ours, theirs)]
    causes = [{end for end in side if end[0] != GONE} for side in ends]
    if causes[0] != causes[1]:
        return f"errors: ours {causes[0]}, Python's {causes[1]}"
    for rank, (one, other) in enumerate(zip(*ends)):
        texts = {one[0], other[0]}
        if len(texts) > 1 and (GONE not in texts or "" in texts):
            return f"error of rank {rank}: ours {one}, Python's {other}"
    return None


def tensors_difference(ours, theirs):
    """The first tensor with different bits in two processes. If an error ended them, tensors of
    only one process do not count."""
    ours, is_whole = ours["tensors"], not (ours["error"] or theirs["error"])
    theirs = {
        key: UNDEFINED if tensor is None else bits(tensor).hex()
        for key, tensor in theirs["tensors"].items()
    }
    if is_whole and set(ours) != set(theirs):
        return f"only one of us has {sorted(set(ours) ^ set(theirs))[0]}"
    for key in sorted(set(ours) & set(theirs)):
        if ours[key] != theirs[key]:
            return f"{key}: ours {ours[key][:32]}, Python's {theirs[key][:32]}"
    return None


class Comparison:
    """Compares cells one after another. If lockstep may leave a cell undecided, its class is not
    compared; everything else is."""

    def __init__(self, folder, may_be_undecided):
        self.folder, self.may_be_undecided = folder, may_be_undecided
        self.undecided, self.classes, self.references = 0, {}, set()
        self.tensors, self.differences = 0, []

    def compare_tensors(self, name, ours, theirs):
        self.tensors += len(set(ours["tensors"]) & set(theirs["tensors"]))
        if difference := tensors_difference(ours, theirs):
            self.differences.append(f"{name}: {difference}")

    def add(self, ours, record):
        cell = cell_of(record)
        if not SCENARIOS[cell.scenario](cell).is_covered():
            return
        theirs, reference = run_python(cell, self.folder / cell.name)
        if reference["error"]:
            sys.exit(f"{cell.name}: Python's reference ended with '{reference['error']}'")
        found, stated = outcome(theirs, reference["tensors"], cell.dtype), our_outcome(record)
        self.classes[cell.name] = found[0]
        if stated[0] == "undecided" and self.may_be_undecided:
            self.undecided += 1
        elif found != stated:
            self.differences.append(f"{cell.name}: ours {stated}, Python's {found}")
        own = [read_ours(ours / cell.name, rank) for rank in range(cell.world)]
        if difference := ending_difference(own, theirs):
            self.differences.append(f"{cell.name}: {difference}")
        for rank, pair in enumerate(zip(own, theirs)):
            self.compare_tensors(f"{cell.name}, rank {rank}", *pair)
        self.references.add(record["reference_folder"])
        plain = read_ours(ours / record["reference_folder"], 0)
        self.compare_tensors(f"{cell.name}, its reference", plain, reference)
        print(f"{found[0]:16} {cell.name}", flush=True)


def check(program, runs, folder, may_be_undecided, least_cells):
    comparison = Comparison(folder / "python", may_be_undecided)
    for index, arguments in enumerate(runs):
        out = folder / f"ours-{index:02}"
        for record in run_lockstep(program, arguments, out):
            is_reference = record["cell"]["role"] == "reference"
            is_known = record["folder"] in comparison.classes
            if record["processes"] and not is_reference and not is_known:
                comparison.add(out, record)
    print(*comparison.differences, sep="\n")
    counts = collections.Counter(comparison.classes.values())
    classes = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    cells = len(comparison.classes)
    print(
        f"{cells} cells ({classes}), {len(comparison.references)} references and "
        f"{comparison.tensors} tensors compared, {len(comparison.differences)} differences; "
        f"lockstep left {comparison.undecided} undecided"
    )
    return 0 if cells >= least_cells and not comparison.differences else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lockstep")
    parser.add_argument("--every-selection", action="store_true")
    parser.add_argument("--matrix", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    chosen = parser.parse_args()
    selections = SELECTIONS if chosen.every_selection else quick_selections()
    runs = matrices() if chosen.matrix else [arguments_of(selection) for selection in selections]
    least_cells = LEAST_CELLS if chosen.matrix or chosen.every_selection else LEAST_CELLS_QUICK
    torch.set_num_threads(1)
    gc.freeze()  # a collection in a rank would write to, and so copy, all that it shares
    gc.enable()
    if chosen.keep:
        return check(chosen.lockstep, runs, chosen.keep, chosen.matrix, least_cells)
    with tempfile.TemporaryDirectory() as folder:
        return check(chosen.lockstep, runs, pathlib.Path(folder), chosen.matrix, least_cells)


if __name__ == "__main__":
    sys.exit(main())
