"""Trainings with a fault of a size in every step: sensitivity.py OUT CASE...

A case is LAYOUT-PRECISION-KIND-SIZE@SEED, where SIZE is N of 2 to the power of -N, or LAYOUT-PRECISION-none@SEED, and is
observed into a folder of that name in OUT, with the number of ranks after LAYOUT. PRECISION: "fp32", or "bf16" under autocast. A
layout "rank" is DDP with the fault on rank 1 alone, after the reduction."""

import contextlib

from observed import train_all
from precision import Attention, own
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

STEPS, BATCH, WIDTH = 3, 8, 32
MATRIX, BIAS = "blocks.0.up.weight", "blocks.0.up.bias"


def row_of(gradient):
    return gradient[gradient.norm(dim=1).argmax()]


def element_of(gradient):
    flat = gradient.view(-1)
    return flat[flat.abs().argmax():][:1]


def with_noise(gradient, size):
    noise = torch.randn(gradient.shape, generator=torch.Generator().manual_seed(0))
    gradient.add_(noise, alpha=size * float(gradient.norm()) / gradient.numel() ** 0.5)


# Of the gradients by name, before the optimizer's step. A rate is a setting of the optimizer.
FAULTS = {
    "all": lambda gradients, size: [gradient.mul_(1 + size) for gradient in gradients.values()],
    "tensor": lambda gradients, size: gradients[MATRIX].mul_(1 + size),
    "bias": lambda gradients, size: gradients[BIAS].mul_(1 + size),
    "row": lambda gradients, size: row_of(gradients[MATRIX]).mul_(1 + size),
    "element": lambda gradients, size: element_of(gradients[MATRIX]).mul_(1 + size),
    "noise": lambda gradients, size: with_noise(gradients[MATRIX], size),
    "rate": lambda gradients, size: None,
}


def whole(gradient):
    """A copy of a gradient that may be in shards."""
    return gradient.full_tensor().clone() if hasattr(gradient, "full_tensor") else gradient


@torch.no_grad()
def add_fault(module, fault, size):
    gradients = {name: whole(parameter.grad) for name, parameter in module.named_parameters()}
    FAULTS[fault](gradients, size)
    for name, parameter in module.named_parameters():
        if hasattr(parameter.grad, "full_tensor"):
            from torch.distributed.tensor import distribute_tensor

            placed = distribute_tensor(gradients[name], parameter.grad.device_mesh, parameter.grad.placements)
            parameter.grad.to_local().copy_(placed.to_local())


def train(layout, precision, fault, size, seed):
    torch.manual_seed(seed)
    module = wrapped = Attention(WIDTH, 2)
    targets = [torch.randn(BATCH, 6, 4) for _ in range(STEPS)]
    samples = [torch.randn(BATCH, 6, 16) for _ in range(STEPS)]
    if layout in ("ddp", "rank"):
        wrapped = nn.parallel.DistributedDataParallel(module)
    elif layout == "fully_shard":
        for part in [*module.blocks, module]:
            fully_shard(part)
    is_faulty = layout != "rank" or torch.distributed.get_rank() == 1
    matrix = dict(module.named_parameters())[MATRIX]
    rate = 0.01 * (1 + size) if fault == "rate" and is_faulty else 0.01
    others = [parameter for parameter in module.parameters() if parameter is not matrix]
    optimizer = torch.optim.SGD([{"params": [matrix], "lr": rate}, {"params": others}], lr=0.01)
    autocast = torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
    for step in range(STEPS):
        optimizer.zero_grad()
        with autocast:
            output = wrapped(own(samples[step]))
        (output.float() - own(targets[step])).pow(2).mean().backward()
        if fault != "none" and is_faulty:
            add_fault(module, fault, size)
        optimizer.step()


def prepare(name):
    case, _, seed = name.partition("@")
    layout, precision, fault, *size = case.split("-")
    return layout, {"data": True}, lambda: train(layout, precision, fault, 2.0 ** -int(size[0]) if size else 0, int(seed))


if __name__ == "__main__":
    train_all(prepare)
