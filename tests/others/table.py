#!/usr/bin/env python3
"""Runs the jobs of this folder under `lockstep watch`, and prints what Lockstep says of each as tables in Markdown.

    tests/others/table.py [--write] [--only NAME] [--out DIR] [PROGRAM [PYTHON]]

PROGRAM is build/release/bin/lockstep unless given, and PYTHON one with torch and torchrun beside it. --write puts the
tables into docs/others.md, between its markers. Runs that DIR has already are read again. Each error runs twice: `job.py ok`,
which is right, and `job.py bug`. Exits with 1 if Lockstep finds something in a right job.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from rows import CATALOGUE, TRAINCHECK, TTRACE, Row

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs/others.md"
BEGIN, END = "<!-- others: tests/others/table.py -->\n", "<!-- /others -->\n"
OPTIONS = ["--stall", "15", "--on-stall", "kill"]


@dataclasses.dataclass
class Answer:
    """What Lockstep says of a row: cells of the table, and whether each command found the error."""

    watch: str = ""
    diff: str = ""
    module: str = ""
    by_watch: bool = False
    by_diff: bool = False
    is_void: bool = False  # diff says what was not the same before the training
    wrong: str = ""  # what it says of the right job, if that is not that it is right


class Lockstep:
    def __init__(self, program: str, python: str, out: pathlib.Path) -> None:
        self.program, self.python, self.out = program, pathlib.Path(python), out
        self.environment = {**os.environ, "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
                            "OMP_NUM_THREADS": "1"}

    def run(self, *arguments: str) -> str:
        command = [self.program, *arguments]
        return subprocess.run(command, env=self.environment, cwd=ROOT, check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout

    def watch(self, row: Row, mode: str, *, ranks: int = 0) -> str:
        """The folder of the run. Without ranks the job is one process."""
        folder = f"{self.out}/{row.job}/{'one' if not ranks else mode}"
        start = ["torchrun", "--standalone", "--nproc-per-node", str(ranks)] if ranks else [str(self.python)]
        extra = [f"{folder}.dcp"] if row.has_checkpoint else []
        job = str((HERE / row.folder / f"{row.job}.py").relative_to(ROOT))
        if not pathlib.Path(folder).exists():
            self.run("watch", "--out", folder, *OPTIONS, *row.options, "--", *start, job, mode, *extra)
        return folder

    def report(self, folder: str) -> dict:
        return json.loads(self.run("report", folder, "--format", "json"))["jobs"][0]

    def verdict(self, folder: str) -> dict:
        return json.loads(self.run("report", folder, "--format", "summary"))["jobs"][0]

    def diff(self, a: str, b: str, *options: str) -> dict:
        return json.loads(self.run("diff", a, b, *options, "--format", "json"))["comparisons"][0]["pairs"][0]

    def checkpoint(self, folder: str) -> dict:
        """The comparison of a run with the checkpoint that it wrote."""
        return self.diff(folder, f"{folder}.dcp", "--expect", "same")


def found(kind: str, step: int, where: str) -> str:
    return f"[{kind}](findings/{kind}.md) in step {step}" + (f", {where}" if where else "")


def at_line(place: str) -> str:
    return f" at line {place.split(':')[-1]}" if place else ""


def causes(job: dict) -> list[str]:
    """The kinds of findings about reductions, and wrappers that were bypassed."""
    kinds = {finding["kind"]: None for result in job["results"] if result["claim"]["predicate"] == "reduce_over_ranks"
             for finding in result["findings"]}
    bypassed = [f"{one['wrapper']} {one['reason'].replace('_', ' ')}{at_line(one['place'])}"
                for one in job["unreduced"] if one["explains"]]
    return bypassed or [f"[{kind}](findings/{kind}.md)" for kind in kinds]


def said_by_watch(lockstep: Lockstep, folder: str) -> tuple[str, bool]:
    summary = lockstep.verdict(folder)
    if summary["verdict"] != "violated":
        return {"holds": "in lockstep", "recorded": "recorded"}.get(summary["verdict"], summary["verdict"]), False
    first = summary["findings"][0]
    ranks = [f"rank {one['rank']}" for one in summary["not_finished"] if one["cause"] != "lost peer"]
    where = f"`{first['tensor']}`" if first["tensor"] else ", ".join(ranks) or "all ranks"
    cause = "; cause: " + ", ".join(found_causes) if (found_causes := causes(lockstep.report(folder))) else ""
    return found(first["kind"], first["step"], where) + cause, True


def void_because(pair: dict) -> str:
    """The prerequisite of a comparison that does not hold, such as other initial weights."""
    return next((one["prerequisite"] for one in pair["preconditions"] if one["likeness"] == "different"), "")


def said_by_diff(pair: dict) -> tuple[str, bool]:
    result = pair["result"]
    if result["verdict"] == "holds":
        all_steps, steps = (side["steps"] for side in pair["sides"])
        return "equal" + (f" in the first {steps} of {all_steps} steps" if 0 < steps < all_steps else ""), False
    if result["verdict"] == "violated":
        first = result["findings"][0]
        if first["step"] == 0:
            return f"[{first['kind']}](findings/{first['kind']}.md) in the checkpoint, `{first['tensor']}`", True
        return found(first["kind"], first["step"], f"`{first['tensor']}`" if first["tensor"] else ""), True
    other = void_because(pair)
    return f"undecided: other {other}" if other else "undecided", False


def first_module(pair: dict) -> str:
    """In the first step that differs: the first output of a module that does, else the first gradient at one, else the
    module whose parameters alone do."""
    for step in pair["steps"]:
        modules = (step["modules"] or {}).get("tensors", [])
        for quantity, word in (("output", "output of"), ("output_gradient", "gradient at")):
            for tensor in modules:
                if tensor["quantity"] == quantity and tensor["likeness"] == "different":
                    return f"{word} `{tensor['name']}`"
        of_parameters = [tensor for tensor in step["tensors"] if tensor["quantity"] in ("gradient", "update")]
        all_modules = {module_of(tensor) for tensor in of_parameters}
        apart = {module_of(tensor) for tensor in of_parameters if tensor["likeness"] == "different"}
        if apart:
            return f"parameters of `{apart.pop()}`" if len(apart) == 1 < len(all_modules) else "all agree"
    return ""


def module_of(tensor: dict) -> str:
    return tensor["name"].rpartition(".")[0]


def right_job(lockstep: Lockstep, row: Row, right: str, one: str | None) -> str:
    """What is wrong with Lockstep's answer about the right job."""
    said, fails = said_by_watch(lockstep, right)
    undecided = said not in ("in lockstep", "recorded")
    other = said_by_diff(lockstep.diff(one, right))[0] if one else "equal"
    return f"{row.name}: {said}, {other}" if fails or undecided or not other.startswith("equal") else ""


