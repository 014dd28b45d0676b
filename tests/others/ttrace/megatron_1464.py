"""Megatron-LM 1464: attention under context parallelism returns wrong gradients of its inputs. Here the gradients of
keys and values that other ranks used are left out."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
from common import BUG, STEPS, WORLD, Split, add_up, finish, mean_square, part, sequences, start
from torch import nn


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, tokens: torch.Tensor) -> torch.Tensor:
        parts = [torch.empty_like(tokens) for _ in range(WORLD)]
        if WORLD > 1:
            dist.all_gather(parts, tokens.contiguous())
        return torch.cat(parts, 1) if WORLD > 1 else tokens.clone()

    @staticmethod
    def backward(context: torch.autograd.function.FunctionCtx, gradient: torch.Tensor) -> torch.Tensor:
        gradient = gradient.contiguous()
        if not BUG:
            add_up(gradient)
        return part(gradient, 1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        key, value = Gather.apply(self.key(x)), Gather.apply(self.value(x))
        return x + self.out(nn.functional.scaled_dot_product_attention(self.query(x), key, value))


start()
model = nn.Sequential(Split(), nn.Linear(16, 16), Attention(), Attention())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = sequences(step)
    (mean_square(model(x), y) / WORLD).backward()
    add_up(*(parameter.grad for parameter in model.parameters()))
    optimizer.step()
finish()
