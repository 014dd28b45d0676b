"""The same training in several layouts: layouts.py LAYOUT [FAULT]

All layouts see the same 8 samples of a step, and have the same loss: the mean over the samples. LAYOUT is
single, ddp, fully_shard, tp or pipeline, FAULT one of FAULTS. STEPS, LR, SEED and OPTIMIZER are in the environment."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

STEPS = int(os.environ.get("STEPS", "6"))
LR = float(os.environ.get("LR", "0.05"))
SEED = int(os.environ.get("SEED", "0"))
SAMPLES = 8
FAULTY_STEP = 3


class Model(nn.Module):
    def __init__(self, width=8, hidden=32):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.second = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, 4)

    def forward(self, rows):
        hidden = torch.tanh(self.norm(self.first(rows)))
        return self.head(torch.relu(self.second(hidden)))


def model():
    torch.manual_seed(SEED)
    return Model()


def samples(step):
    generator = torch.Generator().manual_seed(1000 * SEED + step)
    return torch.randn(SAMPLES, 8, generator=generator)


def loss_of(output):
    return output.pow(2).sum(dim=1).mean()


def optimizer_of(parameters):
    if os.environ.get("OPTIMIZER") == "adamw":
        return torch.optim.AdamW(parameters, lr=LR / 10)
    return torch.optim.SGD(parameters, lr=LR, momentum=0.9)


class Orthogonal(torch.optim.Optimizer):
    """Steps along the nearest orthogonal matrix, which needs the whole one."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            gradient = parameter.grad
            if gradient.dim() == 2:
                left, _, right = torch.linalg.svd(gradient, full_matrices=False)
                gradient = left @ right
            parameter.add_(gradient, alpha=-LR)


def own(rows):
    """This rank's samples."""
    count = SAMPLES // dist.get_world_size()
    return rows[dist.get_rank() * count:(dist.get_rank() + 1) * count]


def train(module, forward, optimizer, data=lambda rows: rows, before_step=None, loss=loss_of):
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss(forward(data(samples(step)))).backward()
        if before_step:
            before_step(step, module)
        optimizer.step()


def for_each_gradient(change):
    def before_step(step, module):
        for parameter in module.parameters():
            if parameter.grad is not None:
                change(step, parameter.grad)
    return before_step


def clipped(step, module):
    nn.utils.clip_grad_norm_(module.parameters(), 0.5)


def by_local_norm(step, module):
    """Clips what each rank computed, and reduces then."""
    nn.utils.clip_grad_norm_(module.parameters(), 0.5)
    for parameter in module.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def scaled(factor, first=1):
    return for_each_gradient(lambda step, gradient: gradient.mul_(factor if step >= first else 1))


def sum_over_weights(output):
    """A mean over samples that count differently, as sequences of different lengths do."""
    weights = torch.arange(1, SAMPLES + 1, dtype=torch.float32)
    rank, count = (dist.get_rank(), len(output)) if dist.is_initialized() else (0, SAMPLES)
    mine = weights[rank * count:(rank + 1) * count]
    return (output.pow(2).sum(dim=1) * mine).sum() / mine.sum()


def single(fault):
    module = model()
    if fault == "orthogonal":
        return train(module, module, Orthogonal(module.parameters()))
    train(module, module, optimizer_of(module.parameters()),
          before_step=clipped if fault == "clip" else None,
          loss=sum_over_weights if fault == "tokens" else loss_of)


def ddp(fault):
    module = model()
    wrapped = nn.parallel.DistributedDataParallel(module)
    world = dist.get_world_size()
    before_step = {"summed": scaled(world), "divided": scaled(1 / world), "late": scaled(world, FAULTY_STEP),
                   "half": scaled(0.5), "clip": by_local_norm}.get(fault)
    forward = module if fault == "clip" else wrapped
    train(module, forward, optimizer_of(module.parameters()), own, before_step,
          sum_over_weights if fault == "tokens" else loss_of)


def sharded(fault):
    from torch.distributed.fsdp import fully_shard

    module = model()
    for part in module.children():
        fully_shard(part)
    fully_shard(module)
    if fault == "orthogonal":
        class OnShards(torch.optim.Optimizer):
            def __init__(self, parameters):
                super().__init__(parameters, {})

            @torch.no_grad()
            def step(self, closure=None):
                for parameter in self.param_groups[0]["params"]:
                    local = parameter.grad._local_tensor
                    if local.dim() == 2 and local.numel():
                        left, _, right = torch.linalg.svd(local, full_matrices=False)
                        local = left @ right
                    parameter._local_tensor.add_(local, alpha=-LR)

        return train(module, module, OnShards(module.parameters()), own)
    change = {"summed": dist.get_world_size(), "half": 0.5}.get(fault)
    train(module, module, optimizer_of(module.parameters()), own, scaled(change) if change else None)


def tensor_parallel(fault):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    module = model()
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(module, mesh, {"second": ColwiseParallel(), "head": RowwiseParallel()})

    def twice(step, whole):
        whole.head.weight.grad.mul_(2)

    train(module, module, optimizer_of(module.parameters()), before_step=twice if fault == "twice" else None)


class Send(torch.autograd.Function):
    """Passes a tensor on to the next stage, and receives its gradient."""

    @staticmethod
    def forward(context, tensor):
        dist.send(tensor.detach().contiguous(), 1)
        context.shape = tensor.shape
        return tensor.sum() * 0

    @staticmethod
    def backward(context, unused):
        gradient = torch.empty(context.shape)
        dist.recv(gradient, 1)
        return gradient


def pipeline(fault):
    whole = model()
    rank = dist.get_rank()
    module = nn.ModuleDict({name: part for name, part in whole.named_children()
                            if (name in ("first", "norm")) == (rank == 0)})
    optimizer = optimizer_of(module.parameters())
    del whole
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        if rank == 0:
            Send.apply(torch.tanh(module["norm"](module["first"](samples(step))))).backward()
        else:
            received = torch.empty(SAMPLES, 32)
            dist.recv(received, 0)
            received.requires_grad_()
            loss_of(module["head"](torch.relu(module["second"](received)))).backward()
            dist.send(received.grad if fault != "half" else received.grad / 2, 0)
        optimizer.step()


LAYOUTS = {"single": single, "ddp": ddp, "fully_shard": sharded, "tp": tensor_parallel,
           "pipeline": pipeline}


def main():
    torch.set_num_threads(1)
    if sys.argv[1] != "single":
        dist.init_process_group("gloo")
    LAYOUTS[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else "")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
