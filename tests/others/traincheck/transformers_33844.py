"""Transformers 33844: attention drops out in evaluation, too, so evaluation draws numbers that training would draw."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, draw, finish, mean_square, part, start
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        drop = 0.1 if self.training or BUG else 0.0
        query, key, value = (p.unflatten(-1, (2, 8)).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        heads = nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=drop)
        return self.out(heads.transpose(1, 2).flatten(-2))


start()
model = DistributedDataParallel(Attention())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    mean_square(model(part(draw(step, 8, 6, 16))), part(draw(1000 + step, 8, 6, 4))).backward()
    optimizer.step()
    if step == 2:
        model.eval()
        with torch.no_grad():
            print("after step 3:", mean_square(model(draw(0, 8, 6, 16)), draw(1000, 8, 6, 4)).item())
        model.train()
finish()
