"""The train.py of README.md's table: a small training with one symptom, train.py SYMPTOM. It trains on one process, or on
the ranks that a launcher starts."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SYMPTOM = sys.argv[1]
RANK, WORLD_SIZE = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def samples_of(step):
    samples = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))
    if SYMPTOM == "not finite" and step == 4:
        samples *= float("inf")
    return samples if SYMPTOM == "same samples" else samples[RANK::WORLD_SIZE]


def train(model, trained, reduce):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, 7):
        if SYMPTOM == "hang" and step == 4 and RANK == 1:
            time.sleep(600)
        if SYMPTOM == "killed" and step == 4 and RANK == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        trained(samples_of(step)).pow(2).mean().backward()
        reduce(model)
        optimizer.step()


def all_reduce(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        if SYMPTOM != "sum":
            parameter.grad /= WORLD_SIZE


def main():
    torch.manual_seed(0)
    middle = nn.BatchNorm1d(16) if SYMPTOM == "buffers" else nn.ReLU()
    model = nn.Sequential(nn.Linear(8, 16), middle, nn.Linear(16, 4))
    trained, reduce = model, lambda model: None
    if WORLD_SIZE > 1:
        dist.init_process_group("gloo")
        if SYMPTOM in ("buffers", "sum"):
            reduce = all_reduce
        else:
            trained = DistributedDataParallel(model)
    train(model, model if SYMPTOM == "bypass" else trained, reduce)
    if dist.is_initialized():
        dist.destroy_process_group()


main()
