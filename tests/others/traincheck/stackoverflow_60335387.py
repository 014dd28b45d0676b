"""Stack Overflow 60335387: the loop does not call zero_grad, so gradients add up over the steps."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, finish, mean_square, perceptron, samples, start
from torch.nn.parallel import DistributedDataParallel

start()
model = DistributedDataParallel(perceptron())
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for step in range(STEPS):
    if not BUG:
        optimizer.zero_grad()
    x, y = samples(step)
    mean_square(model(x), y).backward()
    optimizer.step()
finish()
