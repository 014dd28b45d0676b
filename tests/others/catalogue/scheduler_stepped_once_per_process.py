"""The schedule is stepped once for each process in every step."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, WORLD, backward, finish, mean_square, regression, replicated, start, two_layers

start()
wrapped = replicated(two_layers())
optimizer = torch.optim.SGD(wrapped.parameters(), 0.05)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda steps: max(0.0, 1 - steps / STEPS))


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 2 + owner, 3, 2)
    return mean_square(wrapped(x), y)


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    optimizer.step()
    for _ in range(WORLD if BUG else 1):
        schedule.step()
finish()
