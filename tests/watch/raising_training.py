"""A training whose bug raises an error of DDP, as two real ones do: BUG=checkpoint (a block under re-entrant
checkpoints, used twice) or BUG=tiles (a tiled MLP that calls backward() for each tile). Without BUG it is right.
FIX=none leaves the bug in under another name. WORLD_SIZE=1 is the reference."""

import datetime
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
bug = os.environ.get("BUG", "")


class Tiled(torch.autograd.Function):
    """An MLP applied tile by tile: its backward pass runs each tile again."""

    @staticmethod
    def forward(ctx, x, mlp, *parameters):
        ctx.mlp = mlp
        ctx.save_for_backward(x)
        with torch.no_grad():
            return torch.cat([mlp(tile) for tile in x.chunk(2)])

    @staticmethod
    def backward(ctx, grad):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        for tile, grad_of_tile in zip(x.chunk(2), grad.chunk(2)):
            with torch.enable_grad():
                output = ctx.mlp(tile)
            torch.autograd.backward(output, grad_of_tile)
        return (x.grad, None) + (None,) * len(ctx.needs_input_grad[2:])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.block, self.head = nn.Linear(8, 8), Block(), nn.Linear(8, 1)

    def forward(self, x):
        x = self.stem(x)
        if bug == "tiles":
            return self.head(Tiled.apply(x, self.block, *self.block.parameters()))
        for _ in range(2 if os.environ.get("TWICE") else 1):
            x = checkpoint(self.block, x, use_reentrant=bug == "checkpoint")
        return self.head(x)


torch.manual_seed(0)
model = Model()
if world > 1:
    dist.init_process_group("gloo", os.environ["STORE"], rank=rank, world_size=world,
                            timeout=datetime.timedelta(seconds=60))
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    batch = torch.randn(8, 8, generator=torch.Generator().manual_seed(step))
    loss = model(batch.chunk(world)[rank]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
