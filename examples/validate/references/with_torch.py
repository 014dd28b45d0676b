"""torchrun --nproc-per-node 2 with_torch.py; the reference: python with_torch.py."""

import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

WHOLE_BATCH = 16  # of all ranks

rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
data = TensorDataset(torch.randn(72, 8), torch.randn(72, 1))
sampler = DistributedSampler(data, num_replicas=world, rank=rank, seed=0, drop_last=True)
loader = DataLoader(data, batch_size=WHOLE_BATCH // world, sampler=sampler, drop_last=True)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
wrapped = torch.nn.parallel.DistributedDataParallel(model) if world > 1 else model
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(wrapped(x), y).backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
