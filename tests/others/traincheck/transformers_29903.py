"""Transformers 29903: the training is right, and the checkpoint that it writes is not: one weight is an old one.

The second argument is the folder of the checkpoint.
"""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
import torch.distributed.checkpoint as dcp
from common import BUG, RANK, STEPS, finish, mean_square, perceptron, samples, start
from torch.nn.parallel import DistributedDataParallel

start()
model = perceptron()
old = {name: weight.clone() for name, weight in model.state_dict().items()}
wrapped = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    x, y = samples(step)
    mean_square(wrapped(x), y).backward()
    optimizer.step()
weights = model.state_dict()
if BUG:
    weights["2.weight"] = old["2.weight"]
if RANK == 0:
    dcp.save(weights, checkpoint_id=sys.argv[2], no_dist=True)
finish()
