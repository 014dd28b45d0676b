"""Trainings of two ranks that observe themselves, one after the other: in_code_training.py DIR. Each has a
folder in DIR. Prints the errors of wrong calls, on rank 0 alone."""

import os
import sys

import lockstep

out = sys.argv[1]
lockstep.watch(out=os.path.join(out, "before_torch"), data=True)

import torch
import torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
dist.init_process_group("gloo")


def made(seed=0):
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    return nn.parallel.DistributedDataParallel(module), torch.optim.AdamW(module.parameters())


def train(model, optimizer, fault_from=1000):
    for step in range(1, 5):
        optimizer.zero_grad()
        rows = torch.randn(6, 8, generator=torch.Generator().manual_seed(100 * step + dist.get_rank()))
        (model.module if step >= fault_from else model)(rows).pow(2).mean().backward()
        optimizer.step()


def say_error(call, **arguments):
    try:
        call(**arguments)
    except (RuntimeError, ValueError) as error:
        if dist.get_rank() == 0:
            print("%s: %s" % (type(error).__name__, error))


train(*made())
say_error(lockstep.watch, out=os.path.join(out, "another"))
lockstep.stop()
lockstep.stop()
say_error(lockstep.watch)
dist.barrier()
say_error(lockstep.watch, out=os.path.join(out, "before_torch"))

model, optimizer = made()
train(model, optimizer)
lockstep.watch(out=os.path.join(out, "after_model"), also=["micro-batches", "optimizer-state"])
train(model, optimizer)
lockstep.stop()

# A watch of buffers leaves nothing behind that the next one, without them, meets.
normed = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))
wrapped, stepped = nn.parallel.DistributedDataParallel(normed), torch.optim.AdamW(normed.parameters())
lockstep.watch(out=os.path.join(out, "buffers"), also="buffers")
train(wrapped, stepped)
lockstep.stop()
lockstep.watch(out=os.path.join(out, "after_buffers"))
train(wrapped, stepped)
lockstep.stop()

train(model, optimizer, fault_from=1)  # unobserved
lockstep.watch(out=os.path.join(out, "faulty"), every=1)
train(*made(), fault_from=3)
lockstep.stop()

# Ends with the process.
lockstep.watch(out=os.path.join(out, "until_the_end"), start=2, until=3)
train(*made())
dist.destroy_process_group()
