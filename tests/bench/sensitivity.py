"""Measures how small a fault `lockstep diff` and `lockstep watch` see: sensitivity.py LOCKSTEP PYTHON [--seeds N]

PYTHON has torch. For each kind of fault, precision and layout it trains the cases of tests/layouts/sensitivity.py on one
process and on two ranks, with faults of the sizes 2^-1 to 2^-23 in every step, and prints a table in Markdown: down to which size
every fault was found, at the right tensor from step 1 on, and from which size on a fault was called equal. Between both it is
undecided. The worst of N drawn models counts. Exits with 1 if a healthy pair was not called equal."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SIZES = range(1, 24)  # smaller factors are 1 in float32
KINDS = {
    "all": "all gradients times 1 + s",
    "tensor": "one matrix times 1 + s",
    "bias": "one bias times 1 + s",
    "row": "one row of 64, the largest, times 1 + s",
    "element": "one element of 2048, the largest, times 1 + s",
    "noise": "one matrix plus noise of s times its norm",
    "rate": "the learning rate of one matrix times 1 + s",
}
PLACES = {"tensor": "blocks.0.up.weight", "bias": "blocks.0.up.bias", "row": "blocks.0.up.weight",
          "element": "blocks.0.up.weight", "noise": "blocks.0.up.weight", "rate": "blocks.0.up.weight"}
COLUMNS = [("diff", "ddp", "fp32"), ("diff", "fully_shard", "fp32"), ("diff", "ddp", "bf16"),
           ("diff", "fully_shard", "bf16"), ("watch", "rank", "fp32"), ("watch", "rank", "bf16")]


def cases_of(layout, precision, seeds):
    names = ["%s-%s-none@%d" % (layout, precision, seed) for seed in seeds]
    return names + ["%s-%s-%s-%d@%d" % (layout, precision, kind, size, seed)
                    for kind in KINDS for size in SIZES for seed in seeds]


def train(lockstep, python, out, seeds):
    build = pathlib.Path(lockstep).resolve().parents[1]
    worlds = [("1", ["single-%s-none@%d" % (precision, seed) for precision in ("fp32", "bf16") for seed in seeds])]
    worlds += [("2", cases_of(layout, precision, seeds)) for _, layout, precision in COLUMNS]
    arguments = []
    for world, cases in worlds:
        arguments += [*(["--"] if arguments else []), world, str(out), *cases]
    environment = {**os.environ, "PYTHONPATH": str(build / "share/lockstep/python"), "OMP_NUM_THREADS": "1"}
    subprocess.run([python, SOURCE / "tests/forked_ranks.py", SOURCE / "tests/layouts/sensitivity.py", *arguments],
                   check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def judged(lockstep, out, command, layout, case):
    """"found", "equal" or "undecided"; found elsewhere is an error."""
    folder = out / case.replace(layout, layout + "2", 1)
    _, precision, kind, *_ = case.partition("@")[0].split("-")
    seed = case.partition("@")[2]
    if command == "diff":
        words = ["diff", out / ("single1-%s-none@%s" % (precision, seed)), folder]
    else:
        words = ["report", folder]
    done = subprocess.run([lockstep, *words, "--format", "summary"], capture_output=True, text=True)
    if done.returncode == 0:
        return "equal"
    if done.returncode != 1:
        return "undecided"
    finding = first_finding(json.loads(done.stdout))
    # Where a rate is hardly another one, the updates of the first step may have the same bits.
    is_in_time = finding["step"] == 1 or command == "watch"
    is_right = is_in_time and finding["tensor"] == PLACES.get(kind, finding["tensor"])
    return "found" if is_right else "found elsewhere: %s" % finding


def first_finding(summary):
    """The first finding of a summary, wherever it stands."""
    if isinstance(summary, dict):
        if "tensor" in summary and "step" in summary:
            return summary
        summary = summary.values()
    elif not isinstance(summary, list):
        return None
    return next(filter(None, map(first_finding, summary)), None)


def cell_of(results):
    """`results`: by size, those of all seeds."""
    found = 0
    while found + 1 in SIZES and all(one == "found" for one in results[found + 1]):
        found += 1
    equal = next((size for size in SIZES if "equal" in results[size]), None)
    text = "2^-%d" % found if found else "none"
    wrong = sorted({one for size in SIZES for one in results[size] if one.startswith("found else")})
    return text + (", equal from 2^-%d" % equal if equal else "") + ("; WRONG: %s" % wrong[0] if wrong else "")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("lockstep")
    options.add_argument("python")
    options.add_argument("--seeds", type=int, default=3, help="drawn models (default: 3)")
    given = options.parse_args()
    seeds = range(given.seeds)
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        train(given.lockstep, given.python, out, seeds)
        work = [(column, case) for column in COLUMNS for case in cases_of(*column[1:], seeds)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = dict(zip(work, pool.map(
                lambda one: judged(given.lockstep, out, *one[0][:2], one[1]), work)))
    healthy = {result for (_, case), result in results.items() if "-none@" in case}
    print("| fault | " + " | ".join("`%s`, %s, %s" % column for column in COLUMNS) + " |")
    print("|---" * (1 + len(COLUMNS)) + "|")
    for kind, words in KINDS.items():
        cells = [cell_of({size: [results[column, "%s-%s-%s-%d@%d" % (*column[1:], kind, size, seed)] for seed in seeds]
                          for size in SIZES}) for column in COLUMNS]
        print("| %s | %s |" % (words, " | ".join(cells)))
    print("\n%d healthy pairs and jobs: %s" % (len(seeds) * len(COLUMNS), ", ".join(sorted(healthy))))
    return 0 if healthy == {"equal"} else 1


if __name__ == "__main__":
    sys.exit(main())
