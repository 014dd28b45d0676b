"""The toy of OpenTSLM#49 in Python, on the CPU over Gloo, to time `lockstep run
loss-on-unwrapped-module --ranks 2` against.

    python -m torch.distributed.run --standalone --nproc-per-node 2 tests/bench/loss_on_unwrapped_module.py
"""

import torch
import torch.distributed as dist
from torch import nn

STEPS = 5


def trajectory(fixed):
    """Per step: the first gradient element of every rank, and the drift of the weights."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    wrapped = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    rows = []
    for step in range(STEPS):
        inputs = torch.randn(4, 4, generator=torch.Generator().manual_seed(1000 + step)) * 0.5 + rank
        targets = torch.randn(4, 4, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        (wrapped.module(inputs) - targets).pow(2).mean().backward()
        if fixed:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
        gradient = model.weight.grad.flatten()[0].clone()
        optimizer.step()
        gradients = [torch.zeros_like(gradient) for _ in range(world_size)]
        weights = [torch.zeros_like(model.weight) for _ in range(world_size)]
        dist.all_gather(gradients, gradient)
        dist.all_gather(weights, model.weight.detach())
        drift = (weights[0] - weights[1]).abs().max().item()
        rows.append(([value.item() for value in gradients], drift))
    return rows


def main():
    dist.init_process_group("gloo")
    buggy, fixed = trajectory(False), trajectory(True)
    if dist.get_rank() == 0:
        for step, (bug, fix) in enumerate(zip(buggy, fixed), 1):
            print(step, *(f"{value:.5f}" for value in bug[0]), f"{bug[1]:.6f}", "|",
                  *(f"{value:.5f}" for value in fix[0]), f"{fix[1]:.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
