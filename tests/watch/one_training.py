"""Four steps under DDP, or STEPS. With FAULT in the environment the loss is computed on the unwrapped module; with
FAULT_FROM it is so from that step on. SAME_DATA: all ranks see the same samples. SCALED_FROM: gradients are doubled
on all ranks from that step on. NOISE: they grow by 0.001 with each run; the file counts the runs. PAUSE: seconds in
each step. LATE: so many more on rank 1, before it begins. CHECKPOINT, COMPILE: so is the module. COUNT: its inputs
have a number as a tensor, too. SHARDED: by fully_shard, over a mesh without names. WORKERS: data workers are forked
before the ranks meet. END: how the ranks end, `_exit` or `kill` (rank 1); `caught`, `caught-at-once`: rank 1 leaves
in a handler, or does not after all, `recovered`; `first`: rank 1 raises before its first step, and its error says
SAID, too; `worker`: its data worker raises in the third step. TOOL: rank 0 first runs a process of its own that
trains."""

import os
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.fsdp
from torch import nn
from torch.utils.checkpoint import checkpoint

import meeting

torch.set_num_threads(1)
if "WORKERS" in os.environ:
    workers = iter(torch.utils.data.DataLoader(range(1000), num_workers=2))
    next(workers)
meeting.join()
torch.manual_seed(0)
if "TOOL" in os.environ and dist.get_rank() == 0:
    subprocess.run([sys.executable, "-c", "import torch; p = torch.nn.Parameter(torch.ones(2)); "
                    "p.sum().backward(); torch.optim.SGD([p], 0.1).step()"], check=True)


class Images(torch.utils.data.Dataset):
    def __init__(self, count):
        self.known = dict.fromkeys(range(count), torch.ones(8))

    def __len__(self):
        return 100

    def __getitem__(self, number):
        return self.known[number]  # the line of the worker


class Model(nn.Sequential):
    def forward(self, rows, count=None):
        if "CHECKPOINT" in os.environ:
            return checkpoint(super().forward, rows, use_reentrant=False)
        return super().forward(rows)


module = Model(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
if "COMPILE" in os.environ:
    module.compile(backend="eager", fullgraph=True)
earlier_runs = 0
if "NOISE" in os.environ:
    with open(os.environ["NOISE"], "a+") as runs:
        earlier_runs = os.path.getsize(runs.name)
        dist.barrier()
        if dist.get_rank() == 0:
            runs.write("x")
if os.environ.get("END") == "first" and dist.get_rank() == 1:
    raise ValueError("bad sample 17" + os.environ.get("SAID", ""))
if "SHARDED" in os.environ:
    wrapped = torch.distributed.fsdp.fully_shard(module)
else:
    wrapped = nn.parallel.DistributedDataParallel(module)
optimizer = torch.optim.AdamW(module.parameters())
images = None
if os.environ.get("END") == "worker":
    loader = torch.utils.data.DataLoader(Images(100 if dist.get_rank() == 0 else 2), num_workers=1, prefetch_factor=1)
    images = iter(loader)
for step in range(int(os.environ.get("STEPS", "4"))):
    optimizer.zero_grad()
    if dist.get_rank() == 1:
        time.sleep(float(os.environ.get("LATE", "0")))
    if images is not None:
        next(images)
    mine = 0 if "SAME_DATA" in os.environ else dist.get_rank()
    rows = torch.randn(6, 8, generator=torch.Generator().manual_seed(100 * step + mine))
    is_faulty = "FAULT" in os.environ or step + 1 >= int(os.environ.get("FAULT_FROM", "1000000"))
    count = {"count": torch.tensor(6)} if "COUNT" in os.environ else {}
    (module if is_faulty else wrapped)(rows, **count).pow(2).mean().backward()
    factor = 2.0 if step + 1 >= int(os.environ.get("SCALED_FROM", "1000000")) else 1.0
    factor *= 1 + 0.001 * earlier_runs
    if factor != 1:
        for parameter in module.parameters():
            parameter.grad.mul_(factor)
    optimizer.step()
    time.sleep(float(os.environ.get("PAUSE", "0")))
if os.environ.get("END") == "_exit":
    os._exit(0)
if os.environ.get("END") in ("caught", "caught-at-once", "recovered") and dist.get_rank() == 1:
    try:
        try:
            raise ValueError("bad sample 18")  # the line of the error
        except ValueError:
            if os.environ["END"] == "caught-at-once":
                os._exit(5)
            sys.exit(5)
    except SystemExit:
        if os.environ["END"] != "recovered":
            raise
if os.environ.get("END") == "kill" and dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.destroy_process_group()
