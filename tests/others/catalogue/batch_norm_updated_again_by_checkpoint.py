"""A BatchNorm in a checkpoint runs again in backward, and its statistics advance twice."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, backward, finish, mean_square, regression, replicated, start
from torch import nn
from torch.utils.checkpoint import checkpoint


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.below, self.norm, self.above = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8)

    def activated(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x).relu()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.below(x)
        return self.above(checkpoint(self.activated, hidden, use_reentrant=False) if BUG else self.activated(hidden))


start()
wrapped = replicated(Model())
optimizer = torch.optim.SGD(wrapped.parameters(), 0.05)


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 4, 8, 8)
    return mean_square(wrapped(x), y)


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    optimizer.step()
finish()
