"""The same training with buffers in several layouts: buffers.py OUT CASE...

A case is LAYOUT or LAYOUT-FAULT, and is observed into a folder of that name in OUT, with the number of ranks after
LAYOUT. A router's bias follows the load of its experts, and a normalisation layer has statistics of each rank's own
samples, but its output is not used: so all layouts have the same gradients."""

from observed import train_all
import torch
import torch.distributed as dist
from torch import nn

STEPS, SAMPLES, EXPERTS, FAULTY_STEP = 4, 32, 8, 3


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, EXPERTS)
        self.register_buffer("bias", torch.linspace(-0.1, 0.1, EXPERTS))
        self.register_buffer("scratch", torch.zeros(16), persistent=False)
        self.load = None

    def forward(self, rows):
        scores = self.gate(rows).sigmoid()
        chosen = (scores + self.bias).argmax(1)
        self.load = torch.bincount(chosen, minlength=EXPERTS).float()
        self.scratch.copy_(rows[0].detach())
        return scores.gather(1, chosen[:, None])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(8, 16), nn.BatchNorm1d(16, affine=False)
        self.router, self.head = Router(), nn.Linear(16, 4)
        self.passes = 1

    def forward(self, rows):
        rows = torch.tanh(self.first(rows))
        for _ in range(self.passes):
            self.norm(rows.detach())
        return self.head(rows * self.router(rows))


def own(rows):
    """This rank's samples."""
    return rows.chunk(dist.get_world_size())[dist.get_rank()] if dist.is_initialized() else rows


def train(layout, fault):
    torch.manual_seed(0)
    module = wrapped = Model()
    if layout == "ddp":
        wrapped = nn.parallel.DistributedDataParallel(module, broadcast_buffers=fault != "local")
    elif layout == "fully_shard":
        from torch.distributed.fsdp import fully_shard

        fully_shard(module.first)
        fully_shard(module)
    optimizer = torch.optim.AdamW(module.parameters(), 0.003)
    for step in range(1, STEPS + 1):
        generator = torch.Generator().manual_seed(step)
        rows = torch.randn(SAMPLES, 8, generator=generator)
        is_faulty = step >= FAULTY_STEP
        module.passes = 2 if fault == "twice" and is_faulty else 1
        optimizer.zero_grad()
        wrapped(own(rows)).pow(2).sum(dim=1).mean().backward()
        load = module.router.load
        if dist.is_initialized() and not (fault == "local" and is_faulty):
            dist.all_reduce(load)
        rate = 0.02 if fault == "rate" and is_faulty else 0.01
        module.router.bias += rate * torch.sign(load.mean() - load)
        optimizer.step()


def prepare(name):
    layout, _, fault = name.partition("-")
    also = [] if fault == "blind" else ["buffers"]
    return layout, {"data": True, "also": also}, lambda: train(layout, fault)


if __name__ == "__main__":
    train_all(prepare)
