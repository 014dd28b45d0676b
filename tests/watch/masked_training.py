"""Two ranks train in lockstep a layer whose weights they mask after its wrapper was made. Each rank has buffers of its own
that may differ: statistics of a BatchNorm, a scale and a mask that the wrapper broadcasts, and a cache that is not saved.
With WRONG in the environment the wrapper broadcasts none."""

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("largest", torch.ones(()))
        self.register_buffer("last_inputs", torch.zeros(()), persistent=False)

    def forward(self, inputs):
        self.largest.copy_(torch.maximum(self.largest, inputs.detach().abs().max()))
        self.last_inputs.copy_(inputs.detach().mean())
        return inputs / self.largest


class Masked(nn.Linear):
    def prune(self, mask):
        self.register_buffer("mask", mask)

    def forward(self, inputs):
        return nn.functional.linear(inputs, self.weight * self.mask, self.bias)


torch.manual_seed(0)
layers = nn.Sequential(Scaled(), Masked(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
model = nn.parallel.DistributedDataParallel(layers, broadcast_buffers="WRONG" not in os.environ)
mask = torch.rand(8, 4, generator=torch.Generator().manual_seed(rank))
layers[1].prune((mask < 0.5).float())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    inputs = torch.randn(6, 4, generator=torch.Generator().manual_seed(10 * step + rank))
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
