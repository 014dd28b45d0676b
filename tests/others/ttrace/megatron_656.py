"""Megatron-LM 656: embedding and head are copies of one weight on the first and the last stage, and come apart: the
gradients of the copies are not added up."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, RANK, STEPS, WORLD, TiedPipeline, add_up, finish, start, tokens

start()
pipeline = TiedPipeline(RANK, WORLD)
optimizer = torch.optim.SGD(pipeline.model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    pipeline.step(tokens(step))
    if not BUG:
        add_up(pipeline.model.tied().grad)
    optimizer.step()
finish()
