"""The sampler of each rank is made for one process, and all are seeded alike."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, backward, draw, finish, mean_square, replicated, start, two_layers
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

start()
wrapped = replicated(two_layers())
optimizer = torch.optim.SGD(wrapped.parameters(), 0.05)
samples = TensorDataset(draw(0, 12, 3), draw(1, 12, 2))


def batch(owner: int, step: int) -> list[torch.Tensor]:
    sampler = DistributedSampler(samples, 1 if BUG else 2, 0 if BUG else owner, seed=5)
    sampler.set_epoch(step // 2)
    return list(DataLoader(samples, batch_size=3, sampler=sampler))[step % 2]


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = batch(owner, step)
    return mean_square(wrapped(x), y)


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    optimizer.step()
finish()
