"""Compares the parts of models that are divided over ranks with Python's.

Both sides run the same training. Outcome and bits must be equal, for every variant of the scenario
model-parallel-parity and every rank: gathers, reduce-scatters and all-to-alls of torch's functional
collectives, torch.distributed.nn's all-reduce, tensor parallelism of DTensor, and the pipeline's schedule.

model_parallel_parity.py TESTBED [OPTION...]: TESTBED is the program lockstep_testbed; options as in
ddp_parity.py.
"""

import pathlib
import sys

import ddp_parity

SCENARIO = "model-parallel-parity"
TRAINING = pathlib.Path(__file__).with_name("model_parallel_training.py")

if __name__ == "__main__":
    sys.exit(ddp_parity.main(SCENARIO, TRAINING))
