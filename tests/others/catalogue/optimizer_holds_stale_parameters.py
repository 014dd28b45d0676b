"""The optimizer is made before FSDP2 replaces the parameters."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from collections import OrderedDict

import torch
from common import BUG, STEPS, backward, finish, mean_square, regression, sharded, start
from torch import nn

start()
model = nn.Sequential(OrderedDict(inner=nn.Linear(16, 16), tanh=nn.Tanh(), outer=nn.Linear(16, 16)))
held = list(model.parameters())
sharded(model, model.inner)
optimizer = torch.optim.SGD(held if BUG else model.parameters(), 0.05)


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 4, 16, 16)
    return mean_square(model(x), y)


for step in range(STEPS):
    model.zero_grad()
    backward(loss, step)
    optimizer.step()
finish()
