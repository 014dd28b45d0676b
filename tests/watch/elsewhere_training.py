"""A rank that trains in another process as well: elsewhere_training.py WAY

fork     a process that it forked after a step trains, and it does not
helper   such a process trains something of its own, and the rank trains on
exec     it takes its own place after two steps, and trains on"""

import os
import sys

import torch

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def step(count=1):
    for _ in range(count):
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()


way = sys.argv[1]
if way == "exec":
    step(2)
    os.execv(sys.executable, [sys.executable, __file__, "again"])
step()
if way in ("fork", "helper"):
    process = os.fork()
    if process == 0:
        step(2)
        os._exit(0)
    os.waitpid(process, 0)
if way == "helper":
    step(2)
