"""DeepSpeed 1801: only rank 0 of a tensor-parallel group clips the gradients that all of its ranks hold."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
from common import BUG, RANK, STEPS, Block, draw, finish, mean_square, start, tensor_parallel
from torch import nn
from torch.distributed.tensor import DTensor


def clip(model: nn.Module, limit: float) -> None:
    """The gradients for the norm are those of this rank's shards, and on rank 0 also what all ranks hold."""
    unique = [p for p in model.parameters() if RANK == 0 or isinstance(p, DTensor)]
    local = [p.grad.to_local() if isinstance(p.grad, DTensor) else p.grad for p in unique]
    total = sum(gradient.square().sum() for gradient in local)
    dist.all_reduce(total)
    for parameter in unique if BUG else model.parameters():
        parameter.grad.mul_(limit / total.sqrt())


start()
model = Block()
tensor_parallel(model)
optimizer = torch.optim.AdamW(model.parameters(), 1e-2, foreach=False)
for step in range(STEPS):
    optimizer.zero_grad()
    mean_square(model(draw(step, 8, 16)), draw(100 + step, 8, 16)).backward()
    clip(model, 0.1)
    optimizer.step()
finish()
