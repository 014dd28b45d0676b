"""Transformers 33455: the trainer computes too small a number of steps, and stops early."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, WORLD, finish, mean_square, perceptron, start
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS = 2

start()
data = TensorDataset(torch.randn(64, 16), torch.randn(64, 4))
sampler = DistributedSampler(data, shuffle=False) if WORLD > 1 else None
loader = DataLoader(data, batch_size=8, sampler=sampler)
steps = EPOCHS * len(loader) // (WORLD if BUG else 1)  # the loader's length is that of a rank already
model = DistributedDataParallel(perceptron())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
batches = (batch for _ in range(EPOCHS) for batch in loader)
for _, (x, y) in zip(range(steps), batches, strict=False):
    optimizer.zero_grad()
    mean_square(model(x), y).backward()
    optimizer.step()
finish()
