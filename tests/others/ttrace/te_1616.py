"""TransformerEngine 1616: the gathering of inputs overlaps the gradient of the weight, which reads the buffer too early
and finds the tokens of other ranks that it held before."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
from common import BUG, RANK, STEPS, WORLD, Split, add_up, finish, mean_square, part, sequences, start
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

buffer = torch.zeros(4, 8, 16)


def gather(tokens: torch.Tensor, *, overlap: bool = False) -> torch.Tensor:
    """All tokens; with `overlap` a reader gets the buffer before those of other ranks have arrived."""
    parts = list(buffer.chunk(WORLD, 1))
    before = buffer.clone()
    arriving = [torch.empty_like(tokens) for _ in parts]
    dist.all_gather(arriving, tokens.contiguous())
    for place, arrived in zip(parts, arriving, strict=True):
        place.copy_(arrived)
    before.chunk(WORLD, 1)[RANK].copy_(tokens)
    return before if overlap else buffer.clone()


class Product(torch.autograd.Function):
    """Column-parallel under sequence parallelism: it gathers its input in the forward and in the backward pass."""

    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, *inputs: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(*inputs)
        return gather(inputs[0]) @ inputs[1].T

    @staticmethod
    def backward(context: torch.autograd.function.FunctionCtx, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
        tokens, weight = context.saved_tensors
        of_weight = gradient.flatten(0, 1).T @ gather(tokens, overlap=BUG).flatten(0, 1)
        of_tokens = gradient @ weight
        add_up(of_tokens)
        return part(of_tokens, 1), of_weight


class Column(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Product.apply(x, self.weight.to_local()) if WORLD > 1 else super().forward(x)


class Row(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return dist.nn.functional.all_reduce(x @ self.weight.to_local().T) if WORLD > 1 else super().forward(x)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = Column(16, 32, bias=False), Row(32, 16, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + part(self.down(torch.relu(self.up(x))), 1)


start()
model = nn.Sequential(Split(), Layer(), Layer())
if WORLD > 1:
    mesh = init_device_mesh("cpu", (WORLD,), mesh_dim_names=("tp",))
    for layer in model[1:]:
        layer.up.weight = nn.Parameter(distribute_tensor(layer.up.weight.data, mesh, [Shard(0)]))
        layer.down.weight = nn.Parameter(distribute_tensor(layer.down.weight.data, mesh, [Shard(1)]))
optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=False)
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = sequences(step)
    (mean_square(model(x), y) / WORLD).backward()
    optimizer.step()
finish()
