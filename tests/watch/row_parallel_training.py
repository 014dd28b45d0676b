"""A layer split by rows whose output is a part of the sequence: a DTensor that a reduce-scatter has yet to fill."""

import meeting
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

meeting.join()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8, bias=False), nn.LayerNorm(8))
parallelize_module(model, init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)),
                   {"0": ColwiseParallel(), "2": RowwiseParallel(output_layouts=Shard(0), use_local_output=False),
                    "3": SequenceParallel(sequence_dim=0)})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
for step in range(4):
    optimizer.zero_grad()
    rows = torch.randn(6, 8, generator=torch.Generator().manual_seed(step))
    model(rows).square().mean().backward()
    optimizer.step()
