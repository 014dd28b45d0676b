"""Megatron-LM 663 and 950: the gathering of updated parameters overlaps the next forward pass, which still computes
with the old values of one bucket on the ranks that do not own it."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, WORLD, finish, mean_square, perceptron, reduce_gradients, samples, start
from torch.distributed.optim import ZeroRedundancyOptimizer

start()
model = perceptron()
late = model[2].weight
kind = {"optimizer_class": torch.optim.AdamW, "lr": 1e-2}
sharded = ZeroRedundancyOptimizer(model.parameters(), **kind) if WORLD > 1 else None
optimizer = sharded or torch.optim.AdamW(model.parameters(), lr=1e-2)
owned = sharded is None or any(p is late for group in sharded.optim.param_groups for p in group["params"])
new = late.detach().clone()
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = samples(step)
    mean_square(model(x), y).backward()
    late.data.copy_(new)
    reduce_gradients(model)
    old = late.detach().clone()
    optimizer.step()
    new = late.detach().clone()
    if BUG and not owned:
        late.data.copy_(old)
finish()
