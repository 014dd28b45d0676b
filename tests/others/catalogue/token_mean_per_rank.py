"""Each rank divides its loss by its own tokens, 1 and 3, and DDP averages."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, backward, draw, finish, regression, replicated, start, two_layers
from torch import nn

start()
wrapped = replicated(two_layers(4, 6, 5))
optimizer = torch.optim.SGD(wrapped.parameters(), 0.05)


def loss(owner: int, step: int) -> torch.Tensor:
    x, _ = regression(owner, step, 6, 4, 5)
    labels = draw(200_000 + 100 * step + owner, 6).mul(10).long().remainder(5)
    tokens = 1 + 2 * owner
    labels[:-tokens] = -100  # a prompt
    own = nn.functional.cross_entropy(wrapped(x), labels, reduction="sum")
    return own / (tokens if BUG else 2)


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    optimizer.step()
finish()
