"""A training under DDP whose rank 0 switches its own observation on, off and on again as a user would, each
time when the switch before has taken effect for some steps. Prints its last step."""

import os
import pathlib
import struct

import torch
import torch.distributed as dist
from torch import nn

import meeting

FILES = pathlib.Path(os.environ["LOCKSTEP_WATCH_FOLDER"])
SOME = 5  # steps


class User:
    """Asks for one switch after the other."""

    def __init__(self):
        self._names = ["on", "off", "on"]
        self._asked = None  # a file

    def is_done(self, step):
        if self._asked is not None and self._asked.exists():
            return False
        switched_at = struct.unpack_from("<Q", (FILES / "watch.control").read_bytes(), 16)[0] // 2
        if step < switched_at + SOME:
            return False
        if not self._names:
            return True
        self._asked = FILES.parent / self._names.pop(0)
        self._asked.touch()
        return False


torch.set_num_threads(1)
meeting.join()
torch.manual_seed(0)
module = nn.Linear(8, 4)
wrapped = nn.parallel.DistributedDataParallel(module)
optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
user, step, is_done = User(), 0, torch.zeros(1)
while not is_done.item():
    step += 1
    optimizer.zero_grad()
    rows = torch.randn(6, 8, generator=torch.Generator().manual_seed(2 * step + dist.get_rank()))
    wrapped(rows).pow(2).mean().backward()
    optimizer.step()
    if dist.get_rank() == 0:
        is_done.fill_(user.is_done(step))
    dist.broadcast(is_done, 0)
if dist.get_rank() == 0:
    print("trained %d steps" % step)
dist.destroy_process_group()
