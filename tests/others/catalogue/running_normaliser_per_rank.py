"""The running mean and variance of the inputs are those of each rank."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
from common import BUG, OWNERS, STEPS, WORLD, backward, finish, mean_square, reduce_gradients, regression, start
from common import two_layers
from torch import nn


def merged(parts: torch.Tensor) -> torch.Tensor:
    """Number, mean and variance of all rows from those of each part."""
    counts, means, variances = parts[:, :1], parts[:, 1:4], parts[:, 4:]
    count = counts.sum(0)
    mean = (counts * means).sum(0) / count
    return torch.cat([count, mean, (counts * (variances + (means - mean).square())).sum(0) / count])


class Normalised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name, value in (("count", torch.zeros(1)), ("mean", torch.zeros(3)), ("variance", torch.ones(3))):
            self.register_buffer(name, value)
        self.layers = two_layers()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers((x - self.mean) / (self.variance + 1e-5).sqrt())

    def add(self, parts: torch.Tensor) -> None:
        total = merged(torch.stack([torch.cat([self.count, self.mean, self.variance]), merged(parts)]))
        for buffer, value in zip((self.count, self.mean, self.variance), total.split([1, 3, 3]), strict=True):
            buffer.copy_(value)


def moments(rows: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.tensor([float(len(rows))]), rows.mean(0), rows.var(0, correction=0)])


def batch(owner: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = regression(owner, step, 2 + owner, 3, 2)
    return x + owner, y


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = batch(owner, step)
    return mean_square(model(x), y)


start()
model = Normalised()
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for step in range(STEPS):
    parts = [moments(batch(owner, step)[0]) for owner in OWNERS]
    if WORLD > 1 and not BUG:
        own, parts = parts[0], [torch.empty_like(parts[0]) for _ in range(WORLD)]
        dist.all_gather(parts, own)
    model.add(torch.stack(parts))
    optimizer.zero_grad()
    backward(loss, step)
    reduce_gradients(model)
    optimizer.step()
finish()
