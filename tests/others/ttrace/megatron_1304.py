"""Megatron-LM 1304: the number of layers is divided by the number of stages, and the remaining layers are nowhere."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, RANK, STEPS, WORLD, Pipeline, draw, finish, mean_square, start
from torch import nn

LAYERS = 5


class Stage(nn.Module):
    def __init__(self, first: int, last: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers = [nn.Linear(12 if i else 16, 12) for i in range(LAYERS)]
        self.layers = nn.ModuleDict({str(i): layers[i] for i in range(first, last)})
        if RANK == WORLD - 1:
            self.head = nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers.values():
            x = torch.tanh(layer(x))
        return self.head(x) if RANK == WORLD - 1 else x


start()
length = LAYERS // WORLD
rest = RANK == WORLD - 1 and not BUG
stage = Stage(RANK * length, LAYERS if rest else (RANK + 1) * length)
pipeline = Pipeline(stage, hidden=12) if WORLD > 1 else None
optimizer = torch.optim.SGD(stage.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    if pipeline:
        pipeline.step(step)
    else:
        mean_square(stage(draw(step, 16, 16)), draw(1000 + step, 16, 4)).backward()
    optimizer.step()
finish()
