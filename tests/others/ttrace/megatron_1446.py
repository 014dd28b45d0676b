"""Megatron-LM 1446: with tensor and sequence parallelism the gradients of the final norm are not added up."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, WORLD, Block, Split, add_up, finish, mean_square, sequences, start, tensor_parallel
from torch import nn

start()
model = nn.Sequential(Split(), Block(), Block())
model.add_module("final_norm", nn.LayerNorm(16))
tensor_parallel(model, sequence=True)
whole = [p for name, p in model.named_parameters() if "norm" in name and not (BUG and "final" in name)]
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = sequences(step)
    (mean_square(model(x), y) / WORLD).backward()
    add_up(*(parameter.grad for parameter in whole))
    optimizer.step()
finish()
