"""Random pairs of trainings: pairs.py OUT CASE...

A case is LAYOUT-FAULT@SEED, and is observed into a folder of that name in OUT, with the number of ranks after LAYOUT;
LAYOUT-FAULT@SEED/repeat-N is the same again, with initial weights moved as by the run N of `lockstep watch --perturb`.
With SEED the model, its precision, the optimizer and the fault's tensor and step are drawn; rank 0 prints what was
drawn as a line of JSON. All layouts see the same samples of a step, and have the same loss: the mean over all tokens."""

import contextlib
import itertools
import json
import math
import random

from observed import train_all
import torch
import torch.distributed as dist
from torch import nn

STEPS, BATCH, LENGTH, WORDS = 4, 8, 6, 32
PRECISIONS = ("float32", "autocast", "bfloat16")
OPTIMIZERS = ("sgd", "adamw", "muon")
PAIRED = 7  # layouts: that of a seed is the one of this remainder


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v, self.proj = (nn.Linear(width, width) for _ in range(4))
        self.of_head = width // 2

    def forward(self, rows):
        q, k, v = (part(rows).unflatten(-1, (-1, self.of_head)).transpose(1, 2) for part in (self.q, self.k, self.v))
        weights = torch.softmax((q @ k.transpose(2, 3) / math.sqrt(self.of_head)).float(), -1).to(v.dtype)
        return self.proj((weights @ v).transpose(1, 2).flatten(-2))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width)
        self.other_norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, rows):
        rows = rows + self.attention(self.norm(rows))
        return rows + self.down(nn.functional.gelu(self.up(self.other_norm(rows))))


class Language(nn.Module):
    """Some parts of it are None on the stages of a pipeline."""

    def __init__(self, width, depth):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.blocks = nn.ModuleDict({str(number): Block(width) for number in range(depth)})
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)

    def forward(self, rows):
        rows = self.embed(rows) if self.embed is not None else rows
        for block in self.blocks.values():
            rows = block(rows)
        return self.head(self.norm(rows)) if self.head is not None else rows


class Drawn:
    def __init__(self, seed):
        draw = random.Random(seed)
        self.seed, self.width, self.depth = seed, draw.choice([16, 32, 64]), draw.randint(2, 3)
        self.precision, self.optimizer = draw.choice(PRECISIONS), draw.choice(OPTIMIZERS)
        self.is_tied = draw.random() < 0.5 and seed % PAIRED != PAIRED - 1  # not of a pipeline
        self.rate = 10 ** {"sgd": draw.uniform(-3, -0.5), "adamw": draw.uniform(-4, -2),
                           "muon": draw.uniform(-3.5, -1.5)}[self.optimizer]
        self.faulty_step, self.factor = draw.randint(1, STEPS), draw.choice([2, 0.5, 3, 1.25])
        self.faulty = "blocks.%d.%s.weight" % (draw.randrange(self.depth), draw.choice(
            ["attention.q", "attention.v", "attention.proj", "up", "down"]))

    def norm(self):
        """That before the faulty matrix, in the same block."""
        return ".".join(self.faulty.split(".")[:2] + ["norm" if "attention" in self.faulty else "other_norm"])

    def module(self, is_whole=True):
        torch.manual_seed(self.seed)
        module = Language(self.width, self.depth)
        nn.init.normal_(module.embed.weight, std=0.3)
        if self.is_tied and is_whole:
            module.head.weight = module.embed.weight
        return module.to(torch.bfloat16) if self.precision == "bfloat16" else module

    def samples(self, step):
        """Inputs and targets."""
        generator = torch.Generator().manual_seed(1000 * self.seed + step)
        words = torch.randint(WORDS, (BATCH, LENGTH + 1), generator=generator)
        return words[:, :-1].contiguous(), words[:, 1:].contiguous()

    def computes(self):
        is_mixed = self.precision == "autocast"
        return torch.autocast("cpu", torch.bfloat16) if is_mixed else contextlib.nullcontext()

    def optimizers(self, module):
        parameters = list(module.parameters())
        if self.optimizer == "sgd":
            return [torch.optim.SGD(parameters, self.rate, momentum=0.9)]
        if self.optimizer == "adamw":
            return [torch.optim.AdamW(parameters, self.rate)]
        matrices = [parameter for parameter in parameters if parameter.dim() == 2]
        others = [parameter for parameter in parameters if parameter.dim() != 2]
        return [torch.optim.Muon(matrices, self.rate), torch.optim.AdamW(others, self.rate / 10)]


def loss_of(output, targets):
    return nn.functional.cross_entropy(output.flatten(0, 1).float(), targets.flatten())


