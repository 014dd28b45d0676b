"""The training of the cells of scenarios/hooks, with torch.nn.parallel."""

import contextlib
import datetime
import os

import torch
import torch._dynamo  # DDP imports it on first use: once here, not in every process
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from hooks_scenarios import SCENARIOS

LIMIT = datetime.timedelta(seconds=60)
SMALL_BUCKET_MB = 1 / 2**20


def prior_gradients(cell, model):
    for parameter in model.parameters() if cell.is_on("prior") else ():
        if parameter.requires_grad:
            yield parameter, parameter.detach() / 2


class Kept:
    """Results of a process: the tensors of every step, and its exit."""

    def __init__(self):
        self.step, self.error, self.tensors = 0, "", {}

    def keep(self, what, name, tensor):
        value = None if tensor is None else tensor.detach().clone()
        self.tensors[f"{self.step}/0/{what}/{name}"] = value

    def saved(self):
        return {"step": self.step, "error": self.error, "tensors": self.tensors}


def train_steps(cell, scenario, model, kept, backward):
    """`backward(step)` computes the gradients of a step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=scenario.learning_rate())
    for kept.step in range(1, cell.steps + 1):
        optimizer.zero_grad()
        backward(kept.step)
        for name, parameter in model.named_parameters():
            kept.keep("pre_step/gradient", name, parameter.grad)
        optimizer.step()
        for name, parameter in model.named_parameters():
            kept.keep("post_step/parameter", name, parameter)


def made(cell, tiling):
    """The scenario's part, its model, and the micro-batches of a step."""
    scenario = SCENARIOS[cell.scenario](cell)
    torch.manual_seed(cell.seed)
    model = scenario.model(scenario.tiling() if tiling else None).to(cell.dtype)
    return scenario, model, scenario.accumulation()


def wrapped(cell, scenario, model):
    if cell.world == 1:
        return model
    bucket = {"bucket_cap_mb": SMALL_BUCKET_MB} if cell.axis("bucket") == "small" else {}
    is_view = cell.is_on("bucket_view")
    options = scenario.ddp_options()
    return DistributedDataParallel(model, gradient_as_bucket_view=is_view, **options, **bucket)


def train_rank(cell, rank, kept):
    scenario, model, batches = made(cell, tiling=True)
    ddp = wrapped(cell, scenario, model)

    def backward(step):
        for parameter, prior in prior_gradients(cell, model):
            parameter.grad = prior
        for index in range(batches):
            is_quiet = cell.is_on("no_sync") and index + 1 < batches and cell.world > 1
            with ddp.no_sync() if is_quiet else contextlib.nullcontext():
                (scenario.loss(ddp, step, rank, index) / batches).backward()

    train_steps(cell, scenario, model, kept, backward)


def train_reference(cell, _rank, kept):
    """One process, no tiles, no DDP: the mean over the shards of all ranks."""
    scenario, model, batches = made(cell, tiling=False)
    parameters = list(model.parameters())

    def gradients(step, owner):
        model.zero_grad()
        losses = [scenario.loss(model, step, owner, i) / batches for i in range(batches)]
        sum(losses[1:], losses[0]).backward()
        return [parameter.grad for parameter in parameters]

    def backward(step):
        shards = [gradients(step, owner) for owner in range(cell.world)]
        for parameter, by_rank in zip(parameters, zip(*shards)):
            there = [gradient for gradient in by_rank if gradient is not None]
            parameter.grad = sum(there[1:], there[0]) / cell.world if there else None
        for parameter, prior in prior_gradients(cell, model):
            parameter.grad = prior if parameter.grad is None else prior + parameter.grad

    train_steps(cell, scenario, model, kept, backward)


def run(train, cell, rank, world, folder):
    """Trains as one rank of `world`, in this process; writes its results to FOLDER/rank-N.pt."""
    kept = Kept()
    try:
        if world > 1:
            store = dist.FileStore(str(folder / "store"), world)
            dist.init_process_group(
                "gloo", store=store, rank=rank, world_size=world, timeout=LIMIT
            )
        train(cell, rank, kept)
    except RuntimeError as raised:
        kept.error = str(raised)
    file = folder / f"rank-{rank}.pt"
    torch.save(kept.saved(), f"{file}.tmp")
    os.rename(f"{file}.tmp", file)
