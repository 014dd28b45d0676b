"""A training without a module."""

import meeting
import torch
import torch.distributed as dist

meeting.join()
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    (weight * (step + dist.get_rank())).sum().backward()
    dist.all_reduce(weight.grad)
    optimizer.step()
