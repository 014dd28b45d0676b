"""The loss of rank 1 is NaN in step 2, and rank 0 decides by its own loss whether all skip the step."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
from common import BUG, OWNERS, STEPS, WORLD, finish, mean_square, regression, replicated, start, two_layers


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 2 + owner, 3, 2)
    return mean_square(wrapped(x), y * float("nan") if owner == 1 and step == 1 else y)


start()
wrapped = replicated(two_layers())
optimizer = torch.optim.SGD(wrapped.parameters(), 0.05)
for step in range(STEPS):
    optimizer.zero_grad()
    mean = sum(loss(owner, step) for owner in OWNERS) / len(OWNERS)
    is_bad = torch.tensor(float(not mean.isfinite()))
    if BUG:
        dist.broadcast(is_bad, 0)
    elif WORLD > 1:
        dist.all_reduce(is_bad, dist.ReduceOp.MAX)
    if not is_bad:
        mean.backward()
    optimizer.step()  # without gradients it changes nothing
finish()
