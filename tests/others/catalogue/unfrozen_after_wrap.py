"""The backbone is unfrozen in step 2, and DDP has not registered it."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from collections import OrderedDict

import torch
from common import BUG, STEPS, backward, finish, mean_square, regression, replicated, start
from torch import nn

start()
model = nn.Sequential(OrderedDict(backbone=nn.Linear(4, 4), tanh=nn.Tanh(), head=nn.Linear(4, 4)))
model.backbone.requires_grad_(False)
wrapped = replicated(model)
optimizer = torch.optim.SGD(model.parameters(), 0.05)


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 4, 4, 4)
    return mean_square(wrapped(x), y)


for step in range(STEPS):
    if step == 1:
        model.backbone.requires_grad_(True)
        wrapped = wrapped if BUG else replicated(model)
    optimizer.zero_grad()
    backward(loss, step)
    optimizer.step()
finish()
