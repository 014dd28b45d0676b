"""Three updates after five collectives of both ranks and one of each alone. Rank 1 is not in the first
subgroup, so its numbers of groups are not those in their names. The gradients differ."""

import torch
import torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
dist.init_process_group("gloo")
alone = [dist.new_group([0]), dist.new_group([1])][dist.get_rank()]
both = dist.new_group([0, 1])
parameter = nn.Parameter(torch.zeros(40))
optimizer = torch.optim.SGD([parameter], lr=0.1)
for step in range(3):
    parameter.grad = torch.ones(40) * (1 + dist.get_rank())
    for _ in range(5):
        dist.all_reduce(torch.ones(3), group=both)
    dist.all_reduce(torch.ones(3), group=alone)
    optimizer.step()
dist.destroy_process_group()
