"""Buffers under DDP that does not broadcast them: a router's bias by load, and what each rank may keep for itself.

LOCAL: the load that moves the bias is that of this rank's samples alone.
"""

import os

import meeting
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

EXPERTS = 4


class Router(nn.Module):
    """The bias of an expert rises while it has less load than others."""

    def __init__(self, is_local):
        super().__init__()
        self.is_local = is_local
        self.gate = nn.Linear(8, EXPERTS)
        self.register_buffer("bias", torch.zeros(EXPERTS))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("last_input", torch.zeros(8), persistent=False)

    def forward(self, values):
        scores = self.gate(values).sigmoid()
        self.load = torch.bincount((scores + self.bias).argmax(1), minlength=EXPERTS).float()
        self.seen += len(values) + dist.get_rank()
        self.last_input.copy_(values[0])
        return scores

    def balance(self):
        if not self.is_local:
            dist.all_reduce(self.load)
        self.bias += 0.01 * torch.sign(self.load.mean() - self.load)


class Offset(nn.Module):
    """In TorchScript, whose modules have no hooks."""

    def __init__(self):
        super().__init__()
        self.register_buffer("offset", torch.ones(EXPERTS))

    def forward(self, values):
        return values + self.offset


def main():
    meeting.join()
    torch.manual_seed(0)
    router = Router(is_local="LOCAL" in os.environ)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), router, torch.jit.script(Offset()))
    wrapped = DistributedDataParallel(model, broadcast_buffers=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(6):
        generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
        values = torch.randn(32, 8, generator=generator) + dist.get_rank()
        optimizer.zero_grad()
        wrapped(values).square().mean().backward()
        optimizer.step()
        router.balance()
    # Gloo's thread may still hold a tensor of the last call; it would wait for the interpreter's lock to free it, and the
    # destructor of the wrapper's group, which has that lock, for the thread.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
