"""The loss is computed on the module inside DDP."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, backward, finish, mean_square, regression, replicated, start
from torch import nn

start()
model = nn.Linear(4, 4)
wrapped = replicated(model)
forward = model if BUG else wrapped
optimizer = torch.optim.SGD(model.parameters(), 0.05)


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 4, 4, 4)
    return mean_square(forward(x), y)


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    optimizer.step()
finish()
