#!/usr/bin/env python3
"""Makes small repositories whose fixes `lockstep validate` proves or refuses.

    python make_repositories.py DIR [NAME...]

Each has the fault on `main`, its repair on `fix`, one that is none on `wrong-fix`, and `nothing`, which changes a
file that the training never imports. train.py is the same on all of them:

    inner-module   the loss is computed on the module inside DDP, so that gradients are never averaged
    checkpoint     a block is used twice under re-entrant checkpoints: DDP raises an error
    tiles          a tiled block calls backward() for each tile: DDP raises an error
    device-map     a device map leaves a part of the model on another device: DDP raises an error
    tiled-fsdp     a tiled block under fully_shard frees its parameters after each tile: torch raises an error
    src-layout     the first one with its package in src/, where only an installation finds it
"""

import pathlib
import subprocess
import sys

TRAIN = '''"""torchrun --nproc-per-node 2 train.py; the reference: python train.py."""

import os

import torch
import torch.distributed as dist

from library import training

rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
model = training.Model()
wrapped = training.parallel(model) if world > 1 else model
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(4):
    batch = torch.randn(8, 8, generator=torch.Generator().manual_seed(step)).chunk(world)[rank]
    loss = training.loss_of(wrapped, batch)
    optimizer.zero_grad()
    loss.backward()
    training.after_backward(wrapped)
    optimizer.step()
if world > 1:
    dist.destroy_process_group()
'''

PROJECT = """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "library"
version = "1"

[tool.setuptools.packages.find]
where = ["%s"]
include = ["library"]
"""

UNUSED = '"""Nobody imports this module."""\n\nANSWER = %d\n'

IMPORTS = '''import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint


'''

BLOCK = '''class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


'''

MODEL = '''class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.block, self.head = nn.Linear(8, 8), Block(), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(through_block(self.block, self.stem(x)))


'''

COMMON = IMPORTS + BLOCK + MODEL

PLAIN = '''def through_block(block, x):
    return block(x)


'''

PARALLEL = '''def parallel(model):
    return nn.parallel.DistributedDataParallel(model)


'''

LOSS = '''def loss_of(model, batch):
    return model(batch).square().mean()


'''

NOTHING_AFTER = '''def after_backward(model):
    pass
'''

INNER = {
    "main": COMMON + PLAIN + PARALLEL + '''def loss_of(model, batch):
    inner = getattr(model, "module", model)
    return inner(batch).square().mean()


''' + NOTHING_AFTER,
    "fix": COMMON + PLAIN + PARALLEL + LOSS + NOTHING_AFTER,
    "wrong-fix": COMMON + PLAIN + PARALLEL + '''def loss_of(model, batch):
    inner = getattr(model, "module", model)
    return inner(batch).square().mean()


def after_backward(model):
    if dist.is_initialized():
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)  # a sum, not the mean
''',
}

TWICE = '''def through_block(block, x):
    for _ in range(2):
        x = checkpoint(block, x, use_reentrant=%s)
    return x


'''

CHECKPOINT = {
    "main": COMMON + TWICE % "True" + PARALLEL + LOSS + NOTHING_AFTER,
    "fix": COMMON + TWICE % "False" + PARALLEL + LOSS + NOTHING_AFTER,
    "wrong-fix": COMMON + TWICE % "True" + '''def parallel(model):
    return nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)


''' + LOSS + NOTHING_AFTER,
}

TILED = '''class Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, block, *parameters):
        ctx.block = block
        ctx.save_for_backward(x)
        with torch.no_grad():
            return torch.cat([block(tile) for tile in x.chunk(2)])

    @staticmethod
    def backward(ctx, grad):
%s

def through_block(block, x):
    return Tiled.apply(x, block, *block.parameters())


'''

PER_TILE = '''        tiles = [tile.detach().requires_grad_() for tile in ctx.saved_tensors[0].chunk(2)]
        for tile, grad_of_tile in zip(tiles, grad.chunk(2)):
            with torch.enable_grad():
                output = ctx.block(tile)
            torch.autograd.backward(output, grad_of_tile)
        return (torch.cat([tile.grad for tile in tiles]), None) + (None,) * (len(ctx.needs_input_grad) - 2)
'''

RETURNED = '''        parameters = list(ctx.block.parameters())
        inputs, sums = [], None
        for tile, grad_of_tile in zip(ctx.saved_tensors[0].chunk(2), grad.chunk(2)):
            tile = tile.detach().requires_grad_()
            with torch.enable_grad():
                output = ctx.block(tile)
            of_tile, *own = torch.autograd.grad(output, [tile] + parameters, grad_of_tile)
            inputs.append(of_tile)
            sums = %s
        return (torch.cat(inputs), None) + tuple(sums)
'''

