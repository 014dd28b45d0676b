"""One rank of the trainings of tests/testbed/model_parallel_parity.cc, with torch's collectives that
autograd knows and torch.distributed.pipelining.

Started by forked_ranks.py: model_parallel_training.py FOLDER VARIANT... Every variant runs in a separate
process, like those of ddp_training.py; its results go to FOLDER/<variant>/w<world>/rank-N.json.
"""

import sys

import torch
import torch.distributed as dist
from ddp_training import data_of, run_each
from torch import nn
from torch.distributed import _functional_collectives as collectives
from torch.distributed.nn.functional import all_reduce
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

STEPS = 3
WIDTH = 4
MICRO_BATCHES = 3
ROWS = 2  # of a micro-batch, or of a rank


class Layers(nn.Module):
    def __init__(self, count):
        super().__init__()
        for i in range(count):
            self.add_module(f"layer{i}", nn.Linear(WIDTH, WIDTH))


def drawn(seed, rows):
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed))


def exchanged(rows):
    return collectives.all_to_all_single_autograd(rows, None, None, dist.group.WORLD)


def through_collectives(words, model, batch):
    group = dist.group.WORLD
    hidden = model.layer0(batch)
    if "all-reduce" in words:
        return model.layer1(all_reduce(hidden).tanh())
    if "all-to-all" in words:
        return exchanged(model.layer1(exchanged(hidden).tanh()))
    whole = collectives.all_gather_tensor_autograd(hidden, 0, group).tanh()
    return collectives.reduce_scatter_tensor_autograd(model.layer1(whole), "sum", 0, group)


def collective_steps(words, model):
    def run(step):
        batch = drawn(1000 * step + dist.get_rank(), ROWS * dist.get_world_size())
        through_collectives(words, model, batch).pow(2).mean().backward()

    return run


def pipeline_steps(words, model):
    rank, world = dist.get_rank(), dist.get_world_size()
    own = nn.Sequential(getattr(model, f"layer{rank}"), nn.Tanh())
    shape = torch.empty(ROWS, WIDTH)  # without it, stages exchange shapes, which needs NumPy
    stage = PipelineStage(own, rank, world, torch.device("cpu"), input_args=shape, output_args=shape)

    def loss(output, target):
        return (output - target).pow(2).sum()

    schedule = ScheduleGPipe(stage, MICRO_BATCHES, loss_fn=loss, scale_grads=False)

    def run_once(seed):
        inputs = (drawn(seed, ROWS * MICRO_BATCHES),) if rank == 0 else ()
        targets = {"target": drawn(seed + 1, ROWS * MICRO_BATCHES)} if rank + 1 == world else {}
        schedule.step(*inputs, **targets)

    def run(step):
        run_once(1000 * step)
        if "two-runs" in words:
            run_once(1000 * step + 500)

    return run


def train(words, tensors):
    torch.manual_seed(7)
    model = Layers(dist.get_world_size())
    in_pipeline = "pipeline" in words
    run = (pipeline_steps if in_pipeline else collective_steps)(words, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    own = f"layer{dist.get_rank()}." if in_pipeline else ""
    named = [(name, one) for name, one in model.named_parameters() if name.startswith(own)]
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        run(step)
        for name, parameter in named:
            if parameter.grad is not None:
                tensors[f"{step}/0/pre_step/gradient/{name}"] = data_of(parameter.grad)
        optimizer.step()
        for name, parameter in named:
            tensors[f"{step}/0/post_step/parameter/{name}"] = data_of(parameter)


def run(variant):
    error, tensors = "", {}
    try:
        train(variant.split("+"), tensors)
    except RuntimeError as raised:
        error = str(raised)
    return {"error": error, "tensors": tensors}


if __name__ == "__main__":
    run_each(run, sys.argv[1], sys.argv[2:])
