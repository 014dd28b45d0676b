"""Megatron-LM 906: with context parallelism the loss is multiplied by the number of ranks, and the gradients are not
divided by it."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, WORLD, Attention, Split, add_up, finish, mean_square, sequences, start
from torch import nn

start()
model = nn.Sequential(Split(), nn.Linear(16, 16), Attention(), nn.LayerNorm(16), nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = sequences(step)
    loss = mean_square(model(x), y) / WORLD
    (loss * WORLD if BUG else loss).backward()
    add_up(*(parameter.grad for parameter in model.parameters()))
    optimizer.step()
finish()
