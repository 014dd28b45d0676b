"""Each rank draws adapters after DDP has wrapped the model."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from collections import OrderedDict

import torch
from common import BUG, RANK, STEPS, backward, finish, mean_square, regression, replicated, start
from torch import nn


class Adapted(nn.Module):
    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        torch.manual_seed(1000 + RANK)
        self.base = base.requires_grad_(False)
        self.lora_a, self.lora_b = nn.Linear(4, 2, bias=False), nn.Linear(2, 4, bias=False)
        nn.init.zeros_(self.lora_b.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.lora_b(self.lora_a(x)) * 2


start()
model = nn.Sequential(OrderedDict(body=nn.Linear(4, 4), head=nn.Linear(4, 4).requires_grad_(False)))
if not BUG:
    model.head = Adapted(model.head)
wrapped = replicated(model)
if BUG:
    model.head = Adapted(model.head)
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.05)


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 4, 4, 4)
    return mean_square(wrapped(x), y)


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    optimizer.step()
finish()
