"""Of two micro-batches the first is reduced instead of the last."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import contextlib

import torch
from common import BUG, OWNERS, STEPS, WORLD, finish, mean_square, regression, replicated, start, two_layers

MICRO_BATCHES = 2

start()
wrapped = replicated(two_layers())
optimizer = torch.optim.SGD(wrapped.parameters(), 0.05)
for step in range(STEPS):
    optimizer.zero_grad()
    for index in range(MICRO_BATCHES):
        reduces = (index if BUG else index + 1) % MICRO_BATCHES == 0
        with contextlib.nullcontext() if reduces or WORLD == 1 else wrapped.no_sync():
            for owner in OWNERS:
                x, y = regression(owner, 10 * step + index, 2 + owner, 3, 2)
                (mean_square(wrapped(x), y) / MICRO_BATCHES / len(OWNERS)).backward()
    optimizer.step()
finish()
