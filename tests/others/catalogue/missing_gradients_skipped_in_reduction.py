"""Ranks lack different gradients, and the reduction by hand skips what a rank lacks."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from collections import OrderedDict

import torch
from common import BUG, STEPS, WORLD, add_up, backward, finish, mean_square, regression, start
from torch import nn

start()
model = nn.Sequential(OrderedDict((name, nn.Linear(4, 4)) for name in ("trunk", "left", "right")))
optimizer = torch.optim.SGD(model.parameters(), 0.05)


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 4, 4, 4)
    branch = model.left if owner == 0 else model.right
    return mean_square(branch(model.trunk(x)), y)


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    for parameter in model.parameters():
        if parameter.grad is None and not BUG:
            parameter.grad = torch.zeros_like(parameter)
        if parameter.grad is not None:
            add_up(parameter.grad)
            parameter.grad /= WORLD
    optimizer.step()
finish()