def ask(lockstep: Lockstep, row: Row) -> Answer:
    one = lockstep.watch(row, "ok") if row.folder == "ttrace" else None
    right, bug = (lockstep.watch(row, mode, ranks=row.ranks) for mode in ("ok", "bug"))
    answer = Answer(wrong=right_job(lockstep, row, right, one))
    answer.watch, answer.by_watch = said_by_watch(lockstep, bug)
    pair = lockstep.checkpoint(bug) if row.has_checkpoint else lockstep.diff(one or right, bug)
    answer.diff, answer.by_diff = said_by_diff(pair)
    answer.is_void = bool(void_because(pair))
    if row.has_checkpoint and said_by_diff(lockstep.checkpoint(right))[0] != "equal":
        answer.wrong = f"{row.name}: the checkpoint"
    answer.module = first_module(lockstep.diff(right, bug)) if one else ""
    return answer


def line(row: Row, answer: Answer) -> str:
    last = [row.note or answer.module, row.paper]
    cells = [f"[{row.name}]({row.thread})", row.mechanism, answer.watch, answer.diff, *last]
    return "| " + " | ".join(cells) + " |\n"


def count(answers: list[Answer]) -> str:
    watch = sum(one.by_watch for one in answers)
    diff = sum(one.by_diff and not one.by_watch for one in answers)
    void = sum(one.is_void and not one.by_watch and not one.by_diff for one in answers)
    named = f"for {void} more it names what is not the same, the samples or the initial weights; " if void else ""
    return (f"{len(answers)} rows: `watch` alone finds {watch}, `diff` {diff} more; {named}"
            f"{len(answers) - watch - diff - void} are not found.")


def table(title: str, last: str, rows: list[Row], answers: dict[str, Answer]) -> str:
    head = f"| error | mechanism | `watch` alone | `diff` | {last} |\n|---|---|---|---|---|---|\n"
    told = count([answers[row.name] for row in rows])
    return f"## {title}\n\n{told}\n\n{head}" + "".join(line(row, answers[row.name]) for row in rows)


def answered(lockstep: Lockstep, rows: list[Row]) -> dict[str, Answer]:
    answers = {}
    for row in rows:
        print(row.name, file=sys.stderr)
        answers[row.name] = ask(lockstep, row) if row.ranks else Answer("no job", "no job")
    return answers


def write(page: pathlib.Path, begin: str, tables: str, end: str) -> None:
    before, rest = page.read_text().split(begin)
    page.write_text(before + begin + tables + end + rest.split(end)[1])


def asked_for(description: str) -> tuple[argparse.Namespace, Lockstep]:
    """The arguments, and the program that they name."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("program", nargs="?", default=str(ROOT / "build/release/bin/lockstep"))
    parser.add_argument("python", nargs="?", default=sys.executable)
    asked = parser.parse_args()
    if asked.write and asked.only:
        parser.error("--write needs all rows: leave out --only")
    if not any(asked.only in row.name for row in (*CATALOGUE, *TRAINCHECK, *TTRACE)):
        parser.error(f"no row has '{asked.only}' in its name")
    out = asked.out or tempfile.mkdtemp(prefix="others-")
    return asked, Lockstep(asked.program, asked.python, pathlib.Path(out).resolve())


def exit_status(wrong: list[str]) -> int:
    """1 if Lockstep finds something in a right job."""
    for one in wrong:
        print(f"a right job: {one}", file=sys.stderr)
    return 1 if wrong else 0


def main() -> int:
    asked, lockstep = asked_for(__doc__)
    chosen = [[row for row in rows if asked.only in row.name] for rows in (TRAINCHECK, TTRACE)]
    answers = answered(lockstep, [row for rows in chosen for row in rows])
    tables = "\n".join(table(title, last, rows, answers) for title, last, rows in (
        ("TrainCheck's errors", "note | TrainCheck's paper", chosen[0]),
        ("Bugs of TTrace's kinds", "first module, in the same layout | in TTrace's list?", chosen[1])) if rows)
    print(tables)
    if asked.write:
        write(PAGE, BEGIN, tables, END)
    return exit_status([answer.wrong for answer in answers.values() if answer.wrong])


if __name__ == "__main__":
    sys.exit(main())
