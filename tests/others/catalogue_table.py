#!/usr/bin/env python3
"""Runs faults of the catalogue in C++ and in Python, and prints what Lockstep says of both as a table.

    tests/others/catalogue_table.py [--write] [--only NAME] [--out DIR] [PROGRAM [PYTHON]]

Arguments are those of table.py; --write puts the table into docs/detection.md. Each job runs three times: `job.py ok`
in one process and on the ranks, and `job.py bug` on the ranks. Exits with 1 if Lockstep finds something in a right job.
"""

import dataclasses
import fractions
import json
import pathlib
import sys

from rows import CATALOGUE, Row
from table import ROOT, Lockstep, asked_for, exit_status, right_job, said_by_diff, said_by_watch, write

PAGE = ROOT / "docs/detection.md"
BEGIN, END = "<!-- python: tests/others/catalogue_table.py -->\n", "<!-- /python -->\n"
HEAD = "| fault | in C++ | in Python, `watch` alone | in Python, `diff` | same? |\n|---|---|---|---|---|\n"

# What breaks which claims: predicate and kinds of tensors.
AMONG_RANKS, TO_REFERENCE = "agree_across_ranks", "equal_reference"
TRAINED, BUFFERS = ("gradient", "parameter"), ("buffer",)
FAULTS = {
    "ranks": (AMONG_RANKS, TRAINED),
    "buffers on ranks": (AMONG_RANKS, BUFFERS),
    "reference": (TO_REFERENCE, TRAINED),
    "buffers of the reference": (TO_REFERENCE, BUFFERS),
}


def simple(factor: float) -> str:
    """A fraction if it is one of small numbers."""
    fraction = fractions.Fraction(factor).limit_denominator(100)
    return str(fraction) if float(fraction) == factor else f"{factor:.4g}"


@dataclasses.dataclass(frozen=True)
class Fault:
    """What breaks a kind of claim in its first step."""

    step: int
    tensors: tuple[str, ...]
    multiple: dict | None
    of_weights: bool  # in C++; `diff` compares updates instead

    def in_words(self) -> str:
        more = f" and {len(self.tensors) - 1} more" if len(self.tensors) > 1 else ""
        return f"step {self.step}, `{self.tensors[0]}`{more}{self.ratio()}"

    def ratio(self) -> str:
        if self.multiple is None:
            return ""
        factor = simple(self.multiple["factor"])
        causes = self.multiple["causes"]  # the most likely one first
        return f", times {factor}" + (f" ({causes[0]['kind']})" if causes else "")


@dataclasses.dataclass
class Answer:
    cpp: str
    watch: str
    diff: str
    differs: list[str]
    wrong: str = ""


def first_fault(results: list[dict], predicate: str, kinds: tuple[str, ...]) -> Fault | None:
    """The first step that breaks claims with `predicate` about `kinds`."""
    claims = [result for result in results if result["claim"]["predicate"] == predicate
              and result["claim"]["kind"] in kinds]
    findings = [finding for result in claims for finding in result["findings"] if finding["tensors"]]
    if not findings:
        return None
    first = min(findings, key=lambda finding: finding["step"])
    alike = [one for one in findings if (one["claim"], one["step"]) == (first["claim"], first["step"])]
    tensors = dict.fromkeys(name for finding in alike for name in finding["tensors"])
    return Fault(first["step"], tuple(tensors), first["multiple"], first["claim"]["kind"] == "parameter")


def faults(results: list[dict]) -> dict[str, Fault | None]:
    return {what: first_fault(results, *claims) for what, claims in FAULTS.items()}


def scenario_results(lockstep: Lockstep, row: Row) -> tuple[list[dict], str]:
    """The results of the variant in C++, and its symptom."""
    folder = f"{lockstep.out}/{row.job}/cpp"
    if not pathlib.Path(folder).exists():
        lockstep.run("run", f"{row.name}/{row.variant}", "--ranks", str(row.ranks), "--out", folder)
    cells = json.loads(pathlib.Path(folder, "record.json").read_text())["cells"]
    cell = next(one for one in cells if one["cell"]["variant"] == row.variant)
    return cell["results"], cell["symptom"]["kind"]


def compared(what: str, cpp: Fault | None, python: Fault | None) -> list[str]:
    """What differs between both."""
    if cpp is None or python is None:
        return [] if cpp is python else [f"{what}: {'only in Python' if cpp is None else 'not seen in Python'}"]
    differs = []
    if cpp.step != python.step:
        differs.append(f"{what}: step")
    if set(cpp.tensors) != set(python.tensors):
        differs.append(f"{what}: tensors")
    return differs + ([f"{what}: ratio"] if not cpp.of_weights and cpp.ratio() != python.ratio() else [])


def in_cpp(symptom: str, found: dict[str, Fault | None]) -> str:
    return "; ".join([symptom, *(f"{what}: {fault.in_words()}" for what, fault in found.items() if fault)])


def in_diff(pair: dict, fault: Fault | None) -> str:
    if fault is None:
        return said_by_diff(pair)[0]
    kind = pair["result"]["findings"][0]["kind"]
    return f"[{kind}](findings/{kind}.md) in {fault.in_words()}"


def ask(lockstep: Lockstep, row: Row) -> Answer:
    one = lockstep.watch(row, "ok")
    right, bug = (lockstep.watch(row, mode, ranks=row.ranks) for mode in ("ok", "bug"))
    results, symptom = scenario_results(lockstep, row)
    pair = lockstep.diff(one, bug)
    cpp, python = faults(results), faults([*lockstep.report(bug)["results"], pair["result"]])
    differs = [one for what in FAULTS for one in compared(what, cpp[what], python[what])]
    return Answer(in_cpp(symptom, cpp), said_by_watch(lockstep, bug)[0], in_diff(pair, python["reference"]), differs,
                  right_job(lockstep, row, right, one))


def line(row: Row, answer: Answer) -> str:
    same = "no: " + ", ".join(answer.differs) if answer.differs else "yes"
    return "| " + " | ".join([f"`{row.name}/{row.variant}`", answer.cpp, answer.watch, answer.diff, same]) + " |\n"


def table(answers: dict[Row, Answer]) -> str:
    same = sum(not answer.differs for answer in answers.values())
    told = f"{len(answers)} faults: {same} are found alike in C++ and in Python.\n\n"
    return told + HEAD + "".join(line(row, answer) for row, answer in answers.items())


def main() -> int:
    asked, lockstep = asked_for(__doc__)
    answers = {}
    for row in CATALOGUE:
        if asked.only in row.name:
            print(row.name, file=sys.stderr)
            answers[row] = ask(lockstep, row)
    print(table(answers))
    if asked.write:
        write(PAGE, BEGIN, table(answers), END)
    return exit_status([answer.wrong for answer in answers.values() if answer.wrong])


if __name__ == "__main__":
    sys.exit(main())
