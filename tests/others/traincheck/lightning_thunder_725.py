"""lightning-thunder 725: autocast no longer reaches one function of its region, which computes in float32."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, finish, mean_square, perceptron, samples, start
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Uncast(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=not BUG):
            return super().forward(x.float())


start()
model = perceptron()
model[2].__class__ = Uncast
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = samples(step)
    with torch.autocast("cpu", torch.bfloat16):
        loss = mean_square(model(x), y)
    loss.backward()
    optimizer.step()
finish()