def own(rows):
    """This rank's samples."""
    return rows.chunk(dist.get_world_size())[dist.get_rank()]


# Of the gradient of one matrix, in the faulty step and all later ones.
def permuted(gradient):
    gradient.copy_(gradient.roll(1, 0))


def exchanged(gradient):
    """The largest element and the least one."""
    flat = gradient.view(-1)
    places = torch.stack([flat.argmax(), flat.argmin()])
    flat[places] = flat[places.flip(0)]


def change_whole(parameter, change):
    """Of a gradient that may be in parts."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    gradient = parameter.grad
    if not isinstance(gradient, DTensor):
        return change(gradient)
    whole = gradient.full_tensor().clone()
    change(whole)
    placed = distribute_tensor(whole, gradient.device_mesh, parameter.placements)
    parameter.grad = DTensor.from_local(placed.to_local(), gradient.device_mesh, parameter.placements,
                                        shape=whole.shape, stride=whole.stride())


def as_replicated(gradient):
    """What is a summand on each rank, said to be the sum."""
    from torch.distributed.tensor import DTensor, Replicate

    return DTensor.from_local(gradient.to_local(), gradient.device_mesh, [Replicate()], run_check=False)


@torch.no_grad()
def add_fault(drawn, module, fault):
    """To the gradients of a step, before the optimizer's."""
    parameters = dict(module.named_parameters())
    if fault == "factor":
        for parameter in parameters.values():
            parameter.grad.mul_(drawn.factor)
    elif fault in ("permuted", "exchanged") and drawn.faulty in parameters:
        change_whole(parameters[drawn.faulty], permuted if fault == "permuted" else exchanged)
    elif fault == "norm":  # of each rank's own positions
        for name, parameter in parameters.items():
            if name.startswith(drawn.norm()):
                parameter.grad = as_replicated(parameter.grad)
    elif fault == "parts":
        for parameter in parameters.values():
            if dist.get_rank() == 1 and hasattr(parameter.grad, "to_local"):
                parameter.grad.to_local().zero_()


def train(drawn, module, forward_backward, fault):
    optimizers = drawn.optimizers(module)
    for step in range(1, STEPS + 1):
        is_faulty = step >= drawn.faulty_step
        for optimizer in optimizers:
            optimizer.zero_grad()
        forward_backward(*drawn.samples(step), is_faulty and fault == "dropped")
        if is_faulty:
            add_fault(drawn, module, fault)
        for optimizer in optimizers:
            optimizer.step()


def all_samples(drawn, module):
    """A pass of each rank over the samples of all."""
    def forward_backward(inputs, targets, unused):
        with drawn.computes():
            output = module(inputs)
        loss_of(output, targets).backward()
    return forward_backward


def single(drawn, fault):
    module = drawn.module()
    train(drawn, module, all_samples(drawn, module), fault)


def of_layer(drawn, module):
    """The parameters of the faulty one."""
    layer = module.get_submodule(drawn.faulty.rpartition(".")[0])
    return list(layer.parameters())


def own_samples(drawn, wrapped, passes=1):
    """A pass of each rank over its own samples, in as many micro-batches. Those of rank 1 may be dropped."""
    def forward_backward(inputs, targets, is_dropped):
        parts = list(zip(own(inputs).chunk(passes), own(targets).chunk(passes)))
        for number, (rows, wanted) in enumerate(parts, 1):
            with wrapped.no_sync() if number < passes else contextlib.nullcontext():
                with drawn.computes():
                    output = wrapped(rows)
                loss = loss_of(output, wanted) / passes
                (loss * 0 if is_dropped and dist.get_rank() == 1 else loss).backward()
    return forward_backward


def ddp(drawn, fault, passes=1):
    module = drawn.module()
    if fault == "layer":  # its gradients are reduced nowhere
        name = drawn.faulty.rpartition(".")[0]
        nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
            module, [name + ".weight", name + ".bias"])
    train(drawn, module, own_samples(drawn, nn.parallel.DistributedDataParallel(module), passes), fault)


def accumulated(drawn, fault):
    ddp(drawn, fault, passes=2)


def sharded(drawn, fault, mesh=None):
    from torch.distributed.fsdp import fully_shard

    module = drawn.module()
    ignored = set(of_layer(drawn, module)) if fault == "layer" else set()
    for block in module.blocks.values():
        fully_shard(block, mesh=mesh, ignored_params=ignored)
    fully_shard(module, mesh=mesh, ignored_params=ignored)
    train(drawn, module, own_samples(drawn, module), fault)


