"""Megatron-LM 1464: attention under context parallelism returns wrong gradients of its inputs. Here the gradients of
keys and values that other ranks used are left out."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, WORLD, Attention, Gather, Split, add_up, finish, mean_square, sequences, start
from torch import nn

start()
Gather.adds_up = not BUG
model = nn.Sequential(Split(), nn.Linear(16, 16), Attention(), Attention())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = sequences(step)
    (mean_square(model(x), y) / WORLD).backward()
    add_up(*(parameter.grad for parameter in model.parameters()))
    optimizer.step()
finish()
