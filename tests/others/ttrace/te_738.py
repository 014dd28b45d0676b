"""TransformerEngine 738: the product in FP8 reads the bytes of a bfloat16 tensor, because another tensor was cast."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, Block, Split, StraightThrough, finish, start, tensor_parallel, train_on_sequences
from torch import nn


class Cast(StraightThrough):
    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        x = x.bfloat16()
        read = x.view(torch.float8_e4m3fn)[..., : x.shape[-1]] if BUG else x.to(torch.float8_e4m3fn)
        return read.float()


class Norm(nn.LayerNorm):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Cast.apply(super().forward(x))


start()
model = nn.Sequential(Split(), Block(), Block())
model[2].norm = Norm(16)
tensor_parallel(model, sequence=True)
train_on_sequences(model, [p for name, p in model.named_parameters() if "norm" in name])
finish()
