"""A trainer whose loss is computed on the module inside DistributedDataParallel, so that gradients are
never synchronised: torchrun --nproc-per-node 2 train.py. With --fixed it is computed on the wrapper."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main(is_fixed):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, 6):
        # The ranks divide a batch of 12 samples.
        samples = torch.randn(12, 8, generator=torch.Generator().manual_seed(step))
        batch = samples[dist.get_rank()::dist.get_world_size()]
        optimizer.zero_grad()
        output = model(batch) if is_fixed else model.module(batch)
        output.pow(2).mean().backward()
        optimizer.step()
    dist.destroy_process_group()


main("--fixed" in sys.argv)
