"""Holds the scenarios about gradient hooks against the same trainings with Python's DDP.

A fixed set of cells runs on both sides. Python's outcomes are made of its own errors and its own
gradients, beside its own plain training in one process; then outcome, errors and the bits of every
gradient and parameter must be what lockstep has.

hooks_parity.py LOCKSTEP [FOLDER]: LOCKSTEP is the program; FOLDER keeps the files.
"""

import collections
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # DDP has advice for most of these cells
import torch

import hooks_training
from ddp_parity import GONE, fragment, read_safetensors
from hooks_scenarios import Cell

LIMIT_S = 120  # of all ranks of a cell
LEAST_CELLS = 60
UNDEFINED = "undefined"

TILED = "tiled-backward-fires-hooks-per-tile"
TILED_FIXES = ("grad-but-last", "explicit-inputs")
TILED_HOOKED = ("backward-per-tile", *TILED_FIXES, "static-graph-in-place", "static-graph-set-aside")
ABSENT = "tiled-parameter-absent-from-last-tile"
INPUT = "tiled-input-needs-no-gradient"
ROUTED = ("router-loss-carried", "router-loss-dropped")

# What is run: scenario, variants (none: all), ranks, and the axes that are not as usual.
SELECTIONS = (
    (TILED, (), 2, ""),
    (TILED, (*TILED_HOOKED, *ROUTED, "one-tile-set-aside"), 3, "length=11 tiles=3"),
    (TILED, (*TILED_HOOKED, *ROUTED), 2, "tiles=1 accumulation=2"),
    (TILED, TILED_HOOKED, 2, "around=above"),
    (TILED, TILED_HOOKED, 2, "around=nothing accumulation=2 prior=on"),
    (TILED, TILED_HOOKED, 2, "around=vision-language-model"),
    (TILED, (*TILED_HOOKED, "one-tile-set-aside"), 2, "accumulation=2 no_sync=on batch=1"),
    (TILED, TILED_HOOKED, 3, "accumulation=4 no_sync=on prior=on dtype=float64"),
    (TILED, (*TILED_HOOKED, "one-tile-set-aside", *ROUTED), 2, "bucket_view=on"),
    (TILED, TILED_HOOKED, 2, "bucket_view=on prior=on tiles=8 bucket=small around=above"),
    (TILED, TILED_HOOKED, 2, "frozen=gate bucket=small"),
    (TILED, TILED_HOOKED, 2, "frozen=all find_unused=on"),
    (TILED, TILED_HOOKED, 2, "values=dyadic prior=on"),
    (TILED, TILED_HOOKED, 2, "dtype=bfloat16 tiles=2"),
    (TILED, ("backward-per-tile", *TILED_FIXES, *ROUTED), 2, "find_unused=on"),
    (TILED, (*TILED_FIXES, *ROUTED), 2, "static_graph=on"),
    (TILED, TILED_FIXES, 2, "static_graph=on bucket_view=on accumulation=2 prior=on"),
    (ABSENT, (), 2, ""),
    (ABSENT, (), 3, "accumulation=2 bucket_view=on"),
    (ABSENT, (), 2, "accumulation=2 no_sync=on prior=on length=11"),
    (ABSENT, (), 2, "tiles=1 bucket=small dtype=float64"),
    (INPUT, (), 2, ""),
    (INPUT, (), 3, "accumulation=2 bucket_view=on"),
    (INPUT, (), 2, "accumulation=2 no_sync=on prior=on length=11"),
    (INPUT, (), 2, "above=nothing"),
)

# The most that a right tensor may be off, relative to all of its kind in its step. What is wrong in
# these cells is off by far more.
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-13, torch.bfloat16: 0.05}


