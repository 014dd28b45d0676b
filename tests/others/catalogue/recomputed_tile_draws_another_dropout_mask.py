"""A checkpoint does not restore the generator, and the second run draws another mask."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, backward, finish, mean_square, regression, replicated, start
from torch import nn
from torch.utils.checkpoint import checkpoint


class SwiGlu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(*sizes, bias=False) for sizes in ((8, 16), (8, 16), (16, 8)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.below, self.mlp, self.dropout, self.above = nn.Linear(8, 8), SwiGlu(), nn.Dropout(0.25), nn.Linear(8, 8)

    def tile(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.mlp(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tiles = self.below(x).chunk(2)
        return self.above(torch.cat([checkpoint(self.tile, tile, use_reentrant=False, preserve_rng_state=not BUG)
                                     for tile in tiles]))


start()
wrapped = replicated(Model())
optimizer = torch.optim.SGD(wrapped.parameters(), 0.05)


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 8, 8, 8)
    torch.manual_seed(100 * step + owner)
    return mean_square(wrapped(x), y)


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    optimizer.step()
finish()
