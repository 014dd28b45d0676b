"""Trains under DDP until it is ended. From step 20 or FAULT_FROM on rank 1 scales a gradient, unless HEALTHY is in
the environment. SLEEP: seconds before each step that follows, or that follows SLOW_FROM."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn

import meeting

FAULT_FROM = int(os.environ.get("FAULT_FROM", "20"))
SLOW_FROM = int(os.environ.get("SLOW_FROM", FAULT_FROM))

torch.set_num_threads(1)
meeting.join()
torch.manual_seed(0)
module = nn.Linear(8, 4)
wrapped = nn.parallel.DistributedDataParallel(module)
optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
for step in range(1, 1_000_000):
    if step > SLOW_FROM:
        time.sleep(float(os.environ.get("SLEEP", "0")))
    optimizer.zero_grad()
    rows = torch.randn(6, 8, generator=torch.Generator().manual_seed(2 * step + dist.get_rank()))
    wrapped(rows).pow(2).mean().backward()
    if step >= FAULT_FROM and "HEALTHY" not in os.environ and dist.get_rank() == 1:
        module.weight.grad.mul_(2)
    optimizer.step()
