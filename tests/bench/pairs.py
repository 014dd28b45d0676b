"""Compares random pairs of trainings: pairs.py LOCKSTEP PYTHON [--seeds A:B] [--out DIR]

PYTHON has torch. Each seed is a drawn training of tests/layouts/pairs.py on one process, with three runs of perturbed
initial weights, and the same on ranks in one layout: once as it should be, and once with a fault. `lockstep diff`
compares both with the one process. Prints how many of each layout were called equal, undecided and different, and of the
faulty ones how many were found in the right step and tensor; before that those that were not as they should be. Exits
with 1 if a healthy pair was called different or a faulty one equal. What DIR has already is not trained again."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from sensitivity import first_finding

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LAYOUTS = {"ddp": 2, "accumulated": 2, "fully_shard": 2, "hybrid": 4, "tp": 2, "sp": 2, "pipeline": 2}  # and ranks
FAULTS = ("factor", "dropped", "layer", "permuted", "exchanged")
REPETITIONS = 3
AT_ONCE = 2 * len(LAYOUTS)  # seeds


def layout_of(seed):
    return list(LAYOUTS)[seed % len(LAYOUTS)]


def fault_of(seed):
    return FAULTS[seed // len(LAYOUTS) % len(FAULTS)]


def folder_of(out, ranks, case):
    layout, dash, rest = case.partition("-")
    return out / (layout + str(ranks) + dash + rest)


def cases_of(seed):
    """Numbers of ranks, and a case."""
    one = "single-none@%d" % seed
    yield 1, one
    for number in range(1, REPETITIONS + 1):
        yield 1, "%s/repeat-%d" % (one, number)
    for fault in ("none", fault_of(seed)):
        yield LAYOUTS[layout_of(seed)], "%s-%s@%d" % (layout_of(seed), fault, seed)


def train(lockstep, python, out, seeds):
    build = pathlib.Path(lockstep).resolve().parents[1]
    worlds = {}
    for seed in seeds:
        for ranks, case in cases_of(seed):
            if not (folder_of(out, ranks, case) / "record.json").exists():
                worlds.setdefault(ranks, []).append(case)
    words = []
    for ranks, cases in worlds.items():
        words += [*(["--"] if words else []), str(ranks), str(out), *cases]
    if not words:
        return
    environment = {"PYTHONPATH": str(build / "share/lockstep/python"), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [python, SOURCE / "tests/forked_ranks.py", SOURCE / "tests/layouts/pairs.py", *words],
        env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-4000:])
    with open(out / "drawn", "a") as file:
        file.writelines(line + "\n" for line in done.stdout.splitlines() if line.startswith("{"))


def drawn_in(out):
    """What was drawn, by seed."""
    lines = [json.loads(line) for line in open(out / "drawn")]
    return {one["seed"]: one for one in lines}


def is_in_place(seed, drawn, finding):
    """Whether the first finding has the step of a fault, and its tensor if the fault is in one."""
    layout, fault = layout_of(seed), fault_of(seed)
    place, step = "", drawn["faulty_step"]
    if fault in ("permuted", "exchanged"):
        place = drawn["faulty"]
    elif fault == "layer":
        step = step if layout == "sp" else 1  # there a norm's
        layer = drawn["faulty"].rpartition(".")[0] + "."
        norm = "norm." if "attention" in layer else "other_norm."
        place = {"sp": ".".join(layer.split(".")[:2] + [norm]), "tp": ""}.get(layout, layer)
    return finding["step"] == step and finding["tensor"].startswith(place)


def judged(lockstep, out, seed, fault, drawn):
    """"equal", "undecided", "different" or "found"; and what `diff` says."""
    layout = layout_of(seed)
    done = subprocess.run([lockstep, "diff", out / ("single1-none@%d" % seed),
                           folder_of(out, LAYOUTS[layout], "%s-%s@%d" % (layout, fault, seed)), "--format", "summary"],
                          capture_output=True, text=True)
    if done.returncode not in (0, 1, 2):
        return "failed", done.stderr
    summary = json.loads(done.stdout)
    finding = first_finding(summary)
    word = ("equal", "different", "undecided")[done.returncode]
    if word == "different" and fault != "none" and is_in_place(seed, drawn, finding):
        word = "found"
    return word, (finding or summary["comparisons"][0])["sentence"]


def table_of(results):
    """`results`: by seed and fault."""
    words = ("equal", "undecided", "different", "failed"), ("found", "undecided", "equal", "different", "failed")
    print("| layout | " + " | ".join("healthy: " + word for word in words[0]) + " | "
          + " | ".join("faulty: " + word for word in words[1]).replace("different", "found elsewhere") + " |")
    print("|---" * (1 + len(words[0]) + len(words[1])) + "|")
    for row in [*LAYOUTS, "all"]:
        counts = []
        for is_faulty in (False, True):
            found = [result[0] for (seed, fault), result in results.items()
                     if row in (layout_of(seed), "all") and (fault != "none") == is_faulty]
            counts += [str(found.count(word)) for word in words[is_faulty]]
        print("| %s | %s |" % (row, " | ".join(counts)))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("lockstep")
    options.add_argument("python")
    options.add_argument("--seeds", default="0:35", help="from A to B - 1 (default: 0:35)")
    options.add_argument("--out", help="folder of the recordings, which are kept")
    given = options.parse_args()
    first, last = map(int, given.seeds.split(":"))
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(given.out or folder)
        out.mkdir(exist_ok=True)
        for begin in range(first, last, AT_ONCE):
            seeds = range(begin, min(begin + AT_ONCE, last))
            train(given.lockstep, given.python, out, seeds)
            drawn = drawn_in(out)
            for seed in seeds:
                for fault in ("none", fault_of(seed)):
                    results[seed, fault] = judged(given.lockstep, out, seed, fault, drawn[seed])
                    word, text = results[seed, fault]
                    if word != ("equal" if fault == "none" else "found"):
                        told = ("precision", "optimizer", "rate", "faulty_step", "faulty")
                        about = {key: drawn[seed][key] for key in told}
                        print(seed, layout_of(seed), fault, word, about, text, flush=True)
    table_of(results)
    wrong = [(word, fault) for (_, fault), (word, _) in results.items()
             if word == "failed" or (word == "equal" if fault != "none" else word == "different")]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
