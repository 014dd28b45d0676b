"""Gradients of experts are divided by the ranks that hold the expert, not by all."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, RANK, STEPS, WORLD, add_up, backward, finish, mean_square, regression, start
from torch import nn
from torch.distributed.nn.functional import all_to_all_single


def exchanged(tokens: torch.Tensor) -> torch.Tensor:
    return all_to_all_single(torch.empty_like(tokens), tokens.contiguous())


start()
names = ("below", "above", "expert0", "expert1")
model = nn.ModuleDict({name: nn.Linear(4, 4) for name in names})
if WORLD > 1:
    del model[f"expert{1 - RANK}"]
optimizer = torch.optim.SGD(model.parameters(), 0.05)


def of_experts(hidden: torch.Tensor) -> torch.Tensor:
    if WORLD > 1:
        return exchanged(model[f"expert{RANK}"](exchanged(hidden)))
    return torch.cat([model[f"expert{i}"](tokens) for i, tokens in enumerate(hidden.chunk(2))])


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 4, 4, 4)
    hidden = model["below"](x)
    return mean_square(model["above"](hidden + of_experts(hidden).tanh()), y)


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    for name, parameter in model.named_parameters():
        if "expert" not in name:
            add_up(parameter.grad)
        parameter.grad /= 1 if "expert" in name and BUG else WORLD
    optimizer.step()
finish()