def run_lockstep(program, index, folder):
    """The cells of a selection as they stand in the record, beside the folder they are in."""
    scenario, variants, ranks, axes = SELECTIONS[index]
    out = folder / f"ours-{index:02}"
    command = [program, "run", *(f"{scenario}/{variant}" for variant in variants or ("",))]
    command = [argument.removesuffix("/") for argument in command]
    command += ["--ranks", str(ranks), "--out", str(out)]
    for choice in axes.split():
        command += ["--set", choice]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode not in (0, 1, 2, 3):
        sys.exit(f"{' '.join(command)}: exit status {ended.returncode}\n{ended.stderr[-4000:]}")
    return [(out, record) for record in json.loads((out / "record.json").read_text())["cells"]]


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


def fork(train, cell, world, folder):
    """The ranks of a cell, each in a process of its own, as its peers may die with it."""
    folder.mkdir(parents=True)
    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            try:
                hooks_training.run(train, cell, rank, world, folder)
            finally:
                os._exit(0)
        children.append(child)
    return children


def wait_for(children):
    deadline = time.monotonic() + LIMIT_S
    while children and time.monotonic() < deadline:
        children = [child for child in children if os.waitpid(child, os.WNOHANG)[0] == 0]
        time.sleep(0.002)
    for child in children:
        os.kill(child, 9)
        os.waitpid(child, 0)


def run_python(train, cell, world, folder):
    wait_for(fork(train, cell, world, folder))
    files = [folder / f"rank-{rank}.pt" for rank in range(world)]
    killed = {"step": 0, "error": "killed", "tensors": {}}
    return [torch.load(file) if file.exists() else killed for file in files]


def step_of(key):
    return int(key.split("/")[0])


def kind_of(key):
    return key.split("/")[3]


def same(one, other):
    """Whether two tensors are the same bits, or neither is there."""
    if one is None or other is None:
        return one is other
    return bits(one) == bits(other)


def bits(tensor):
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())


def norm(tensors):
    return sum(tensor.double().pow(2).sum().item() for tensor in tensors if tensor is not None) ** 0.5


def distances(rank, reference):
    """How far each tensor of a rank is from the reference's, relative to all of its kind."""
    groups = collections.defaultdict(list)
    for key, tensor in reference.items():
        groups[step_of(key), kind_of(key)].append(tensor)
    norms = {group: norm(tensors) for group, tensors in groups.items()}
    for key, tensor in rank.items():
        expected = reference[key]
        if tensor is None or expected is None:
            yield key, 0 if tensor is expected else float("inf")
        else:
            difference = norm([tensor.double() - expected.double()])
            yield key, difference / norms[step_of(key), kind_of(key)] if difference else 0


def never_trained(ranks, reference):
    """Gradients that the reference has and no rank ever had."""
    gradients = [key for key, tensor in reference.items() if kind_of(key) == "gradient"]
    names = {key.split("/", 4)[4] for key in gradients}
    for name in names:
        keys = [key for key in gradients if key.endswith(f"/gradient/{name}")]
        seen = [(rank[key], reference[key]) for rank in ranks for key in keys if key in rank]
        if all(own is None for own, _ in seen) and any(right is not None for _, right in seen):
            return True
    return False


def outcome(ranks, reference, dtype):
    """What a cell came to, of what its ranks and the reference saw: the class, and its step."""
    tensors = [rank["tensors"] for rank in ranks]
    shared = set.intersection(*map(set, tensors))
    apart = [k for k in shared if not all(same(tensors[0][k], other[k]) for other in tensors)]
    off = [
        key
        for rank in tensors
        for key, distance in distances(rank, reference)
        if distance > TOLERANCES[dtype]
    ]
    wrong_step = min(map(step_of, apart + off), default=0)
    errors = [rank["step"] for rank in ranks if rank["error"] and fragment(rank["error"]) != GONE]
    if errors:
        is_late = 0 < wrong_step < min(errors)
        return "raised late" if is_late else "raised", min(errors)
    if any(rank["error"] for rank in ranks):
        return "not finished", 0
    if never_trained(tensors, reference):
        return "never trained", wrong_step
    if apart:
        return "ranks differ", min(map(step_of, apart))
    return ("agree but wrong", wrong_step) if off else ("right", 0)


def our_outcome(record):
    """What lockstep says the cell came to."""
    return record["outcome"]["kind"], record["outcome"]["step"]


