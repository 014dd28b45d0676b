"""FSDP2 ignores a module, and nobody reduces its gradients."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from collections import OrderedDict

import torch
from common import BUG, STEPS, WORLD, add_up, backward, finish, mean_square, regression, sharded, start
from torch import nn

start()
model = nn.Sequential(OrderedDict(body=nn.Linear(16, 16), tanh=nn.Tanh(), smooth=nn.Linear(16, 16)))
sharded(model, model.body, ignored_params=set(model.smooth.parameters()))
optimizer = torch.optim.SGD(model.parameters(), 0.05)


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 4, 16, 16)
    return mean_square(model(x), y)


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    for parameter in [] if BUG else model.smooth.parameters():
        add_up(parameter.grad)
        parameter.grad /= WORLD
    optimizer.step()
finish()
