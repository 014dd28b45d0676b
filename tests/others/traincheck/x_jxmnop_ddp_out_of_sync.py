"""x.com, jxmnop: some steps of a trainer call the model inside DDP, others DDP itself."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, finish, mean_square, perceptron, samples, start
from torch.nn.parallel import DistributedDataParallel

start()
wrapped = DistributedDataParallel(perceptron())
optimizer = torch.optim.SGD(wrapped.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    model = wrapped.module if BUG and step >= 2 else wrapped
    x, y = samples(step)
    mean_square(model(x), y).backward()
    optimizer.step()
finish()
