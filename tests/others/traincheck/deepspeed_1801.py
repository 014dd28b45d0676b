"""DeepSpeed 1801: only rank 0 of a tensor-parallel group clips the gradients that all of its ranks hold."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
from common import BUG, RANK, STEPS, WORLD, draw, finish, mean_square, start
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 64), nn.Linear(64, 16, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


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
mesh = init_device_mesh("cpu", (WORLD,), mesh_dim_names=("tp",))
parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
optimizer = torch.optim.AdamW(model.parameters(), 1e-2, foreach=False)
for step in range(STEPS):
    optimizer.zero_grad()
    mean_square(model(draw(step, 8, 16)), draw(100 + step, 8, 16)).backward()
    clip(model, 0.1)
    optimizer.step()
finish()
