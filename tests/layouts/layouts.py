"""The same training in several layouts: layouts.py OUT CASE...

A case is LAYOUT, LAYOUT-FAULT, LAYOUT@SEED or ddp-drawn@SEED, and is observed into a folder of that name in OUT,
with the number of ranks after LAYOUT. All layouts see the same 8 samples of a step, and have the same loss: the mean over the
samples. With @SEED the model, the optimizer, its learning rate and the fault are drawn; a drawn fault is printed."""

import copy
import itertools
import random

from observed import train_all
import torch
import torch.distributed as dist
from torch import nn

SAMPLES = 8
FAULTY_STEP = 3


class Case:
    """What is trained. `seed`: of a drawn one."""

    def __init__(self, seed=None):
        self.seed, self.hidden, self.lr, self.optimizer = 0, 32, 0.05, "sgd"
        self.steps = 6
        if seed is not None:
            draw = random.Random(seed)
            self.seed = seed
            self.hidden = draw.choice([4, 8, 16, 32, 96])  # 8: activations have the form of samples
            self.optimizer = draw.choice(["sgd", "adamw"])
            self.lr = 10 ** draw.uniform(-4, -1)
            self.factor = draw.choice([2, 0.5, 3, 1.1, 0.99])  # of a drawn fault
            self.faulty_step = draw.randint(1, self.steps)


case = Case()


class Model(nn.Module):
    def __init__(self, hidden, width=8):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.second = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, 4)

    def forward(self, rows):
        hidden = torch.tanh(self.norm(self.first(rows)))
        return self.head(torch.relu(self.second(hidden)))


def model():
    torch.manual_seed(case.seed)
    return Model(case.hidden)


def samples(step):
    generator = torch.Generator().manual_seed(1000 * case.seed + step)
    return torch.randn(SAMPLES, 8, generator=generator)


def loss_of(output):
    return output.pow(2).sum(dim=1).mean()


def optimizer_of(parameters, **changed):
    if case.optimizer == "adamw":
        return torch.optim.AdamW(parameters, **{"lr": case.lr / 10, **changed})
    return torch.optim.SGD(parameters, **{"lr": case.lr, "momentum": 0.9, **changed})


# Of kernels, which change nothing but roundings, and of hyperparameters.
CHANGES = {"loop": {"foreach": False}, "each": {"foreach": True}, "fused": {"fused": True},
           "eps": {"eps": 1e-6}, "decay": {"weight_decay": 0.01005}}


def changes_of(fault):
    """What a fault changes of the optimizer. The rate is off by a hundredth."""
    change = fault.removeprefix("adamw-")
    if change == "faster":
        return {"lr": 1.01 * (case.lr / 10 if case.optimizer == "adamw" else case.lr)}
    return CHANGES.get(change, {})


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
            parameter.add_(gradient, alpha=-case.lr)


# What an optimizer keeps of a parameter, and what becomes of it.
STATES = {"adamw-squares": ("exp_avg_sq", 1.5), "adamw-steps": ("step", 2), "momentum": ("momentum_buffer", 0.75)}


def with_other_state(optimizer, fault):
    """Changes the state of the first parameter in the faulty step, after the update."""
    key, factor = STATES[fault]
    first = optimizer.param_groups[0]["params"][0]
    steps = itertools.count(1)

    def after_step(*unused):
        if next(steps) == FAULTY_STEP:
            optimizer.state[first][key].mul_(factor)

    optimizer.register_step_post_hook(after_step)


def own(rows):
    """This rank's samples."""
    count = SAMPLES // dist.get_world_size()
    return rows[dist.get_rank() * count:(dist.get_rank() + 1) * count]


def train(module, forward, optimizer, data=lambda rows: rows, before_step=None, loss=loss_of, is_stale=False):
    """`is_stale`: the forward pass of one step uses the parameters of the step before."""
    before = None
    for step in range(1, case.steps + 1):
        optimizer.zero_grad()
        now = [parameter.detach().clone() for parameter in module.parameters()]
        if is_stale and step == FAULTY_STEP:
            assign(module, before)
        loss(forward(data(samples(step)))).backward()
        assign(module, now)
        if before_step:
            before_step(step, module)
        optimizer.step()
        before = now


@torch.no_grad()
def assign(module, values):
    for parameter, value in zip(module.parameters(), values):
        parameter.copy_(value)


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


def rows_scaled(step, module):
    """Of a gradient, so that nothing is a multiple."""
    if step == 2:
        module.second.weight.grad[:8] *= 1.28


def scaled(factor, first=1):
    return for_each_gradient(lambda step, gradient: gradient.mul_(factor if step >= first else 1))


def sum_over_weights(output):
    """A mean over samples that count differently, as sequences of different lengths do."""
    weights = torch.arange(1, SAMPLES + 1, dtype=torch.float32)
    rank, count = (dist.get_rank(), len(output)) if dist.is_initialized() else (0, SAMPLES)
    mine = weights[rank * count:(rank + 1) * count]
    return (output.pow(2).sum(dim=1) * mine).sum() / mine.sum()


