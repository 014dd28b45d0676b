#!/usr/bin/env python3
"""Runs the jobs of this folder under `lockstep watch`, and prints what Lockstep says of each as tables in Markdown.

    tests/others/table.py [--write] [--only NAME] [--out DIR] [PROGRAM [PYTHON]]

PROGRAM is build/release/bin/lockstep unless given, and PYTHON one with torch and torchrun beside it. --write puts the
tables into docs/others.md, between its markers. Runs that DIR has already are read again. Each error runs twice: `job.py ok`, which is right, and `job.py bug`.
Exits with 1 if Lockstep finds something in a right job.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from rows import TRAINCHECK, TTRACE, Row

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs/others.md"
BEGIN, END = "<!-- others: tests/others/table.py -->\n", "<!-- /others -->\n"
OPTIONS = ["--data", "--modules", "--stall", "15", "--on-stall", "kill"]


@dataclasses.dataclass
class Answer:
    """What Lockstep says of a row: cells of the table, and whether each command found the error."""

    watch: str = ""
    diff: str = ""
    module: str = ""
    by_watch: bool = False
    by_diff: bool = False
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
            self.run("watch", "--out", folder, *OPTIONS, "--", *start, job, mode, *extra)
        return folder

    def report(self, folder: str) -> dict:
        return json.loads(self.run("report", folder, "--format", "json"))["jobs"][0]

    def verdict(self, folder: str) -> dict:
        return json.loads(self.run("report", folder, "--format", "summary"))["jobs"][0]

    def diff(self, a: str, b: str) -> dict:
        return json.loads(self.run("diff", a, b, "--format", "json"))["comparisons"][0]["pairs"][0]


def found(kind: str, step: int, where: str) -> str:
    return f"[{kind}](findings/{kind}.md) in step {step}" + (f", `{where}`" if where else "")


def causes(job: dict) -> list[str]:
    """The kinds of findings about reductions, and wrappers that were bypassed."""
    kinds = {finding["kind"]: None for result in job["results"] if result["claim"]["predicate"] == "reduce_over_ranks"
             for finding in result["findings"]}
    bypassed = [f"{one['wrapper']} {one['reason']} at line {one['place'].split(':')[-1]}"
                for one in job["unreduced"] if one["explains"]]
    return bypassed or [f"[{kind}](findings/{kind}.md)" for kind in kinds]


def said_by_watch(lockstep: Lockstep, folder: str) -> tuple[str, bool]:
    summary = lockstep.verdict(folder)
    if summary["verdict"] != "violated":
        return {"holds": "in lockstep", "recorded": "recorded"}.get(summary["verdict"], summary["verdict"]), False
    first = summary["findings"][0]
    where = first["tensor"] or ", ".join(f"rank {one['rank']}" for one in summary["not_finished"]
                                         if one["cause"] != "lost peer")
    cause = "; cause: " + ", ".join(found_causes) if (found_causes := causes(lockstep.report(folder))) else ""
    return found(first["kind"], first["step"], where) + cause, True


def void_because(pair: dict) -> str:
    """The prerequisite of a comparison that does not hold, such as other initial weights."""
    return next((one["prerequisite"] for one in pair["preconditions"] if one["likeness"] == "different"), "")


def said_by_diff(pair: dict) -> tuple[str, bool]:
    result = pair["result"]
    if result["verdict"] == "holds":
        steps = [side["steps"]["count"] if isinstance(side["steps"], dict) else side["steps"] for side in pair["sides"]]
        return "equal" + (f" in the first {steps[1]} of {steps[0]} steps" if steps[1] < steps[0] else ""), False
    if result["verdict"] == "violated":
        first = result["findings"][0]
        return found(first["kind"], first["step"], first["tensor"]), True
    other = void_because(pair)
    return f"undecided: other {other}" if other else "undecided", False


def first_module(pair: dict) -> str:
    """The first output of a module that differs in the first step that differs, else the first gradient at one."""
    for step in pair["steps"]:
        modules = (step["modules"] or {}).get("tensors", [])
        for quantity, word in (("output", "output of"), ("output_gradient", "gradient at")):
            for tensor in modules:
                if tensor["quantity"] == quantity and tensor["likeness"] == "different":
                    return f"{word} `{tensor['name']}`"
        if any(tensor["likeness"] == "different" for tensor in step["tensors"]):
            return "all agree"
    return ""


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
    pair = lockstep.diff(bug, f"{bug}.dcp") if row.has_checkpoint else lockstep.diff(one or right, bug)
    answer.diff, answer.by_diff = said_by_diff(pair)
    if row.has_checkpoint:
        answer.diff += " (the run and its checkpoint)"
        answer.wrong += "" if said_by_diff(lockstep.diff(right, f"{right}.dcp"))[0] == "equal" else row.name
    answer.module = first_module(lockstep.diff(right, bug)) if one else ""
    return answer


def line(row: Row, answer: Answer) -> str:
    cells = [f"[{row.name}]({row.thread})", row.mechanism, answer.watch, answer.diff, row.note or answer.module, row.paper]
    return "| " + " | ".join(cells) + " |\n"


def table(title: str, last: str, rows: list[Row], answers: dict[str, Answer]) -> str:
    told = [row for row in rows if answers[row.name].by_watch]
    compared = [row for row in rows if answers[row.name].by_diff and row not in told]
    count = (f"{len(rows)} rows: `watch` alone finds {len(told)}, `diff` {len(compared)} more, "
             f"{len(rows) - len(told) - len(compared)} are not found.")
    head = f"| error | mechanism | `watch` alone | `diff` | {last} |\n|---|---|---|---|---|---|\n"
    return f"## {title}\n\n{count}\n\n{head}" + "".join(line(row, answers[row.name]) for row in rows)


def answered(lockstep: Lockstep, rows: list[Row]) -> dict[str, Answer]:
    answers = {}
    for row in rows:
        print(row.name, file=sys.stderr)
        answers[row.name] = ask(lockstep, row) if row.ranks else Answer("no job", "no job")
    return answers


def write(tables: str) -> None:
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + BEGIN + tables + END + rest.split(END)[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("program", nargs="?", default=str(ROOT / "build/release/bin/lockstep"))
    parser.add_argument("python", nargs="?", default=sys.executable)
    asked = parser.parse_args()
    out = asked.out or tempfile.mkdtemp(prefix="others-")
    lockstep = Lockstep(asked.program, asked.python, pathlib.Path(out).resolve())
    chosen = [[row for row in rows if asked.only in row.name] for rows in (TRAINCHECK, TTRACE)]
    answers = answered(lockstep, [row for rows in chosen for row in rows])
    tables = "\n".join(table(title, last, rows, answers) for title, last, rows in (
        ("TrainCheck's errors", "why not | TrainCheck's paper", chosen[0]),
        ("TTrace's bugs", "first module, in the same layout | the list", chosen[1])) if rows)
    print(tables)
    if asked.write:
        write(tables)
    wrong = [answer.wrong for answer in answers.values() if answer.wrong]
    print(*[f"a right job: {one}" for one in wrong], sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
