"""Trainings whose gradients meet no reduction, or whose ranks step otherwise, and healthy twins of them, each observed
into a folder of its name: causes.py OUT CASE..."""

import os
import sys

import lockstep
from torch import nn
import torch
import torch.distributed as dist

STEPS = 6


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)
        self.extra = None

    def __len__(self):  # so it is false where a truth is asked for
        return 0

    def forward(self, rows):
        rows = torch.tanh(self.second(torch.tanh(self.first(rows))))
        return self.head(rows if self.extra is None else rows + self.extra(rows))


def batch(step):
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(10 * step + dist.get_rank()))


def loss_of(forward, rows, last):
    output = forward(rows)  # the line that a cause names
    return (output if last is None else last(output)).pow(2).mean()


def reduce_by_hand(parameters):
    for parameter in parameters:
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def wrapped(net, case):
    if case.startswith("shards"):
        from torch.distributed.fsdp import fully_shard

        return fully_shard(net)
    if case == "ignored":  # parts that each rank has for itself
        nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
            net, ["second.weight", "second.bias"])
    return nn.parallel.DistributedDataParallel(net)


def backward(step, model, net, last, case):
    is_bypass = case in ("bypass", "bypass-reduced") or case == "late-bypass" and step >= 4
    forward = model.module if is_bypass else net if case == "other-reference" else model
    if case in ("no-sync", "accumulation"):
        with model.no_sync():
            loss_of(model, batch(step), last).backward()
    if case != "no-sync":
        loss_of(forward, batch(step), last).backward()


def train(case):
    torch.manual_seed(0)
    net, last = Net(), nn.Linear(4, 4) if "outside" in case else None
    net.second.requires_grad_(case != "unfrozen")
    model = wrapped(net, case)
    if case.startswith("adapter"):
        torch.manual_seed(dist.get_rank() if case == "adapter-apart" else 0)
        net.extra = nn.Linear(16, 16)
    net.second.requires_grad_(True)
    held = [*model.parameters(), *(last.parameters() if last else [])]
    rate = 0.1 if case == "rate" and dist.get_rank() == 1 else 0.05
    optimizer = torch.optim.SGD(held, rate)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3) if "schedule" in case else None
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1) if case == "plateau" else None
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        if case == "evaluated" or case == "eval-on-one" and step >= 4 and dist.get_rank() == 1:
            model.eval()  # after an evaluation
        if case == "evaluated":
            model.train()
        if case == "head-in-eval" and dist.get_rank() == 0:
            net.second.eval()
        backward(step, model, net, last, case)
        if case == "bypass-reduced":
            reduce_by_hand(held)
        if case == "adapter-reduced":
            reduce_by_hand(net.extra.parameters())
        if case == "ignored":
            reduce_by_hand(net.second.parameters())
        optimizer.step()
        if case == "schedule" or case == "schedule-of-one" and dist.get_rank() == 0:
            schedule.step()
        if case == "plateau":  # each rank judges a loss of its own
            plateau.step(step if dist.get_rank() == 0 else -step)


torch.set_num_threads(1)
dist.init_process_group("gloo")
out, cases = sys.argv[1], sys.argv[2:]
for case in cases:
    dist.barrier()  # all have left the job before
    lockstep.watch(out=os.path.join(out, case))
    train(case)
    lockstep.stop()
dist.destroy_process_group()
