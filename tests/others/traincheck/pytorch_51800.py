"""PyTorch 51800: a model with spectral_norm is evaluated before its first pass in training mode, so its weights are
not normalised yet."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, draw, finish, mean_square, perceptron, samples, start
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import spectral_norm

start()
model = perceptron()
model[2] = spectral_norm(nn.Linear(32, 32))
wrapped = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with torch.no_grad():
    if not BUG:
        wrapped(draw(0, 16, 16))
    model.eval()
    print("before training:", mean_square(model(draw(0, 16, 16)), draw(1000, 16, 4)).item())
    model.train()
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = samples(step)
    mean_square(wrapped(x), y).backward()
    optimizer.step()
finish()
