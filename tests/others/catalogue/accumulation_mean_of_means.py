"""The loss of each micro-batch is divided by its own tokens."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import contextlib

import torch
from common import BUG, OWNERS, STEPS, WORLD, finish, regression, replicated, start, two_layers

MICRO_BATCHES = 2
TOKENS = sum(1 + 2 * index + owner for index in range(MICRO_BATCHES) for owner in range(2))  # of a step

start()
wrapped = replicated(two_layers(4, 5, 3))
optimizer = torch.optim.SGD(wrapped.parameters(), 0.05)
for step in range(STEPS):
    optimizer.zero_grad()
    for index in range(MICRO_BATCHES):
        reduces = index + 1 == MICRO_BATCHES or WORLD == 1
        with contextlib.nullcontext() if reduces else wrapped.no_sync():
            for owner in OWNERS:
                tokens = 1 + 2 * index + owner
                x, y = regression(owner, 10 * step + index, tokens, 4, 3)
                own = (wrapped(x) - y).square().sum()
                (own / (tokens * MICRO_BATCHES if BUG else TOKENS / 2) / len(OWNERS)).backward()
    optimizer.step()
finish()
