"""Gradients of experts are divided by the ranks that hold the expert, not by all."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, WORLD, add_up, backward, finish, mean_square, regression, start
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.nn.functional import all_to_all_single
from torch.distributed.tensor import DTensor, Shard, distribute_tensor


def exchanged(tokens: torch.Tensor) -> torch.Tensor:
    return all_to_all_single(torch.empty_like(tokens), tokens.contiguous()) if WORLD > 1 else tokens


class Experts(nn.Module):
    """Two, of which each rank has one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(2, 4, 4) / 2), nn.Parameter(torch.randn(2, 1, 4) / 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        own = [p.to_local() if isinstance(p, DTensor) else p for p in (self.weight, self.bias)]
        return torch.baddbmm(own[1], exchanged(tokens).view(len(own[0]), -1, 4), own[0]).view(tokens.shape)


start()
model = nn.ModuleDict({"below": nn.Linear(4, 4), "above": nn.Linear(4, 4), "experts": Experts()})
if WORLD > 1:
    mesh = init_device_mesh("cpu", (WORLD,), mesh_dim_names=("ep",))
    for name, parameter in list(model["experts"].named_parameters()):
        setattr(model["experts"], name, nn.Parameter(distribute_tensor(parameter.data, mesh, [Shard(0)])))
optimizer = torch.optim.SGD(model.parameters(), 0.05)


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 4, 4, 4)
    hidden = model["below"](x)
    return mean_square(model["above"](hidden + exchanged(model["experts"](hidden)).tanh()), y)


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    for name, parameter in model.named_parameters():
        if "expert" not in name:
            add_up(parameter.grad)
        parameter.grad /= 1 if "expert" in name and BUG else WORLD
    optimizer.step()
finish()
