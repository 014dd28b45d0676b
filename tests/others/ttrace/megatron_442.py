"""Megatron-LM 442: the ranks of a tensor-parallel group scale to FP8 by their own largest value, because the largest
is taken over the data-parallel group."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
from common import BUG, WORLD, Block, Split, StraightThrough, finish, start, tensor_parallel, train_on_sequences
from torch import nn


class Quantise(StraightThrough):
    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        largest = x.abs().max()
        if WORLD > 1 and not BUG:
            dist.all_reduce(largest, dist.ReduceOp.MAX)
        return (x * (448 / largest)).to(torch.float8_e4m3fn).float() * (largest / 448)


class Norm(nn.LayerNorm):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Quantise.apply(super().forward(x))


start()
model = nn.Sequential(Split(), Block(), Block())
for block in model[1:]:
    block.norm = Norm(16)
tensor_parallel(model, sequence=True)
train_on_sequences(model, [p for name, p in model.named_parameters() if "norm" in name])
finish()
