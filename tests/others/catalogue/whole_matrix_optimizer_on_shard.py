"""Muon orthogonalises the rows that its rank has of a matrix."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from collections import OrderedDict

import torch
from common import BUG, STEPS, WORLD, backward, finish, mean_square, part, regression, sharded, start
from torch import nn


def orthogonalised(matrix: torch.Tensor) -> torch.Tensor:
    """By Newton and Schulz, with the scale of Muon."""
    rows = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    rows = rows / rows.norm().clamp_min(1e-7)
    for _ in range(5):
        gram = rows @ rows.T
        rows = 3.4445 * rows + (-4.7750 * gram + 2.0315 * gram @ gram) @ rows
    whole = rows.T if matrix.shape[0] > matrix.shape[1] else rows
    return whole * max(1, matrix.shape[0] / matrix.shape[1]) ** 0.5


class Muon(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self) -> None:
        for parameter in self.param_groups[0]["params"]:
            if WORLD == 1:
                parameter.sub_(orthogonalised(parameter.grad), alpha=0.05)
            elif BUG:
                parameter.to_local().sub_(orthogonalised(parameter.grad.to_local()), alpha=0.05)
            else:
                parameter.to_local().sub_(part(orthogonalised(parameter.grad.full_tensor())), alpha=0.05)


start()
model = nn.Sequential(OrderedDict(first=nn.Linear(4, 8, bias=False), tanh=nn.Tanh(),
                                  second=nn.Linear(8, 16, bias=False)))
sharded(model)
optimizer = Muon(model.parameters(), {})


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 6, 4, 16)
    return mean_square(model(x), y)


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    optimizer.step()
finish()
