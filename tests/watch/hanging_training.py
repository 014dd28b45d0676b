"""A training under DDP that stops in the way HANG names; without it, one that ends. PAUSE: seconds of the
pauses of healthy ones. ENGINE: ddp (default), fully_shard, or by_hand. STORE: where the ranks meet.
STARTED: a folder in which both ranks say that they have started."""

import os
import pathlib
import signal
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

HANG = os.environ.get("HANG", "")
PAUSE = float(os.environ.get("PAUSE", "0"))
ENGINE = os.environ.get("ENGINE", "ddp")
RANK = int(os.environ["RANK"])
STARTED = pathlib.Path(os.environ["STARTED"])
STEPS = 6


def load_next_batch(step):
    if HANG.startswith("asleep") and RANK == 1 and step == 3:
        time.sleep(600)  # asleep
    if HANG == "long_pause" and step == 3:
        time.sleep(PAUSE if RANK == 0 else 600)  # no collective is open at first
    if HANG == "busy" and RANK == 1 and step == 3:
        "a" * 30 + "b" and __import__("re").match(r"(a+)+$", "a" * 60 + "b")  # holds the interpreter
    return torch.randn(6, 8, generator=torch.Generator().manual_seed(100 * step + RANK))


def evaluate():
    time.sleep(PAUSE)


def wait_until_both_have_started():
    """A busy machine starts one rank seconds after the other, which must not look like a stall."""
    STARTED.mkdir(parents=True, exist_ok=True)
    (STARTED / f"rank-{RANK}").touch()
    while len(list(STARTED.glob("rank-*"))) < 2:
        time.sleep(0.05)


def main():
    torch.set_num_threads(1)
    wait_until_both_have_started()
    if HANG == "rendezvous" and RANK == 1:
        time.sleep(600)  # before the rendezvous
    if HANG == "joins_late":
        time.sleep(8 if RANK == 0 else 12)  # less than a stall apart, after more than one
    dist.init_process_group("gloo", init_method=os.environ.get("STORE"), rank=RANK, world_size=2,
                            timeout=timedelta(seconds=4 if HANG == "gives_up" else 600))
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    model = module
    if ENGINE == "ddp":
        model = nn.parallel.DistributedDataParallel(module)
    elif ENGINE == "fully_shard":
        fully_shard(module, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
    first, second = dist.new_group([0, 1]), dist.new_group([0, 1])
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    if HANG == "asleep_late":  # more collectives than the recorder keeps
        for _ in range(4000):
            dist.all_reduce(torch.ones(1))
    for step in range(1, STEPS + 1):
        if HANG in ("a_batch_less", "gives_up") and RANK == 1 and step == STEPS:
            break
        if HANG == "ends_early" and RANK == 1 and step == 4:
            return
        optimizer.zero_grad()
        model(load_next_batch(step)).pow(2).mean().backward()
        if ENGINE == "by_hand":
            for parameter in module.parameters():
                dist.all_reduce(parameter.grad)
        if HANG == "apart" and RANK == 1 and step == 3:  # no hang, but a difference
            module[0].weight.grad.mul_(2)
        if HANG == "branch" and RANK == 0 and step == 3:
            dist.all_reduce(torch.ones(1))  # in a branch of rank 0
            time.sleep(600)
        if HANG == "stopped" and RANK == 1 and step == 3:
            os.kill(os.getpid(), signal.SIGSTOP)
        if HANG == "killed" and RANK == 1 and step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if step == {"shapes": 3, "shapes_at_first": 1}.get(HANG):
            dist.all_reduce(torch.ones(4 if RANK == 0 else 400000))
        if HANG == "root" and step == 3:
            dist.broadcast(torch.ones(4), src=RANK)  # each rank is the root
        if HANG == "order" and step == 3:
            for group in (first, second) if RANK == 0 else (second, first):
                dist.all_reduce(torch.ones(2), group=group)
        if HANG == "messages" and step == 3:
            dist.recv(torch.zeros(4), 1 - RANK)  # each rank waits
        if HANG in ("message", "late_message") and step == 3:
            if RANK == 0:
                dist.irecv(torch.zeros(4), 1).wait()  # the message
            else:
                time.sleep(PAUSE if HANG == "late_message" else 600)  # before the message
                dist.send(torch.zeros(4), 0)
        if HANG == "exchanges" and step == 3:
            for _ in range(int(PAUSE / 0.4)):
                if RANK == 0:
                    dist.recv(torch.zeros(4), 1)
                else:
                    time.sleep(0.4)
                    dist.send(torch.zeros(4), 0)
        if HANG == "evaluates" and step == 3:
            if RANK == 0:
                evaluate()
            dist.barrier()
        if HANG == "checkpoints" and step == 3:
            evaluate()
        optimizer.step()
    dist.barrier()  # the last
    if HANG == "leaves_early" and RANK == 0:
        time.sleep(PAUSE)
    dist.destroy_process_group()


main()
