"""A model in DDP becomes float64 and float32 again, and loses the hooks of DDP."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from collections import OrderedDict

import torch
from common import BUG, STEPS, backward, finish, mean_square, regression, replicated, start
from torch import nn

start()
model = nn.Sequential(OrderedDict(body=nn.Linear(4, 4), tanh=nn.Tanh(), head=nn.Linear(4, 4)))
wrapped = replicated(model)
model.double().float()
if not BUG:
    wrapped = replicated(model)
optimizer = torch.optim.SGD(model.parameters(), 0.05)


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 4, 4, 4)
    return mean_square(wrapped(x), y)


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    optimizer.step()
finish()
