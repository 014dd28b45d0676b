"""Compares reports/record/record.schema.json with a rendered record.

usage: validate_schema.py SCHEMA RECORD

The record must be valid, the schema must reject planted faults, and every field of the record must
be described and required. Returns 77 (skipped) if Python's jsonschema is missing.
"""

import copy
import json
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: Python's jsonschema is missing (Debian package python3-jsonschema)")
    sys.exit(77)


def resolve(schema, node):
    """The description of an object, with references, `null` alternatives and shared parts resolved.
    """
    for alternative in node.get("anyOf", []):
        if "$ref" in alternative:
            node = alternative
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].split("/")[-1]]
    if "allOf" not in node:
        return node
    parts = [resolve(schema, part) for part in node["allOf"]] + [node]
    return {
        "required": [name for part in parts for name in part["required"]],
        "properties": {name: field for part in parts for name, field in part["properties"].items()},
    }


def undescribed(schema, node, value, place):
    """Fields of `value` that `node` does not describe and require."""
    node = resolve(schema, node)
    found = []
    if isinstance(value, list):
        for index, item in enumerate(value):
            found += undescribed(schema, node["items"], item, f"{place}[{index}]")
    if isinstance(value, dict) and "properties" in node:
        for name, item in value.items():
            described = node["properties"].get(name, {})
            if "description" not in described or name not in node["required"]:
                found.append(f"{place}.{name}")
            else:
                found += undescribed(schema, described, item, f"{place}.{name}")
    return found


def plant(record, change):
    planted = copy.deepcopy(record)
    change(planted)
    return planted


FAULTS = {
    "another schema": lambda r: r.update(schema="lockstep.watch"),
    "another version": lambda r: r.update(version="1.1"),
    "a number without quotes in variables": lambda r: r["environment"]["variables"].update(A=1),
}

FAULTS_OF_CELLS = {
    "a missing field": lambda r: r["cells"][0].pop("exits"),
    "a word for an integer": lambda r: r["cells"][0]["exits"][0].update(code="x"),
    "a cell without a field of its execution": lambda r: r["cells"][0].pop("manifest"),
    "an unknown verdict": lambda r: r["cells"][0].update(verdict="fine"),
    "an unknown word for a number": lambda r: r["cells"][0].update(duration_s="nan"),
}

FAULTS_OF_JOBS = {
    "a job without a field of its execution": lambda r: r["jobs"][0].pop("steps"),
    "a job of fewer than no ranks": lambda r: r["jobs"][0].update(world_size=-1),
}


def main(schema_path, record_path):
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    with open(record_path, encoding="utf-8") as file:
        record = json.load(file)
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    check = validator(schema)
    problems = [f"{list(error.path)}: {error.message}" for error in check.iter_errors(record)]
    problems += [f"{place} is not described" for place in undescribed(schema, schema, record, "")]
    faults = FAULTS | (FAULTS_OF_CELLS if record["cells"] else {})
    faults |= FAULTS_OF_JOBS if record["jobs"] else {}
    problems += [
        f"{fault} is accepted" for fault, change in faults.items() if check.is_valid(plant(record, change))
    ]
    if not check.is_valid(plant(record, lambda r: r["environment"].update(weather="sunny"))):
        problems.append("a field that is not described is refused")
    print("\n".join(problems) or "valid")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
