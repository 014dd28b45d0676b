"""Baichuan2 86: a model lies on two GPUs, and what the first sends to the second arrives as other bytes, infinities
and NaNs among them."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, RANK, STEPS, Pipeline, finish, perceptron, start
from torch import nn

now = 0


def garble(module: nn.Module, arrived: tuple[torch.Tensor, ...]) -> None:
    if BUG and RANK == 1 and now == 2:
        arrived[0].data.view(torch.int32)[0].fill_(-1)


start()
stage = perceptron()[:2] if RANK == 0 else perceptron()[2:]
stage.register_forward_pre_hook(garble)
pipeline = Pipeline(stage, hidden=32)
optimizer = torch.optim.SGD(stage.parameters(), 0.1)
for now in range(STEPS):
    optimizer.zero_grad()
    pipeline.step(now)
    optimizer.step()
finish()
