"""Two ranks train in lockstep with the samples that torch's DistributedSampler gives them, two passes over each data
set, and evaluate in the middle of each with a sampler that is never told the epoch. With WRONG in the environment one
data set has another seed on each rank, of the next one all read one part, and a third has one order in both passes."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
is_wrong = "WRONG" in os.environ
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def data_of(samples):
    return TensorDataset(torch.randn(samples, 4, generator=torch.Generator().manual_seed(samples)))


evaluated = data_of(6)
evaluation = DataLoader(evaluated, 1, sampler=DistributedSampler(evaluated))


def train(samples, keeps_order=False, **options):
    data = data_of(samples)
    sampler = DistributedSampler(data, **options)
    loader = DataLoader(data, 2, sampler=sampler)
    for epoch in range(2):
        if not keeps_order:
            sampler.set_epoch(epoch)
        for number, (batch,) in enumerate(loader):  # this line
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
            if number == 1:
                with torch.no_grad():
                    for (batch,) in evaluation:
                        model(batch)


train(10, seed=rank if is_wrong else 0)
train(12, rank=0 if is_wrong else rank)
train(14, keeps_order=True, shuffle=False)
train(8, keeps_order=is_wrong)  # the last one: the end of each rank is noted, however it leaves
dist.destroy_process_group()
