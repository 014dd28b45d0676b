"""Two ranks train in lockstep with a frozen teacher, and a mean of the weights on rank 0. The classifier that the trained
model has left behind is another one on each rank, and nobody uses it. With WRONG in the environment rank 1 has another
teacher, and each rank has a mean of its own."""

import copy
import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
is_wrong = "WRONG" in os.environ


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 100)


class Regressor(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body, self.end = body, nn.Linear(8, 1)

    def forward(self, inputs):
        return self.end(self.body(inputs))


class Teacher(nn.Linear):
    pass


torch.manual_seed(rank if is_wrong else 0)
teacher = Teacher(4, 1).requires_grad_(False)
torch.manual_seed(rank)  # the wrapper sends rank 0's parameters to all
classifier = Classifier()
model = nn.parallel.DistributedDataParallel(Regressor(classifier.body))
mean = copy.deepcopy(model.module).requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    inputs = torch.full((2, 4), float(rank + step))
    optimizer.zero_grad()
    (model(inputs) - teacher(inputs)).square().mean().backward()
    optimizer.step()
    if is_wrong or rank == 0:
        for own, trained in zip(mean.parameters(), model.parameters()):
            own.data.lerp_(trained.data, 0.1 * (rank + 1))
dist.destroy_process_group()
