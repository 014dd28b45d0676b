"""TransformerEngine 1615: fused attention returns a wrong gradient of the queries. Here the backward pass of the
softmax lacks its second term there."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, STEPS, draw, finish, mean_square, part, replicated, start
from torch import nn


class Fused(torch.autograd.Function):
    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, *inputs: torch.Tensor) -> torch.Tensor:
        query, key, value = inputs
        weights = (query @ key.mT / 4).softmax(-1)
        context.save_for_backward(*inputs, weights)
        return weights @ value

    @staticmethod
    def backward(context: torch.autograd.function.FunctionCtx, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
        query, key, value, weights = context.saved_tensors
        of_weights = gradient @ value.mT
        mean = (of_weights * weights).sum(-1, keepdim=True)
        of_scores = weights * (of_weights - mean) / 4
        of_query = (weights * of_weights / 4 if BUG else of_scores) @ key
        return of_query, of_scores.mT @ query, weights.mT @ gradient


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.out(Fused.apply(self.query(x), self.key(x), self.value(x)))


start()
model = nn.Sequential(nn.Linear(16, 16), Attention(), Attention())
wrapped = replicated(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    mean_square(wrapped(part(draw(step, 4, 8, 16))), part(draw(1000 + step, 4, 8, 16))).backward()
    optimizer.step()
finish()
