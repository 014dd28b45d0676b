"""mmpretrain 702: the frozen stages are frozen in train() alone, which the training does not call."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, finish, mean_square, perceptron, samples, start
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Backbone(nn.Module):
    def __init__(self, frozen_stages: int) -> None:
        super().__init__()
        self.layers, self.frozen_stages = perceptron(), frozen_stages

    def train(self, mode: bool = True) -> "Backbone":
        super().train(mode)
        for parameter in self.layers[: self.frozen_stages].parameters():
            parameter.requires_grad = False
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


start()
model = Backbone(frozen_stages=1)
if not BUG:
    model.train()
wrapped = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = samples(step)
    mean_square(wrapped(x), y).backward()
    optimizer.step()
finish()
