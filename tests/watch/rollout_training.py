"""Ranks 0 and 1 train for three steps under DDP in a group of their own, and rank 2 has a copy of the model, to which
rank 0 sends its parameters after each step. With STALE in the environment it ignores the first one after step 1;
with OPTIMIZER it makes an optimizer, which never steps; with ALONE rank 1 does as rank 2."""

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
trainers = [0] if "ALONE" in os.environ else [0, 1]
group = dist.new_group(trainers)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
training = optimizer = None
if rank in trainers:
    training = nn.parallel.DistributedDataParallel(model, process_group=group)
if rank in trainers or "OPTIMIZER" in os.environ:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1, 4):
    if training is not None:
        optimizer.zero_grad()
        training(torch.full((2, 4), float(rank + step))).pow(2).mean().backward()
        optimizer.step()
    for number, parameter in enumerate(model.parameters()):
        sent = parameter.detach().clone()
        dist.broadcast(sent, 0)
        is_ignored = "STALE" in os.environ and number == 0 and step > 1
        if training is None and not is_ignored:
            parameter.data.copy_(sent)
dist.destroy_process_group()
