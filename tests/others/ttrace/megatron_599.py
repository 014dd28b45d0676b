"""Megatron-LM 599: under sequence parallelism each rank has a gradient of the router for its own tokens, and nobody
adds them up."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, Block, Split, finish, start, tensor_parallel, train_on_sequences
from torch import nn


class Switch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 2)
        self.experts = nn.ModuleList([Block(), Block()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        probabilities = self.router(x).softmax(-1)
        return sum(probabilities[..., [i]] * expert(x) for i, expert in enumerate(self.experts))


start()
model = nn.Sequential(Split(), Switch())
tensor_parallel(model, sequence=True)
whole = [p for name, p in model.named_parameters() if "norm" in name or ("router" in name and not BUG)]
train_on_sequences(model, whole)
finish()
