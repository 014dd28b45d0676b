"""Trainings whose tensors are float32, drawn: precision.py OUT CASE...

A case is LAYOUT-KIND-FAULT@SEED, and is observed into a folder of that name in OUT, with the number of ranks after
LAYOUT. KIND: "bf16" or "fp16" computes under autocast, "fp32" does not. "masters" computes in bfloat16 with weights that it
copies, after each step, from those in float32 that the optimizer has. "keys" has float32, AdamW and attention with a
bias of the keys, whose gradient is 0 but for rounding. FAULT: "none", or one that is there in every step. All layouts
see the same samples of a step, and have the same loss: the mean over the samples."""

import contextlib
import math
import random

from observed import train_all
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

STEPS = 4
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
FACTORS = {"half": 0.5, "more": 1.25, "double": 2}


class Layers(nn.Module):
    """A perceptron with skipped layers. Samples: rows."""

    shape = (8,)

    def __init__(self, width, depth):
        super().__init__()
        self.first, self.norm = nn.Linear(8, width), nn.LayerNorm(width)
        self.middle = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 4)

    def forward(self, rows):
        rows = torch.tanh(self.norm(self.first(rows)))
        for layer in self.middle:
            rows = rows + torch.relu(layer(rows))
        return self.head(rows)


class Block(nn.Module):
    """`is_fused`: queries, keys and values are of one layer, which has one bias."""

    def __init__(self, width, is_fused):
        super().__init__()
        self.norm, self.other_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        if is_fused:
            self.qkv = nn.Linear(width, 3 * width)
        else:
            self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.proj, self.up, self.down = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.is_fused = is_fused

    def forward(self, rows):
        normed = self.norm(rows)
        q, k, v = (self.qkv(normed).chunk(3, dim=-1) if self.is_fused
                   else (self.q(normed), self.k(normed), self.v(normed)))
        mixed = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]), -1) @ v
        rows = rows + self.proj(mixed)
        return rows + self.down(nn.functional.gelu(self.up(self.other_norm(rows))))


class Attention(nn.Module):
    """A transformer. Samples: sequences."""

    shape = (6, 16)

    def __init__(self, width, depth, is_fused=False):
        super().__init__()
        self.first = nn.Linear(16, width)
        self.blocks = nn.ModuleList(Block(width, is_fused) for _ in range(depth))
        self.head = nn.Linear(width, 4)

    def forward(self, rows):
        rows = self.first(rows)
        for block in self.blocks:
            rows = block(rows)
        return self.head(rows)


class Images(nn.Module):
    """Samples: images of one channel."""

    shape = (1, 9, 9)

    def __init__(self, width, depth):
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, width, 3), nn.GroupNorm(1, width)
        self.second, self.head = nn.Conv2d(width, width, 3), nn.Linear(width, 4)

    def forward(self, rows):
        rows = torch.relu(self.second(torch.relu(self.norm(self.first(rows)))))
        return self.head(rows.mean(dim=(2, 3)))


