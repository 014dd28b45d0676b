"""Four steps under DDP, of ranks that torchrun begins again. In the first ATTEMPTS executions rank 1 fails after step
3, by FAIL: raise, kill, exit, or first (before its first step). DIFFER: in the first one it is apart from step 2 on.
The ranks meet in a file of DIR, a new one each time."""

import os
import signal

import torch
import torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
is_to_fail = rank == 1 and attempt < int(os.environ.get("ATTEMPTS", "1"))
fail = os.environ.get("FAIL", "raise")
if is_to_fail and fail == "first":
    raise ValueError("no checkpoint, attempt %d" % attempt)
dist.init_process_group("gloo", init_method="file://%s/meeting-%d" % (os.environ["DIR"], attempt), rank=rank,
                        world_size=int(os.environ["WORLD_SIZE"]))
torch.manual_seed(0)
module = nn.Linear(8, 4)
wrapped = nn.parallel.DistributedDataParallel(module)
optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
for step in range(1, 5):
    optimizer.zero_grad()
    rows = torch.randn(6, 8, generator=torch.Generator().manual_seed(10 * step + rank))
    wrapped(rows).pow(2).mean().backward()
    optimizer.step()
    if is_to_fail and step == 1 and attempt == 0 and "DIFFER" in os.environ:
        with torch.no_grad():
            module.bias.add_(1)
    if is_to_fail and step == 3:
        if fail == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fail == "exit":
            os._exit(3)
        raise ValueError("corrupt shard, attempt %d" % attempt)
dist.destroy_process_group()
