"""Compares the tiled MLP's gradient accumulator under DDP and FSDP1 with Python's.

Like ddp_parity.py: outcome, collectives and bits of the variants of both scenarios, on every rank.

accumulator_parity.py LOCKSTEP [OPTION...]: LOCKSTEP is the program; options as in ddp_parity.py.
"""

import pathlib
import sys

import ddp_parity

SCENARIOS = {"tiled-gradient-accumulator-under-ddp": "ddp-", "tiled-gradient-accumulator-under-fsdp1": "flat-"}
TRAINING = pathlib.Path(__file__).with_name("accumulator_training.py")


def check(program, folder, scenarios, training, every_world):
    status = 0
    for scenario, prefix in scenarios.items():
        own = folder / scenario
        own.mkdir()
        status |= ddp_parity.check(program, own, scenario, training, every_world, prefixes=(prefix,))
    return status


if __name__ == "__main__":
    sys.exit(ddp_parity.main(SCENARIOS, TRAINING, check))