def read_ours(folder, rank):
    """As hooks_training.run saves it, with the bits in hexadecimal."""
    tensors = {}
    with (folder / f"rank-{rank}.csv").open() as journal:
        for row in csv.DictReader(journal):
            if row["point"] in ("reduced", "stepped"):
                fields = ("step", "micro_batch", "point", "kind", "name")
                is_undefined = row["not_comparable"].startswith("undefined")
                key = "/".join(row[field] for field in fields)
                tensors[key] = UNDEFINED if is_undefined else "not kept"
    for file in folder.glob(f"rank-{rank}.step-*.safetensors"):
        step = file.name.split(".")[1].removeprefix("step-")
        for key, data in read_safetensors(file).items():
            if f"{step}/{key}" in tensors:
                tensors[f"{step}/{key}"] = data
    statement = json.loads((folder / f"rank-{rank}.end.json").read_text())
    return {"step": statement["step"], "error": statement["error"], "tensors": tensors}


def ending_difference(ours, theirs):
    """How the ranks' ends differ: finished, or raised what in which step. A rank whose peer raised
    may be told by the peer's absence before it comes to raise the same: which of the two, a race
    decides."""
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
    """The first tensor of which two processes have other bits; those that only one of them came to
    see are no difference where an error ended them."""
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
    def __init__(self, folder):
        self.folder, self.references, self.classes = folder, {}, {}
        self.tensors, self.differences = 0, []

    def reference(self, cell, path, ours):
        """Python's own of a cell, and whether lockstep's is the same bits; each is run once."""
        if path not in self.references:
            theirs = run_python(hooks_training.train_reference, cell, 1, self.folder / path)
            self.references[path] = theirs[0]
            self.compare_tensors(path, [read_ours(ours / path, 0)], theirs)
        return self.references[path]["tensors"]

    def compare_tensors(self, name, ours, theirs):
        for rank, (one, other) in enumerate(zip(ours, theirs)):
            self.tensors += len(set(one["tensors"]) & set(other["tensors"]))
            if difference := tensors_difference(one, other):
                self.differences.append(f"{name}, rank {rank}: {difference}")

    def add(self, ours, record):
        cell = cell_of(record)
        theirs = run_python(hooks_training.train_rank, cell, cell.world, self.folder / cell.name)
        reference = self.reference(cell, record["reference_folder"], ours)
        found, our_outcome_ = outcome(theirs, reference, cell.dtype), our_outcome(record)
        self.classes[cell.name] = found[0]
        if found != our_outcome_:
            self.differences.append(f"{cell.name}: ours {our_outcome_}, Python's {found}")
        own = [read_ours(ours / cell.name, rank) for rank in range(cell.world)]
        if difference := ending_difference(own, theirs):
            self.differences.append(f"{cell.name}: {difference}")
        self.compare_tensors(cell.name, own, theirs)
        print(f"{found[0]:16} {cell.name}", flush=True)


def check(program, folder):
    comparison = Comparison(folder / "python")
    for index in range(len(SELECTIONS)):
        for ours, record in run_lockstep(program, index, folder):
            is_reference = record["cell"]["role"] == "reference"
            is_known = record["folder"] in comparison.classes
            if record["processes"] and not is_reference and not is_known:
                comparison.add(ours, record)
    print(*comparison.differences, sep="\n")
    counts = collections.Counter(comparison.classes.values())
    classes = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    cells = len(comparison.classes)
    print(
        f"{cells} cells ({classes}), {len(comparison.references)} references and "
        f"{comparison.tensors} tensors compared, {len(comparison.differences)} differences"
    )
    return 0 if cells >= LEAST_CELLS and not comparison.differences else 1


def main():
    torch.set_num_threads(1)
    if len(sys.argv) == 3:
        return check(sys.argv[1], pathlib.Path(sys.argv[2]))
    with tempfile.TemporaryDirectory() as folder:
        return check(sys.argv[1], pathlib.Path(folder))


if __name__ == "__main__":
    sys.exit(main())
