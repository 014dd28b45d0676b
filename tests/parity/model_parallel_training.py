"""One rank of the trainings of tests/testbed/model_parallel_parity.cc, with torch's collectives that
autograd knows, its tensor parallelism and torch.distributed.pipelining.

Started by forked_ranks.py: model_parallel_training.py FOLDER VARIANT... Every variant runs in a separate
process, like those of ddp_training.py; its results go to FOLDER/<variant>/w<world>/rank-N.json.
"""

import sys

import torch
import torch.distributed as dist
from ddp_training import data_of, run_each
from torch import nn
from torch.distributed import _functional_collectives as collectives
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.nn.functional import all_reduce
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

STEPS = 3
WIDTH = 4
SPLIT_WIDTH = 12  # over 2 or 3 ranks
MICRO_BATCHES = 3
ROWS = 2  # of a micro-batch, or of a rank


class Layers(nn.Module):
    def __init__(self, count):
        super().__init__()
        for i in range(count):
            self.add_module(f"layer{i}", nn.Linear(WIDTH, WIDTH))


class SplitLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, SPLIT_WIDTH, bias=False)
        self.down = nn.Linear(SPLIT_WIDTH, WIDTH, bias=False)


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


def split_steps(words, model):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})

    def run(step):
        hidden = model.first(drawn(1000 * step, ROWS)).tanh()  # of the same samples
        model.down(model.up(hidden).tanh()).pow(2).mean().backward()

    return run


def own_part(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def train(words, tensors):
    torch.manual_seed(7)
    is_split, in_pipeline = "tensor-parallel" in words, "pipeline" in words
    model = SplitLayers() if is_split else Layers(dist.get_world_size())
    steps = split_steps if is_split else pipeline_steps if in_pipeline else collective_steps
    run = steps(words, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    own = f"layer{dist.get_rank()}." if in_pipeline else ""
    named = [(name, one) for name, one in model.named_parameters() if name.startswith(own)]
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        run(step)
        for name, parameter in named:
            if parameter.grad is not None:
                tensors[f"{step}/0/pre_step/gradient/{name}"] = data_of(own_part(parameter.grad))
        optimizer.step()
        for name, parameter in named:
            tensors[f"{step}/0/post_step/parameter/{name}"] = data_of(own_part(parameter))


def run(variant):
    error, tensors = "", {}
    try:
        train(variant.split("+"), tensors)
    except RuntimeError as raised:
        error = str(raised)
    return {"error": error, "tensors": tensors}


if __name__ == "__main__":
    run_each(run, sys.argv[1], sys.argv[2:])
