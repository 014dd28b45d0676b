"""Transformers 17877: the weights of a model are initialised again and again, by each model that contains it."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, finish, mean_square, samples, start
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Body(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(16, 32), nn.Linear(32, 16)
        self.apply(initialise)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.c_proj(torch.relu(self.c_fc(x)))


class Headed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = Body(), nn.Linear(16, 4)
        (self if BUG else self.head).apply(initialise)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)


start()
model = DistributedDataParallel(Headed())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = samples(step)
    mean_square(model(x), y).backward()
    optimizer.step()
finish()