TILES = {
    "main": COMMON + TILED % PER_TILE + PARALLEL + LOSS + NOTHING_AFTER,
    "fix": COMMON + TILED % (RETURNED % "own if sums is None else [a + b for a, b in zip(sums, own)]") +
    PARALLEL + LOSS + NOTHING_AFTER,
    "wrong-fix": COMMON + TILED % (RETURNED % "own  # of the last tile alone") +
    PARALLEL + LOSS + NOTHING_AFTER,
}

DEVICE_MAP = '''DEVICE_MAP = {"stem": "cpu", "block": "meta", "head": "cpu"}  # beside "cpu", every machine has "meta"


def parallel(model):
%s    return nn.parallel.DistributedDataParallel(model)


'''

DEVICES = {
    "main": COMMON + PLAIN + DEVICE_MAP % '''    for name, device in DEVICE_MAP.items():
        model.get_submodule(name).to(device)
''' + LOSS + NOTHING_AFTER,
    "fix": COMMON + PLAIN + PARALLEL + LOSS + NOTHING_AFTER,  # each rank holds the whole model
    "wrong-fix": COMMON + PLAIN + DEVICE_MAP % '''    # What the check does not see, it does not refuse, and nobody averages.
    model._ddp_params_and_buffers_to_ignore = [
        name for name, _ in model.named_parameters() if DEVICE_MAP[name.partition(".")[0]] != "cpu"]
''' + LOSS + NOTHING_AFTER,
}

OF_FSDP = IMPORTS.replace(
    "from torch.utils", "from torch.distributed.fsdp import FSDPModule, fully_shard\nfrom torch.utils")

SHARDED = '''class Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, block):
        ctx.block = block
        ctx.save_for_backward(x)
        with torch.no_grad():
            return torch.cat([block.tile(tile) for tile in x.chunk(2)])

    @staticmethod
    def backward(ctx, grad):
        tiles = [tile.detach().requires_grad_() for tile in ctx.saved_tensors[0].chunk(2)]
        for tile, grad_of_tile in zip(tiles, grad.chunk(2)):
            with torch.enable_grad():
                output = ctx.block.tile(tile)
            torch.autograd.backward(output, grad_of_tile)
%s        return torch.cat([tile.grad for tile in tiles]), None


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def tile(self, x):
        return self.down(torch.tanh(self.up(x)))

    def forward(self, x):
        return x + Tiled.apply(self.norm(x), self)


'''

FULLY_SHARD = '''def parallel(model):
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    fully_shard(model.block, mesh=mesh)
    fully_shard(model, mesh=mesh)
%s    return model


'''

TILED_FSDP = {
    "main": OF_FSDP + SHARDED % '''            if isinstance(ctx.block, FSDPModule):
                ctx.block.reshard()  # its parameters take no memory between the tiles
''' + MODEL + PLAIN + FULLY_SHARD % "" + LOSS + NOTHING_AFTER,
    "fix": OF_FSDP + SHARDED % "" + MODEL + PLAIN + FULLY_SHARD % "" + LOSS + NOTHING_AFTER,
    "wrong-fix": OF_FSDP + SHARDED % "" + MODEL + PLAIN +
    FULLY_SHARD % "    model.block.set_reshard_after_backward(False)  # so step 2 computes with old parameters\n" +
    LOSS + NOTHING_AFTER,
}

REPOSITORIES = {"inner-module": INNER, "checkpoint": CHECKPOINT, "tiles": TILES, "device-map": DEVICES,
                "tiled-fsdp": TILED_FSDP, "src-layout": INNER}


def git(folder, *words):
    subprocess.run(["git", "-c", "user.name=Example", "-c", "user.email=example@example.org",
                    "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false", *words],
                   cwd=folder, check=True, stdout=subprocess.DEVNULL)


def commit(folder, package, message, training, answer=0):
    (package / "training.py").write_text(training)
    (package / "unused.py").write_text(UNUSED % answer)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)


def make(folder, states, source="."):
    package = folder / source / "library"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (folder / "train.py").write_text(TRAIN)
    (folder / "pyproject.toml").write_text(PROJECT % source)
    git(folder, "init", "--quiet")
    commit(folder, package, "The fault", states["main"])
    for branch in ("fix", "wrong-fix"):
        git(folder, "checkout", "--quiet", "-b", branch, "main")
        commit(folder, package, branch, states[branch])
    git(folder, "checkout", "--quiet", "-b", "nothing", "main")
    commit(folder, package, "nothing", states["main"], answer=42)
    git(folder, "checkout", "--quiet", "main")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for name in sys.argv[2:] or REPOSITORIES:
        if name not in REPOSITORIES:
            sys.exit("There is no repository '%s'. Known: %s." % (name, ", ".join(REPOSITORIES)))
        make(pathlib.Path(sys.argv[1]) / name, REPOSITORIES[name], "src" if name == "src-layout" else ".")


if __name__ == "__main__":
    main()
