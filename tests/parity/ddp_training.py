"""One rank of the training of tests/testbed/ddp_parity.cc, with torch.nn.parallel.

Started by forked_ranks.py: ddp_training.py FOLDER VARIANT... Every variant runs in a separate process,
forked from this one, because its peers may die with it. Its results go to
FOLDER/<variant>/w<world>/rank-N.json.
"""

import contextlib
import datetime
import json
import os
import pathlib
import pickle
import sys
import traceback

os.environ["TORCH_FR_BUFFER_SIZE"] = "10000"  # the flight recorder logs every collective
import torch
import torch._dynamo  # DDP imports it on first use: once here, not in every process
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 3
SMALL_BUCKET_BYTES = 128


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(3))
        self.last = nn.Linear(5, 3)
        self.extra = nn.Linear(5, 5)
        self.norm = nn.BatchNorm1d(5)
        self.first = nn.Linear(6, 5)

    def forward(self, batch, uses_extra, adds_extra):
        hidden = self.norm(self.first(batch)).relu()
        if not uses_extra:
            return [self.last(hidden) * self.scale]
        more = self.extra(hidden)
        if adds_extra:
            hidden = hidden + more
        return [self.last(hidden) * self.scale, more]


def uses_extra(words, step, rank, world):
    if "never" in words:
        return False
    if "not-on-last-rank" in words:
        return rank != world - 1
    return not ("not-in-step-2" in words and step == 2)


def half_mean(world, bucket):
    reduced = bucket.buffer() / world
    dist.all_reduce(reduced)
    future = torch.futures.Future()
    future.set_result(reduced * 0.5)
    return future


def data_of(tensor):
    return bytes(tensor.detach().contiguous().reshape(-1).view(torch.uint8).tolist()).hex()


def train(words, rank, world, tensors):
    torch.manual_seed(100 * rank + 7)
    model = Model()
    options = {"bucket_cap_mb": SMALL_BUCKET_BYTES / 2**20} if "small-buckets" in words else {}
    ddp = DistributedDataParallel(
        model,
        find_unused_parameters="find-unused" in words,
        static_graph="static" in words,
        gradient_as_bucket_view="bucket-view" in words,
        broadcast_buffers="no-broadcast" not in words,
        **options,
    )
    if "comm-hook" in words:
        ddp.register_comm_hook(world, half_mean)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def backward(step, micro_batch):
        generator = torch.Generator().manual_seed(1000 * step + 100 * micro_batch + rank)
        batch = torch.randn(4 + rank, 6, generator=generator)
        takes_part = uses_extra(words, step, rank, world)
        outputs = ddp(batch, takes_part, "output-without-loss" not in words)
        outputs[0].mul_(3)
        outputs[0].pow(2).mean().backward()
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                key = f"{step}/{micro_batch}/pre_step/gradient/{name}"
                tensors[key] = data_of(parameter.grad)

    def train_step(step):
        optimizer.zero_grad()
        if "no-sync" in words:
            with ddp.no_sync():
                backward(step, 0)
        backward(step, 1)
        optimizer.step()

    def note(step):
        for name, parameter in model.named_parameters():
            tensors[f"{step}/1/post_step/parameter/{name}"] = data_of(parameter)
        for name, buffer in model.named_buffers():
            tensors[f"{step}/1/post_step/buffer/{name}"] = data_of(buffer)

    joins = "join" in words or "join-by-present" in words
    joining = ddp.join("join" in words) if joins else contextlib.nullcontext()
    with joining:
        for step in range(1, STEPS + 1):
            if joins and rank == world - 1 and step == STEPS:
                continue
            train_step(step)
            if not (joins and step == STEPS):
                note(step)
    if joins:
        note(STEPS)


def collectives():
    """Operation, dtype and number of elements of each call, in order."""
    trace = pickle.loads(torch._C._distributed_c10d._dump_fr_trace())
    called = []
    for entry in trace["entries"]:
        operation = entry["profiling_name"].removeprefix("gloo:").replace("_", "")
        elements = sum(torch.Size(shape).numel() for shape in entry["input_sizes"])
        dtypes = entry["input_dtypes"]
        called.append([operation, dtypes[0].lower() if dtypes else "", elements])
    return called


def join_group(variant):
    limit = datetime.timedelta(seconds=60)
    agent = dist.TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=limit
    )
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.PrefixStore(variant, agent)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=limit)


def run(variant):
    error, tensors = "", {}
    try:
        train(variant.split("+"), dist.get_rank(), dist.get_world_size(), tensors)
    except RuntimeError as raised:
        error = str(raised)
    return {"error": error, "collectives": collectives(), "tensors": tensors}


def run_each(run_variant, folder, variants):
    """Calls `run_variant` in a separate process for each variant, and stores its result. Exits with a
    message if a process did not store it."""
    failed = []
    for variant in variants:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                torch.set_num_threads(1)  # as in forked_ranks.py, once in each forked process
                file = pathlib.Path(folder) / variant / f"w{os.environ['WORLD_SIZE']}"
                file.mkdir(parents=True, exist_ok=True)
                join_group(variant)
                outcome = json.dumps(run_variant(variant))
                (file / f"rank-{os.environ['RANK']}.json").write_text(outcome)
                status = 0
            except BaseException:
                traceback.print_exc()
            os._exit(status)
        if ended := os.waitpid(child, 0)[1]:
            failed.append(f"{variant}: {os.waitstatus_to_exitcode(ended)}")
    if failed:
        sys.exit(f"rank {os.environ['RANK']}: a process of a variant did not exit with 0: {', '.join(failed)}")


if __name__ == "__main__":
    run_each(run, sys.argv[1], sys.argv[2:])
