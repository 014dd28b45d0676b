"""Ranks share sequences, and DDP reduces over the other dimension of the mesh, which has one rank."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, WORLD, backward, draw, finish, replicated, start, two_layers
from torch.distributed.device_mesh import init_device_mesh

TOKENS = 4  # of a rank

start()
group = init_device_mesh("cpu", (1, WORLD), mesh_dim_names=("rows", "parts"))["rows"].get_group() if BUG else None
wrapped = replicated(two_layers(), process_group=group)
optimizer = torch.optim.SGD(wrapped.parameters(), 0.05)


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = draw(step, 2 * TOKENS, 3).chunk(2)[owner], draw(1000 + step, 2 * TOKENS, 2).chunk(2)[owner]
    return (wrapped(x) - y).square().sum() / TOKENS


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    optimizer.step()
finish()
