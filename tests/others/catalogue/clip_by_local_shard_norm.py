"""Each rank clips the shards of FSDP2 by their own norm."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, backward, finish, mean_square, regression, sharded, start, two_layers
from torch import nn

start()
model = two_layers(16, 16, 16)
sharded(model)
optimizer = torch.optim.SGD(model.parameters(), 0.05)


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 4, 16, 16)
    return mean_square(model(x), y)


def clip_shards() -> None:
    shards = [parameter.grad.to_local() for parameter in model.parameters()]
    norm = nn.utils.get_total_norm(shards)
    for shard in shards:
        shard.mul_(0.01 / (norm + 1e-6))


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    if BUG:
        clip_shards()
    else:
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    optimizer.step()
finish()
