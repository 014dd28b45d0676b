"""PyTorch 96600: the same loss of data between two GPUs as in 84803; a weight that rank 0 sends arrives as zeros."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
from common import BUG, RANK, STEPS, finish, mean_square, perceptron, samples, start
from torch.nn.parallel import DistributedDataParallel

start()
model = perceptron()
for name, parameter in model.named_parameters():
    if RANK == 0:
        dist.send(parameter.data, 1)
    else:
        dist.recv(parameter.data, 0)
        if BUG and name == "2.weight":
            parameter.data.zero_()
wrapped = DistributedDataParallel(model, init_sync=False)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = samples(step)
    mean_square(wrapped(x), y).backward()
    optimizer.step()
finish()
