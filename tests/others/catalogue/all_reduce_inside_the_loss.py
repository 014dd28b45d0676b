"""A statistic in the loss is all-reduced by a collective that autograd does not see."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
from common import BUG, OWNERS, STEPS, WORLD, finish, mean_square, regression, replicated, start
from torch import nn
from torch.distributed.nn.functional import all_reduce


def mean_of_ranks(own: torch.Tensor) -> torch.Tensor:
    if WORLD == 1:
        return own
    if not BUG:
        return all_reduce(own) / WORLD
    mean = own / WORLD
    dist.all_reduce(mean.detach())  # shares the storage
    return mean


class TwoTasks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features, self.head = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.features(x), self.head(x)


start()
wrapped = replicated(TwoTasks())
optimizer = torch.optim.SGD(wrapped.parameters(), 0.05)
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = (torch.cat(parts) for parts in zip(*(regression(owner, step, 4, 3, 2) for owner in OWNERS), strict=True))
    features, output = wrapped(x)
    moments = mean_of_ranks(features.mean(0)).square().sum()
    moments = moments + (mean_of_ranks(features.square().mean(0)) - 1).square().sum()
    (moments + mean_square(output, y)).backward()
    optimizer.step()
finish()
