"""Trains the cases of a script, each observed into a folder of its own."""

import os
import sys

import lockstep
import torch
import torch.distributed as dist


def train_all(prepare):
    """Of SCRIPT OUT CASE... `prepare`: of the name of a case its layout, the options of its watch, and the function
    that trains it. The folder in OUT is the case's name, with the number of ranks after LAYOUT."""
    torch.set_num_threads(1)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        dist.init_process_group("gloo")
    out, cases = sys.argv[1], sys.argv[2:]
    for name in cases:
        layout, options, train = prepare(name)
        if ranks > 1:
            dist.barrier()  # all have left the job before
        lockstep.watch(out=os.path.join(out, name.replace(layout, "%s%d" % (layout, ranks), 1)), **options)
        train()
        lockstep.stop()
    if dist.is_initialized():
        dist.destroy_process_group()
