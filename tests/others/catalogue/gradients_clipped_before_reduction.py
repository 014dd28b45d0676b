"""Each rank clips its gradients before they are averaged."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, backward, finish, mean_square, reduce_gradients, regression, start
from torch import nn

start()
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.05)


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 4, 4, 4)
    return mean_square(model(x + owner), y)


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    if BUG:
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    reduce_gradients(model)
    if not BUG:
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
finish()
