"""The last window of an epoch has 2 of 4 micro-batches, and is divided by 4."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import contextlib

import torch
from common import BUG, OWNERS, STEPS, WORLD, finish, mean_square, regression, replicated, start, two_layers

WINDOW, LAST_WINDOW = 4, 2

start()
wrapped = replicated(two_layers())
optimizer = torch.optim.SGD(wrapped.parameters(), 0.05)
for step in range(STEPS):
    optimizer.zero_grad()
    count = LAST_WINDOW if step % 2 else WINDOW
    for index in range(count):
        with contextlib.nullcontext() if index + 1 == count or WORLD == 1 else wrapped.no_sync():
            for owner in OWNERS:
                x, y = regression(owner, 10 * step + index, 2 + owner, 3, 2)
                (mean_square(wrapped(x), y) / (WINDOW if BUG else count) / len(OWNERS)).backward()
    optimizer.step()
finish()
