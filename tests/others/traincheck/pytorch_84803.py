"""PyTorch 84803: data that one GPU sends to another is lost; an all-reduced bucket arrives as zeros on rank 1."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
from common import BUG, RANK, STEPS, finish, mean_square, perceptron, samples, start
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

now = 0


def lossy(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    lost = BUG and RANK == 1 and now == 2
    return allreduce_hook(group, bucket).then(lambda sum: sum.value().zero_() if lost else sum.value())


start()
model = DistributedDataParallel(perceptron())
model.register_comm_hook(dist.group.WORLD, lossy)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for now in range(STEPS):
    optimizer.zero_grad()
    x, y = samples(now)
    mean_square(model(x), y).backward()
    optimizer.step()
finish()
