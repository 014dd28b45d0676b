"""Compares lockstep::Zero with DeepSpeed's ZeRO.

Both sides run the same training. Outcome and bits must be equal, for every variant of the scenario
zero-parity and every rank. Collectives are not compared: DeepSpeed makes more of them, for norms,
and others with the same result. Its asserts are off, because cases that it refuses are run here.

zero_parity.py TESTBED [OPTION...]: TESTBED is the program lockstep_testbed; options as in ddp_parity.py.
"""

import importlib.util
import os
import pathlib
import sys

import ddp_parity

SCENARIO = "zero-parity"
TRAINING = pathlib.Path(__file__).with_name("zero_training.py")
SKIPPED = 77


def main():
    if importlib.util.find_spec("deepspeed") is None:
        print("deepspeed is not installed for", sys.executable)
        return SKIPPED
    os.environ["PYTHONOPTIMIZE"] = "1"
    return ddp_parity.main(SCENARIO, TRAINING)


if __name__ == "__main__":
    sys.exit(main())
