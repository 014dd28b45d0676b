"""DeepSpeed 5794: each rank takes its own capacity of experts, so ranks call all_to_all with other sizes and wait."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
from common import BUG, STEPS, WORLD, finish, mean_square, reduce_gradients, samples, start
from torch import nn
from torch.distributed.nn.functional import all_to_all_single


class Experts(nn.Module):
    """One expert per rank; tokens travel in slots, as many as the fullest expert has tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.expert = nn.Linear(16, WORLD, bias=False), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        probabilities = self.gate(x).softmax(-1)
        weight, chosen = probabilities.max(-1)
        capacity = torch.bincount(chosen, minlength=WORLD).max()
        if not BUG:
            dist.all_reduce(capacity, dist.ReduceOp.MAX)
        slot = (nn.functional.one_hot(chosen, WORLD).cumsum(0) - 1).gather(1, chosen[:, None])[:, 0]
        sent = x.new_zeros(WORLD, int(capacity), 16).index_put((chosen, slot), x)
        arrived = all_to_all_single(torch.empty_like(sent), sent)
        back = all_to_all_single(torch.empty_like(sent), self.expert(arrived))
        return weight[:, None] * back[chosen, slot]


start()
model = nn.Sequential(Experts(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = samples(step)
    mean_square(model(x), y).backward()
    reduce_gradients(model)
    optimizer.step()
finish()
