"""Megatron-LM 290: with activation checkpoints of several layers each layer of a chunk gets the input of the chunk."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, Block, draw, finish, mean_square, part, replicated, start
from torch import nn
from torch.utils.checkpoint import checkpoint

CHUNK = 2


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(4))

    def chunk(self, x: torch.Tensor, start: int) -> torch.Tensor:
        output = x
        for layer in self.layers[start : start + CHUNK]:
            output = layer(x if BUG else output)
        return output

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for start in range(0, len(self.layers), CHUNK):
            x = checkpoint(self.chunk, x, start, use_reentrant=False)
        return x


start()
model = Checkpointed()
wrapped = replicated(model, find_unused_parameters=BUG)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    mean_square(wrapped(part(draw(step, 4, 8, 16))), part(draw(1000 + step, 4, 8, 16))).backward()
    optimizer.step()
finish()
