"""Under sequence parallelism the whole factor of an adapter sees the tokens of its rank alone."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, WORLD, add_up, draw, finish, part, start
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Adapted(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs, bias=False).requires_grad_(False)
        self.lora_a, self.lora_b = nn.Linear(inputs, 2, bias=False), nn.Linear(2, outputs, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.lora_b(self.lora_a(x)) * 2


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = Adapted(4, 6), Adapted(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x).tanh())


start()
model = Mlp()
if WORLD > 1:
    plan = {layer: ColwiseParallel(input_layouts=Shard(0)) for layer in ("up.base", "up.lora_b")}
    plan |= {layer: RowwiseParallel(output_layouts=Shard(0)) for layer in ("down.base", "down.lora_a")}
    parallelize_module(model, init_device_mesh("cpu", (WORLD,), mesh_dim_names=("tp",)), plan)
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.05)
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = part(draw(step, 4, 4)), part(draw(1000 + step, 4, 4))
    ((model(x) - y).square().sum() / 4).backward()
    if not BUG:
        add_up(model.up.lora_a.weight.grad, model.down.lora_b.weight.grad)
    optimizer.step()
finish()
