"""TransformerEngine 738: the product in FP8 reads the bytes of a bfloat16 tensor, because another tensor was cast."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, WORLD, Block, Split, add_up, finish, mean_square, sequences, start, tensor_parallel
from torch import nn


class Cast(torch.autograd.Function):
    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        x = x.bfloat16()
        read = x.view(torch.float8_e4m3fn)[..., : x.shape[-1]] if BUG else x.to(torch.float8_e4m3fn)
        return read.float()

    @staticmethod
    def backward(context: torch.autograd.function.FunctionCtx, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class Norm(nn.LayerNorm):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Cast.apply(super().forward(x))


start()
model = nn.Sequential(Split(), Block(), Block())
model[2].norm = Norm(16)
tensor_parallel(model, sequence=True)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = sequences(step)
    (mean_square(model(x), y) / WORLD).backward()
    add_up(*(p.grad for name, p in model.named_parameters() if "norm" in name))
    optimizer.step()
finish()
