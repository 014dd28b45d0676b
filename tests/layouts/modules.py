"""A small transformer in several layouts, whose modules are observed: modules.py OUT CASE...

A case is LAYOUT or LAYOUT-FAULT, and is observed into a folder of that name in OUT, with the number of ranks after
LAYOUT. All see the same 8 samples of a step, and have the same loss: the mean over the samples."""

from observed import train_all
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

SAMPLES, LENGTH, WIDTH, STEPS = 8, 6, 24, 3
FACTOR = 1.01


class Double(torch.autograd.Function):
    """Right forward, and twice the gradient."""

    @staticmethod
    def forward(context, tensor):
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context, gradient):
        return 2 * gradient


class Attention(nn.Module):
    def __init__(self, fault, is_fused):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.fault, self.is_fused = fault, is_fused

    def forward(self, rows):
        q, k, v = self.qkv(rows).chunk(3, dim=-1)
        if self.is_fused:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        else:
            mixed = (q @ k.transpose(-1, -2) / WIDTH ** 0.5).softmax(-1) @ v
        output = self.proj(mixed)
        if self.fault == "scaled":
            return FACTOR * output
        if self.fault == "infinite" and dist.get_rank() == 1:
            return output / 0
        return Double.apply(output) if self.fault == "double" else output


class Block(nn.Module):
    def __init__(self, fault, is_fused):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attn = Attention(fault, is_fused)
        self.drop = nn.Dropout(0.1 if fault == "dropout" else 0.0)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(inplace=True), nn.Linear(32, WIDTH))

    def forward(self, rows):
        rows = rows + self.drop(self.attn(self.norm(rows)))
        return rows + self.mlp(rows)


class Model(nn.Module):
    """`metric` is computed, and used for nothing."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.embed = nn.Linear(8, WIDTH)
        self.blocks = nn.ModuleList(
            Block(fault if i == 1 or fault == "dropout" else "", fault == "fused") for i in range(3))
        self.head = nn.Linear(WIDTH, 4)
        self.metric = nn.Identity()

    def forward(self, rows):
        rows = self.embed(rows)
        for block in self.blocks:
            if self.fault in ("checkpoint", "reentrant"):
                rows = checkpoint(block, rows, use_reentrant=self.fault == "reentrant")
            else:
                rows = block(rows)
        self.metric(rows.detach() * (FACTOR if self.fault.endswith("metric") else 1))
        return self.head(rows)


def samples(step):
    return torch.randn(SAMPLES, LENGTH, 8, generator=torch.Generator().manual_seed(step))


def loss_of(output):
    return output.pow(2).sum(dim=(1, 2)).mean()


def scale_gradients(module, factor):
    for parameter in module.parameters():
        parameter.grad.mul_(factor)


def train(module, forward, data=lambda rows: rows, fault=""):
    """`micro`: in two micro-batches. `loss`: with a scaled loss, whose gradients are unscaled. `summed`: gradients
    are too large by the number of ranks. `norm`: those of one module are doubled."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        rows = data(samples(step))
        parts = rows.chunk(2) if fault == "micro" else [rows]
        for part in parts:
            (loss_of(forward(part)) / len(parts) * (4 if fault == "loss" else 1)).backward()
        if fault == "norm":
            scale_gradients(module.blocks[1].norm, 2)
        scale_gradients(module, {"loss": 0.25, "summed": 2}.get(fault, 1))
        optimizer.step()


def own(rows, shift=0):
    count = SAMPLES // dist.get_world_size()
    rank = (dist.get_rank() + shift) % dist.get_world_size()
    return rows[rank * count:(rank + 1) * count]


def single(fault):
    module = Model(fault)
    train(module, module, fault=fault)


def ddp(fault):
    module = Model(fault)
    train(module, nn.parallel.DistributedDataParallel(module),
          lambda rows: own(rows, int(fault == "swapped")), fault)


def sharded(fault):
    from torch.distributed.fsdp import fully_shard

    module = Model(fault)
    for block in module.blocks:
        fully_shard(block)
    fully_shard(module)
    train(module, module, own)


def tensor_parallel(fault):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    module = Model(fault)
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    for block in module.blocks:
        block.mlp[1] = nn.ReLU()  # outputs of parallel layers cannot be changed in place
        parallelize_module(block.mlp, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    train(module, module)


LAYOUTS = {"single": single, "ddp": ddp, "fully_shard": sharded, "tp": tensor_parallel}


def prepare(name):
    layout, _, fault = name.partition("-")

    def train_case():
        torch.manual_seed(0)
        LAYOUTS[layout](fault)

    return layout, {"data": not fault.startswith("blind"), "modules": fault != "unwatched"}, train_case


if __name__ == "__main__":
    train_all(prepare)
