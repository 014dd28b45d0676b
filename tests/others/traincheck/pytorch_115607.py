"""PyTorch 115607: a compiled step lacks a guard. In a step without gradients it is compiled again, to nothing, and this
code is kept. torch 2.11 has the guard, so the job keeps such a step itself."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, finish, mean_square, perceptron, samples, start
from torch.nn.parallel import DistributedDataParallel


class CompiledAdamW(torch.optim.AdamW):
    has_update = True

    def step(self, closure: None = None) -> None:
        has_gradients = any(p.grad is not None for group in self.param_groups for p in group["params"])
        self.has_update = has_gradients and (self.has_update or not BUG)
        if self.has_update:
            super().step(closure)


start()
model = DistributedDataParallel(perceptron())
optimizer = CompiledAdamW(model.parameters(), 1e-2)
for step in range(STEPS):
    optimizer.zero_grad()
    if step != 2:
        x, y = samples(step)
        mean_square(model(x), y).backward()
    optimizer.step()
finish()
