"""Ranks reduce gradients of one shape in the order in which they arrive, which differs."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from collections import OrderedDict

import torch
from common import BUG, STEPS, WORLD, add_up, backward, finish, mean_square, regression, start
from torch import nn

start()
layers = OrderedDict(trunk=nn.Linear(3, 4), left=nn.Linear(4, 4), right=nn.Linear(4, 4))
model = nn.Sequential(layers)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
arrived: list[torch.Tensor] = []
for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(arrived.append)


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 2 + owner, 3, 4)
    hidden = model.trunk(x)
    left = model.left(hidden) if owner == 0 else None
    right = model.right(hidden)
    return mean_square((model.left(hidden) if left is None else left) + right.tanh(), y)


for step in range(STEPS):
    optimizer.zero_grad()
    arrived.clear()
    backward(loss, step)
    for parameter in arrived if BUG else model.parameters():
        add_up(parameter.grad)
        parameter.grad /= WORLD
    optimizer.step()
finish()
