"""Norms see the tokens of their rank, and their gradients are not added up."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, WORLD, add_up, draw, finish, part, start
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(4), nn.Linear(4, 6)
        self.down, self.final_norm = nn.Linear(6, 4, bias=False), nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.final_norm(x + self.down(self.up(self.norm(x)).tanh()))


start()
model = Block()
if WORLD > 1:
    plan = {"up": ColwiseParallel(input_layouts=Shard(0)), "down": RowwiseParallel(output_layouts=Shard(0))}
    parallelize_module(model, init_device_mesh("cpu", (WORLD,), mesh_dim_names=("tp",)), plan)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = part(draw(step, 4, 4)), part(draw(1000 + step, 4, 4))
    ((model(x) - y).square().sum() / 16).backward()
    if not BUG:
        add_up(*(parameter.grad for name, parameter in model.named_parameters() if "norm" in name))
    optimizer.step()
finish()
