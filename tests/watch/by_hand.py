"""A training that reduces its gradients by hand, with ranks that call other collectives than each other, or that may:
CASE=... PAUSE=... by_hand.py. A pause lets a watch see that ranks differ before they have ended."""

import os
import time

import meeting
import torch
import torch.distributed as dist
from torch import nn

STEPS = 12
CASE = os.environ["CASE"]


class Experts(nn.Module):
    """A layer for each token kind: those that a batch does not use have no gradient. In most cases all parameters are
    of one size, so that a wrong pair of them is reduced without an error."""

    def __init__(self):
        super().__init__()
        has_bias = CASE in ("sizes", "flat")
        self.trunk = nn.Linear(8, 8, bias=has_bias)
        self.experts = nn.ModuleList(nn.Linear(8, 8, bias=has_bias) for _ in range(3))
        if CASE == "sizes":
            self.wide = nn.Sequential(nn.Linear(8, 32, bias=has_bias), nn.Linear(32, 8, bias=has_bias))
        self.head = nn.Linear(8, 8, bias=has_bias)

    def forward(self, rows, used, is_wide):
        rows = self.trunk(rows)
        for expert in used:
            rows = rows + self.experts[expert](rows)
        return self.head(self.wide(rows) if is_wide else rows)


def used_experts(step):
    if CASE == "same-number":
        return [dist.get_rank(), 2]
    if CASE in ("fewer", "flat", "late") and dist.get_rank() == 1 and (CASE == "fewer" or step >= 4):
        return [0, 2]
    return [0, 1, 2]


def reduce_gradients(net):
    for parameter in net.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)  # the line that a cause names
            parameter.grad /= dist.get_world_size()


def reduce_flat(net):
    gradients = [parameter.grad for parameter in net.parameters() if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for gradient, reduced in zip(gradients, flat.split([one.numel() for one in gradients])):
        gradient.copy_(reduced.view_as(gradient))


def communicate(step, loss, groups):
    """What healthy trainings do beside."""
    if CASE in ("subgroup", "subgroup-apart") and dist.get_rank() == 0:
        dist.all_reduce(loss, group=groups[0])
    if CASE == "gathered":
        losses = [torch.zeros_like(loss) for _ in range(dist.get_world_size())]
        dist.gather(loss, losses if dist.get_rank() == 0 else None)
    if CASE == "peers":
        if dist.get_rank() == 0:
            for _ in range(2):
                dist.send(loss, 1)
        else:
            for _ in range(2):
                dist.recv(loss, 0)
    if CASE == "metrics":
        for _ in range(1 + step % 2):
            dist.all_reduce(loss, group=groups[1])
    if CASE == "branch" and dist.get_rank() == 0:
        dist.all_reduce(torch.zeros(8, 8))  # of one rank alone


def train():
    torch.manual_seed(0)
    net = Experts()
    groups = [dist.new_group([0]), dist.new_group([0, 1])]
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        rows = torch.randn(4, 8, generator=generator)
        is_wide = CASE == "sizes" and (dist.get_rank() == 0 or step < 4)
        loss = net(rows, used_experts(step), is_wide).pow(2).mean()
        loss.backward()
        communicate(step, loss.detach().clone(), groups)
        reduce_flat(net) if CASE in ("flat", "flat-right") else reduce_gradients(net)
        if CASE == "subgroup-apart" and dist.get_rank() == 1:
            net.head.weight.grad *= 2
        optimizer.step()
        time.sleep(float(os.environ.get("PAUSE", 0)))


if __name__ == "__main__":
    torch.set_num_threads(1)
    meeting.join()
    train()
    dist.destroy_process_group()
