"""PyTorch forum 84911: all layers but the batch norms are frozen, and the last one, too."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, finish, mean_square, samples, start
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.bn, self.fc = nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.relu(self.bn(self.body(x))))


start()
model = Net()
for name, parameter in model.named_parameters():
    parameter.requires_grad = "bn" in name or (name.startswith("fc") and not BUG)
wrapped = DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = samples(step)
    mean_square(wrapped(x), y).backward()
    optimizer.step()
finish()
