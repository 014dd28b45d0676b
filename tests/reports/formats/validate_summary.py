"""Compares reports/formats/summary.schema.json with rendered summaries.

usage: validate_summary.py SCHEMA SUMMARY...

The summaries must be valid, the schema must reject planted faults, and every field must be described and
required. Returns 77 (skipped) if Python's jsonschema is missing.
"""

import json
import sys

from validate_schema import jsonschema, plant, undescribed

FAULTS = {
    "another schema": lambda s: s.update(schema="lockstep.record"),
    "another major version": lambda s: s.update(version="2.0"),
    "no verdict": lambda s: s.pop("verdict"),
    "an unknown verdict": lambda s: s.update(verdict="fine"),
    "an exit status of no report": lambda s: s.update(exit_status=125),
    "a key that is no text": lambda s: s["keys"].append(1),
    "a count below 0": lambda s: s["cells"].update(FAILED=-1),
}

FAULTS_OF_JOBS = {
    "a job without its command's status": lambda s: s["jobs"][0].pop("command_status"),
    "a job with a result of cells": lambda s: s["jobs"][0].update(verdict="FAILED"),
    "a job without coverage": lambda s: s["jobs"][0]["coverage"].pop("compared"),
}

FAULTS_OF_CELLS = {
    "a cell that is as expected": lambda s: s["not_as_expected"][0].update(result="as expected"),
    "a finding without a step": lambda s: s["not_as_expected"][0]["findings"][0].pop("step"),
}


def problems_of(schema, check, path):
    with open(path, encoding="utf-8") as file:
        # `json` also reads NaN and Infinity, which are no JSON.
        summary = json.load(file, parse_constant=lambda word: "no JSON: " + word)
    problems = [f"{list(error.path)}: {error.message}" for error in check.iter_errors(summary)]
    problems += [f"{place} is not described" for place in undescribed(schema, schema, summary, "")]
    faults = FAULTS | (FAULTS_OF_JOBS if summary["jobs"] else {})
    has_finding = summary["not_as_expected"] and summary["not_as_expected"][0]["findings"]
    faults |= FAULTS_OF_CELLS if has_finding else {}
    problems += [
        f"{fault} is accepted" for fault, change in faults.items() if check.is_valid(plant(summary, change))
    ]
    if not check.is_valid(plant(summary, lambda s: s.update(weather="sunny"))):
        problems.append("a field of a newer minor version is refused")
    return [f"{path}: {problem}" for problem in problems]


def main(schema_path, *paths):
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    problems = [problem for path in paths for problem in problems_of(schema, validator(schema), path)]
    print("\n".join(problems[:50]) or "valid")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
