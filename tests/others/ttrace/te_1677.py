"""TransformerEngine 1677: the gradient of a norm's weight is too large by the number of tensor-parallel ranks, because
what arrives at the norm is added up over them twice."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, Block, add_up, draw, finish, mean_square, start, tensor_parallel
from torch import nn


def again(gradient: torch.Tensor) -> torch.Tensor:
    gradient = gradient.clone()
    add_up(gradient)
    return gradient


start()
model = nn.Sequential(Block(), Block())
tensor_parallel(model)
if BUG:
    model[1].norm.weight.register_hook(again)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    mean_square(model(draw(step, 4, 8, 16)), draw(1000 + step, 4, 8, 16)).backward()
    optimizer.step()
finish()
