"""What `--data` takes on the job's thread: the median microseconds of forward passes and of steps that do nothing else.

    lockstep watch --data -- python cost_of_samples.py tokens|images MODULES     then without --data

tokens: two tensors of 8 rows of 1024 numbers of 64 bits; images: 32 of 3 x 224 x 224 in float32.
"""

import statistics
import sys
import time

import torch
from torch import nn

STEPS = 300

kind, modules = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.blocks = nn.ModuleList(nn.Identity() for _ in range(modules))

    def forward(self, *batch):
        hidden = self.weight
        for block in self.blocks:
            hidden = block(hidden)
        return hidden.sum()


if kind == "tokens":
    batch = [torch.randint(0, 50000, (8, 1024), generator=torch.Generator().manual_seed(seed)) for seed in (0, 1)]
else:
    batch = [torch.randn(32, 3, 224, 224, generator=torch.Generator().manual_seed(0))]
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
forward, step = [], []
for _ in range(STEPS):
    times = [time.perf_counter()]
    loss = model(*batch)
    times.append(time.perf_counter())
    loss.backward()
    times.append(time.perf_counter())
    optimizer.step()
    times.append(time.perf_counter())
    forward.append(times[1] - times[0])
    step.append(times[3] - times[2])
    optimizer.zero_grad()
print("%s, %d modules: forward %.0f us, step %.0f us"
      % (kind, modules, 1e6 * statistics.median(forward), 1e6 * statistics.median(step)))
