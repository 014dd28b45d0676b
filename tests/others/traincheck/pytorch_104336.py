"""PyTorch 104336: a model in DDP is moved to another device and back, and DDP's hooks are lost with the old
gradient accumulators. Here its dtype is changed and back, which does the same on one device."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, finish, mean_square, perceptron, samples, start
from torch.nn.parallel import DistributedDataParallel

start()
model = perceptron()
wrapped = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(STEPS):
    if step == 2:
        wrapped.double().float()
        if not BUG:
            wrapped = DistributedDataParallel(model)
    optimizer.zero_grad()
    x, y = samples(step)
    mean_square(wrapped(x), y).backward()
    optimizer.step()
finish()