def over_all(output):
    """Divided by the samples of all ranks, and averaged over them once more."""
    return output.pow(2).sum() / SAMPLES


def by_tiles(output):
    """Means of tiles, which are added up."""
    return sum(loss_of(tile) for tile in output.split(1))


def wild(output):
    """Rounding grows with it until it is as large as everything else."""
    return (4 * output).sin().sum(dim=1).mean()


LOSSES = {"chaotic": wild, "tokens": sum_over_weights, "group": over_all, "tiles": by_tiles}


def single(fault):
    module = model()
    if fault == "orthogonal":
        return train(module, module, Orthogonal(module.parameters()))
    if fault == "nudged":  # a gradient between rounding and a fault, and an update that differs
        first = module.first.weight
        others = [parameter for parameter in module.parameters() if parameter is not first]
        optimizer = torch.optim.SGD([{"params": [first], "lr": 2 * case.lr}, {"params": others}], lr=case.lr,
                                    momentum=0.9)
        return train(module, module, optimizer, before_step=lambda step, _: first.grad.mul_(1.0001))
    if fault == "rate":  # twice the learning rate in the second step
        def faster(step, _):
            optimizer.param_groups[0]["lr"] = case.lr * (2 if step == 2 else 1)

        optimizer = optimizer_of(module.parameters())
        return train(module, module, optimizer, before_step=faster)
    if fault == "sum":
        return train(module, module, optimizer_of(module.parameters()), loss=lambda output: output.pow(2).sum())
    if fault == "accumulated":  # micro-batches, whose losses nobody divides by their number
        return train(module, lambda rows: [module(part) for part in rows.split(2)], optimizer_of(module.parameters()),
                     loss=lambda outputs: sum(loss_of(output) for output in outputs))
    train(module, module, optimizer_of(module.parameters(), **changes_of(fault)),
          before_step=clipped if fault == "clip" else None, loss=LOSSES.get(fault, loss_of))


def ddp(fault):
    module = model()
    if fault == "frozen":
        module.norm.bias.requires_grad_(False)
    wrapped = nn.parallel.DistributedDataParallel(module)
    world = dist.get_world_size()
    before_step = {"drawn": fault == "drawn" and scaled(case.factor, case.faulty_step),
                   "summed": scaled(world), "divided": scaled(1 / world), "late": scaled(world, FAULTY_STEP),
                   "half": scaled(0.5), "stored": rows_scaled, "clip": by_local_norm}.get(fault)
    forward = module if fault in ("clip", "bypass") else wrapped
    optimizer = optimizer_of(module.parameters(), **changes_of(fault))
    if fault in STATES:
        with_other_state(optimizer, fault)
    train(module, forward, optimizer, own, before_step, LOSSES.get(fault, loss_of),
          fault == "stale")


def hybrid(fault):
    """Shards within halves of the ranks, copies between them."""
    sharded(fault, dist.device_mesh.init_device_mesh("cpu", (2, dist.get_world_size() // 2),
                                                     mesh_dim_names=("copies", "shards")))


def sharded(fault, mesh=None):
    from torch.distributed.fsdp import fully_shard

    module = model()
    for part in module.children():
        fully_shard(part, mesh=mesh)
    fully_shard(module, mesh=mesh)
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
                    parameter._local_tensor.add_(local, alpha=-case.lr)

        return train(module, module, OnShards(module.parameters()), own)
    change = {"summed": dist.get_world_size(), "half": 0.5, "of-copies": 2}.get(fault)
    train(module, module, optimizer_of(module.parameters()), own, scaled(change) if change else None)


def tensor_parallel(fault):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    module = model()
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(module, mesh, {"second": ColwiseParallel(), "head": RowwiseParallel()})

    def twice(step, whole):
        whole.head.weight.grad.mul_(2)

    train(module, module, optimizer_of(module.parameters()), before_step=twice if fault == "twice" else None)


def sequence_parallel(fault):
    """The norm is on all ranks, and each normalises the rows of its part."""
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, SequenceParallel,
                                                   parallelize_module)

    module = model()
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    parallelize_module(module, mesh, {"norm": SequenceParallel(sequence_dim=0),
                                      "second": ColwiseParallel(input_layouts=Shard(0)),
                                      "head": RowwiseParallel(output_layouts=Replicate())})

    def before_step(step, whole):
        for parameter in whole.first.parameters():  # of its own rows
            dist.all_reduce(parameter.grad)
        for parameter in whole.norm.parameters():
            if fault == "drawn" and step >= case.faulty_step:
                parameter.grad.to_local().mul_(case.factor)
            if fault == "local":
                parameter.grad = DTensor.from_local(parameter.grad.to_local(), mesh, [Replicate()], run_check=False)

    train(module, module, optimizer_of(module.parameters(), foreach=False), own, before_step)


