"""Trains the cases that a command line names on forked ranks, each observed into a folder of its name:
SCRIPT OUT CASE..."""

import gc
import os
import sys

import lockstep
import torch
import torch.distributed as dist


def observe_cases(train, **options):
    """`train`: called with the words of a case. `options`: of `lockstep.watch()`."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    out, cases = sys.argv[1], sys.argv[2:]
    for words in cases:
        dist.barrier()  # all have left the job before
        gc.collect()  # what it left is no part of the next one
        lockstep.watch(out=os.path.join(out, words.replace(" ", "-")), **options)
        train(words)
        lockstep.stop()
    dist.destroy_process_group()
