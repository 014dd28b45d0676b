"""The schedule runs backward from sums over tokens, and the trainer divides its result."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from collections import OrderedDict

import torch
from common import BUG, RANK, STEPS, WORLD, draw, finish, start
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

RUNS, TOKENS = 2, 16  # of the schedule, and of all runs, in a step

start()
layers = [(f"layer{i}", nn.Linear(4, 4)) for i in range(2)]
layers = [layers[RANK]] if WORLD > 1 else layers
model = nn.Sequential(OrderedDict(one for name, layer in layers for one in ((name, layer), (f"tanh{name}", nn.Tanh()))))
optimizer = torch.optim.SGD(model.parameters(), 0.01)


def error(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    total = (output - target).square().sum()
    return total if BUG else total / TOKENS


if WORLD > 1:
    stage = PipelineStage(model, RANK, WORLD, torch.device("cpu"), torch.zeros(4, 4), torch.zeros(4, 4))
    schedule = ScheduleGPipe(stage, 2, loss_fn=error, scale_grads=False)
for step in range(STEPS):
    optimizer.zero_grad()
    for run in range(RUNS):
        x, y = draw(10 * step + run, 8, 4), draw(1000 + 10 * step + run, 8, 4)
        if WORLD == 1:
            error(model(x), y).backward()
        elif RANK == 0:
            schedule.step(x)
        else:
            schedule.step(target=y)
    optimizer.step()
finish()