def hybrid(drawn, fault):
    """Shards within halves of the ranks, copies between them."""
    sharded(drawn, fault, dist.device_mesh.init_device_mesh("cpu", (2, dist.get_world_size() // 2),
                                                            mesh_dim_names=("copies", "shards")))


def parallel(drawn, fault, plan):
    from torch.distributed.tensor.parallel import parallelize_module

    module = drawn.module()
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    parallelize_module(module, mesh, plan)
    if drawn.is_tied:
        module.head.weight = module.embed.weight
    train(drawn, module, all_samples(drawn, module), fault)


def plan_of_tensors(drawn, fault):
    from torch.distributed.tensor import Partial
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    plan = {}
    for number in range(drawn.depth):
        block = "blocks.%d." % number
        for name in ("attention.q", "attention.k", "attention.v", "up"):
            plan[block + name] = ColwiseParallel()
        is_faulty = fault == "layer" and drawn.faulty.startswith(block)  # its outputs are summed nowhere
        for name in ("attention.proj", "down"):
            plan[block + name] = RowwiseParallel(output_layouts=Partial()) if is_faulty else RowwiseParallel()
    return plan


def plan_of_sequences(drawn):
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel,
                                                   SequenceParallel)

    plan = {"embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "norm": SequenceParallel(),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())}
    for number in range(drawn.depth):
        block = "blocks.%d." % number
        plan.update({block + name: SequenceParallel() for name in ("norm", "other_norm")})
        plan[block + "attention"] = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
        plan.update({block + "attention." + name: ColwiseParallel() for name in "qkv"})
        plan[block + "up"] = ColwiseParallel(input_layouts=Shard(1))
        plan[block + "attention.proj"] = RowwiseParallel(output_layouts=Shard(1))
        plan[block + "down"] = RowwiseParallel(output_layouts=Shard(1))
    return plan


def tensor_parallel(drawn, fault):
    parallel(drawn, "parts" if fault == "dropped" else fault, plan_of_tensors(drawn, fault))


def sequence_parallel(drawn, fault):
    parallel(drawn, {"dropped": "parts", "layer": "norm"}.get(fault, fault), plan_of_sequences(drawn))


def pipeline(drawn, fault):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    module, rank, half = drawn.module(is_whole=False), dist.get_rank(), BATCH // 2
    for name in list(module.blocks):
        if (name == "0") != (rank == 0):
            del module.blocks[name]
    if rank == 0:
        module.norm = module.head = None
    else:
        module.embed = None
    dtype = torch.bfloat16 if drawn.precision == "bfloat16" else torch.float32
    ends = (torch.empty(half, LENGTH, dtype=torch.int64), torch.empty(half, LENGTH, drawn.width, dtype=dtype),
            torch.empty(half, LENGTH, WORDS, dtype=torch.bfloat16 if drawn.precision != "float32" else dtype))
    stage = PipelineStage(module, rank, 2, torch.device("cpu"), input_args=ends[rank], output_args=ends[rank + 1])
    is_dropped, passes = [False], itertools.count()

    def loss(output, targets):
        is_second = next(passes) % 2 == 1
        return loss_of(output, targets) / 2 * (0 if is_dropped[0] and is_second else 1)

    schedule = Schedule1F1B(stage, n_microbatches=2, loss_fn=loss, scale_grads=False)
    if fault == "layer" and drawn.faulty in dict(module.named_parameters()):  # counts its second micro-batch alone
        for parameter in of_layer(drawn, module):
            calls = itertools.count()
            parameter.register_hook(lambda gradient, calls=calls: gradient * (next(calls) % 2))

    def forward_backward(inputs, targets, drops):
        is_dropped[0] = drops
        with drawn.computes():
            schedule.step(inputs) if rank == 0 else schedule.step(target=targets)

    train(drawn, module, forward_backward, fault)


LAYOUTS = {"single": single, "ddp": ddp, "accumulated": accumulated, "fully_shard": sharded, "hybrid": hybrid,
           "tp": tensor_parallel, "sp": sequence_parallel, "pipeline": pipeline}


def prepare(name):
    case, _, number = name.partition("/repeat-")
    case, _, seed = case.partition("@")
    layout, fault = case.split("-")
    drawn = Drawn(int(seed))

    def train_case():
        LAYOUTS[layout](drawn, fault)
        if not dist.is_initialized() or dist.get_rank() == 0:
            print(json.dumps({"case": name, **vars(drawn)}), flush=True)

    return layout, {"data": True, "also": ["optimizer-state"], "perturb": int(number or 0)}, train_case


if __name__ == "__main__":
    train_all(prepare)