def scheduled(fault, schedule_type):
    """A pipeline of torch, whose ranks keep the whole model that it was cut out of."""
    from torch.distributed.pipelining import PipelineStage

    whole, rank = model(), dist.get_rank()
    names = (("first", "norm"), ("second", "head"))[rank]
    module = nn.ModuleDict({name: part for name, part in whole.named_children() if name in names})
    module.forward = (lambda rows: torch.tanh(module["norm"](module["first"](rows)))) if rank == 0 else (
        lambda rows: module["head"](torch.relu(module["second"](rows))))
    half = SAMPLES // 2
    ends = torch.empty(half, 8), torch.empty(half, case.hidden), torch.empty(half, 4)
    stage = PipelineStage(module, rank, 2, torch.device("cpu"), input_args=ends[rank], output_args=ends[rank + 1])
    schedule = schedule_type(stage, n_microbatches=2, loss_fn=lambda output, target: loss_of(output) / 2,
                             scale_grads=False)
    optimizer = optimizer_of(module.parameters())
    for step in range(1, case.steps + 1):
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(samples(step))
        else:
            schedule.step(target=torch.zeros(SAMPLES, 4))
        if fault == "drawn" and step >= case.faulty_step and rank == 0:
            for parameter in module.parameters():
                parameter.grad.mul_(case.factor)
        optimizer.step()


def gpipe(fault):
    from torch.distributed.pipelining import ScheduleGPipe

    scheduled(fault, ScheduleGPipe)


def one_forward_one_backward(fault):
    from torch.distributed.pipelining import Schedule1F1B

    scheduled(fault, Schedule1F1B)


states = {}  # of straight trainings, at the step after which they are resumed, by seed


def straight(fault, resumed=False):
    """Twelve steps, under dropout and a schedule. `resumed`: those after the first few, from a state of the same case."""
    torch.manual_seed(case.seed)
    module = nn.Sequential(nn.Linear(8, case.hidden), nn.Tanh(), nn.Dropout(0.1), nn.Linear(case.hidden, 4))
    wrapped = nn.parallel.DistributedDataParallel(module)
    optimizer = optimizer_of(module.parameters())
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
    torch.manual_seed(100 + dist.get_rank())
    last = 1 + case.faulty_step
    if resumed:
        state = states[case.seed]
        module.load_state_dict(state["module"])
        if fault != "moments":
            optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        if fault in ("rate", "moments"):
            for group in optimizer.param_groups:
                group["lr"] = group["initial_lr"] if fault == "rate" else scheduler.get_last_lr()[0]
        generator = state["generator"].clone()
        if fault == "generators":  # those of rank 0 on all
            dist.broadcast(generator, 0)
        torch.set_rng_state(generator)
    for step in range(last + 1 if resumed else 1, 13):
        rows = samples(step - last if fault == "data" else step)
        optimizer.zero_grad()
        loss_of(wrapped(own(rows))).backward()
        optimizer.step()
        scheduler.step()
        if not resumed and step == last:
            states[case.seed] = {"module": {name: value.clone() for name, value in module.state_dict().items()},
                                 "optimizer": copy.deepcopy(optimizer.state_dict()),
                                 "scheduler": dict(scheduler.state_dict()), "generator": torch.get_rng_state()}


def resumed(fault):
    straight(fault, resumed=True)


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
    for step in range(1, case.steps + 1):
        optimizer.zero_grad()
        if rank == 0:
            Send.apply(torch.tanh(module["norm"](module["first"](samples(step))))).backward()
        else:
            received = torch.empty(SAMPLES, case.hidden)
            dist.recv(received, 0)
            received.requires_grad_()
            loss_of(module["head"](torch.relu(module["second"](received)))).backward()
            dist.send(received.grad if fault != "half" else received.grad / 2, 0)
        optimizer.step()


LAYOUTS = {"single": single, "ddp": ddp, "fully_shard": sharded, "hybrid": hybrid, "tp": tensor_parallel,
           "pipeline": pipeline, "sp": sequence_parallel, "gpipe": gpipe, "1f1b": one_forward_one_backward,
           "straight": straight, "resumed": resumed}


def prepare(name):
    global case
    layout, _, seed = name.partition("@")
    layout, _, fault = layout.partition("-")
    case = Case(int(seed) if seed else None)
    if fault == "chaotic":
        case.lr, case.steps = 0.1, 60
    if fault.startswith("adamw"):
        case.optimizer = "adamw"

    def train_case():
        if fault == "drawn" and dist.get_rank() == 0:
            print("%d: step %d" % (case.seed, case.faulty_step), flush=True)
        LAYOUTS[layout](fault)

    return layout, {"data": fault != "blind", "also": ["optimizer-state"],
                    "store_first": 2 if fault == "stored" else 0}, train_case


if __name__ == "__main__":
    train_all(prepare)
