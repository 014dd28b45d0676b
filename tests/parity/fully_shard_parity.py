"""Compares lockstep::FullyShard with Python's fully_shard.

Both sides run the same training. Outcome, collectives and bits must be equal, for every variant of
the scenario fully-shard-parity and every rank. The digests of all ranks' shards must add up to
those of the whole parameters.

fully_shard_parity.py TESTBED [OPTION...]: TESTBED is the program lockstep_testbed; options as in ddp_parity.py.
"""

import collections
import pathlib
import sys

import ddp_parity

SCENARIO = "fully-shard-parity"
TRAINING = pathlib.Path(__file__).with_name("fully_shard_training.py")
WHOLE = "whole."


def lanes(text):
    return int(text[:16], 16), int(text[16:], 16)


def sum_difference(cell, world):
    """The first place at which the digests of the initial shards do not add up."""
    wholes, sums = {}, collections.defaultdict(lambda: (0, 0))
    for rank in range(world):
        for row in ddp_parity.rows_of(cell / f"rank-{rank}.csv"):
            if row["phase"] != "pre_forward":
                continue
            name, digest = row["name"], lanes(row["digest"])
            if name.startswith(WHOLE):
                wholes[name.removeprefix(WHOLE)] = digest
            else:
                sums[name] = tuple((a + b) % 2**64 for a, b in zip(sums[name], digest))
    if not wholes or wholes.keys() != sums.keys():
        return f"{len(wholes)} parameters, {len(sums)} sharded ones"
    wrong = [name for name in wholes if wholes[name] != sums[name]]
    return f"the shards of {', '.join(wrong)} do not add up" if wrong else None


def check(testbed, folder, scenario, training, every_world):
    status = ddp_parity.check(testbed, folder, scenario, training, every_world)
    cells = sorted(folder.glob(f"ours-w*/{scenario}/*/w*"))
    wrong = 0
    for cell in cells:
        if difference := sum_difference(cell, int(cell.name.removeprefix("w"))):
            print(f"{cell.parent.name}/{cell.name}: {difference}")
            wrong += 1
    print(f"the digests of shards add up in {len(cells) - wrong} of {len(cells)} cells")
    return status or (1 if wrong else 0)


if __name__ == "__main__":
    sys.exit(ddp_parity.main(SCENARIO, TRAINING, check))
