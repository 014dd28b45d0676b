"""A training of two ranks that reduce their gradients themselves."""

import os

import torch
import torch.distributed as dist

STEPS = 4


def gradients(model):
    return [parameter.grad for parameter in model.parameters()]


def reduce(model):
    for gradient in gradients(model):
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + dist.get_rank())
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        reduce(model)
        optimizer.step()
    dist.destroy_process_group()


main()
