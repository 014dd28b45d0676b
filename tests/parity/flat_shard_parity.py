"""Compares lockstep::FlatShard with Python's FullyShardedDataParallel.

Like fully_shard_parity.py for another engine: outcome, collectives and bits of every variant of the
scenario flat-shard-parity on every rank.

flat_shard_parity.py TESTBED [OPTION...]: TESTBED is the program lockstep_testbed; options as in ddp_parity.py.
"""

import pathlib
import sys

import ddp_parity

SCENARIO = "flat-shard-parity"
TRAINING = pathlib.Path(__file__).with_name("flat_shard_training.py")


if __name__ == "__main__":
    sys.exit(ddp_parity.main(SCENARIO, TRAINING))
