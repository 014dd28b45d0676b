"""Compares the tiled MLP's gradient accumulator under DDP and FSDP1 with Python's.

Like ddp_parity.py: outcome, collectives and bits of the variants of its scenario that name these
engines, on every rank.

accumulator_parity.py LOCKSTEP [FOLDER]: LOCKSTEP is the program; FOLDER keeps the files.
"""

import pathlib
import sys

import ddp_parity

SCENARIO = "tiled-gradient-accumulator-stacks-hooks"
TRAINING = pathlib.Path(__file__).with_name("accumulator_training.py")


def check(program, folder, scenario, training):
    return ddp_parity.check(program, folder, scenario, training, prefixes=("ddp-", "flat-"))


if __name__ == "__main__":
    sys.exit(ddp_parity.main(SCENARIO, TRAINING, check))