class Drawn:
    """A training: the same for all layouts, kinds apart from "keys" and faults of a seed."""

    def __init__(self, kind, seed):
        draw = random.Random(seed)
        self.seed, self.batch, self.dtype = seed, draw.choice([4, 8, 16]), TYPES.get(kind)
        width, depth = draw.choice([16, 32, 64]), draw.randint(1, 3)
        family = draw.choice([Layers, Attention, Images])
        self.is_adamw, self.rate = draw.random() < 0.5, 10 ** draw.uniform(-4, -2)
        self.layer, self.row = draw.random(), draw.random()
        torch.manual_seed(seed)
        size = 1.0  # of the targets, and so of the gradients against the epsilon of AdamW
        if kind in ("keys", "fused"):
            self.is_adamw, size = True, 10 ** draw.uniform(0, 3)
            self.module = Attention(width, depth, kind == "fused")
        else:
            self.module = family(width, depth)
        self.has_masters = kind == "masters"
        # Not those of the forward pass: gradients then do not vanish.
        self.targets = [size * torch.randn(self.batch, *self._shape_of_output()) for _ in range(STEPS)]
        if self.has_masters:
            self.module.bfloat16()

    def _shape_of_output(self):
        with torch.no_grad():
            return self.module(torch.zeros(1, *self.module.shape)).shape[1:]

    def samples(self, step):
        generator = torch.Generator().manual_seed(1000 * self.seed + step)
        return torch.randn(self.batch, *self.module.shape, generator=generator).to(next(self.module.parameters()).dtype)

    def optimizer(self, parameters):
        return torch.optim.AdamW(parameters, self.rate) if self.is_adamw else torch.optim.SGD(parameters, self.rate)

    def matrices(self):
        """Names of the weights that a fault may be in."""
        return [name for name, parameter in self.module.named_parameters() if parameter.dim() == 2]

    def faulty(self):
        names = self.matrices()
        return names[int(self.layer * len(names))]

    def computes(self):
        return torch.autocast("cpu", self.dtype) if self.dtype else contextlib.nullcontext()


def own(rows):
    """This rank's samples."""
    return rows.chunk(dist.get_world_size())[dist.get_rank()] if dist.is_initialized() else rows


@torch.no_grad()
def add_fault(drawn, fault):
    """To the gradients of a step, before the optimizer's."""
    parameters = dict(drawn.module.named_parameters())
    if fault in FACTORS:
        for parameter in parameters.values():
            parameter.grad.mul_(FACTORS[fault])
    elif fault == "permuted":
        gradient = parameters[drawn.faulty()].grad
        row = gradient.norm(dim=1).argmax()
        gradient[row] = gradient[row].roll(1)
    elif fault == "key":  # a gradient where there is none
        for name, parameter in parameters.items():
            if name.endswith("k.bias"):
                parameter.grad.add_(parameters[name.replace("k.bias", "q.bias")].grad)


class Masters:
    """What the optimizer has in the place of parameters: a copy of each, or itself."""

    def __init__(self, parameters, are_copies):
        self.parameters = list(parameters)
        self.stepped = [one.detach().float().requires_grad_() for one in self.parameters] if are_copies else self.parameters
        self.pairs = [pair for pair in zip(self.parameters, self.stepped) if pair[0] is not pair[1]]

    def take_gradients(self):
        for parameter, stepped in self.pairs:
            stepped.grad, parameter.grad = parameter.grad.float(), None

    @torch.no_grad()
    def give(self):
        for parameter, stepped in self.pairs:
            parameter.copy_(stepped)


def train(drawn, layout, fault):
    wrapped = drawn.module
    if fault == "layer":  # its gradients are reduced nowhere
        nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
            wrapped, [drawn.faulty(), drawn.faulty().replace("weight", "bias")])
    if layout == "ddp":
        wrapped = nn.parallel.DistributedDataParallel(wrapped)
    elif layout == "fully_shard":
        for part in wrapped.children():
            if not isinstance(part, nn.ModuleList):
                fully_shard(part)
        fully_shard(wrapped)
    masters = Masters(wrapped.parameters(), drawn.has_masters)
    optimizer = drawn.optimizer(masters.stepped)
    for step in range(STEPS):
        optimizer.zero_grad()
        with drawn.computes():
            output = wrapped(own(drawn.samples(step)))
        loss = (output.float() - own(drawn.targets[step])).pow(2).mean()
        is_dropped = fault == "dropped" and dist.get_rank() == 1
        (loss * 0 if is_dropped else loss).backward()
        add_fault(drawn, fault)
        masters.take_gradients()
        optimizer.step()
        masters.give()


def prepare(name):
    case, _, seed = name.partition("@")
    layout, kind, fault = case.split("-")
    drawn = Drawn(kind, int(seed))
    return layout, {"data": True, "also": ["optimizer-state"]}, lambda: train(drawn, layout, fault)


if __name__ == "__main__":
    train_all(prepare)
