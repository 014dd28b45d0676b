"""Each rank balances its experts by the tokens of its own batch."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, add_up, backward, finish, mean_square, reduce_gradients, regression, start
from torch import nn


class RoutedExperts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("expert_bias", torch.zeros(2))
        self.router = nn.Linear(4, 2, bias=False)
        self.router.weight.data = torch.tensor([[0.1, 0, 0, 0], [-0.1, 0, 0, 0]])
        self.expert0, self.expert1 = nn.Linear(4, 4), nn.Linear(4, 4)
        self.counts = torch.zeros(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        probabilities = self.router(x).softmax(-1)
        chosen = nn.functional.one_hot((probabilities.detach() + self.expert_bias).argmax(-1), 2)
        self.counts += chosen.sum(0)
        weights = probabilities * chosen
        return weights[:, [0]] * self.expert0(x) + weights[:, [1]] * self.expert1(x)


start()
model = RoutedExperts()
optimizer = torch.optim.SGD(model.parameters(), 0.05)


def loss(owner: int, step: int) -> torch.Tensor:
    x, y = regression(owner, step, 4, 4, 4)
    x[:, 0] = 1 if owner == 0 else -1
    x[-1, 0] = -1
    return mean_square(model(x), y)


for step in range(STEPS):
    optimizer.zero_grad()
    backward(loss, step)
    reduce_gradients(model)
    optimizer.step()
    if not BUG:
        add_up(model.counts)
    model.expert_bias += (model.counts.mean() - model.counts).sign()
    model.counts.zero_()
finish()
