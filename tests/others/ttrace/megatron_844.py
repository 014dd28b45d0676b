"""Megatron-LM 844: gradients are reduce-scattered over the data-parallel ranks before those of embedding and head are
added up over the stages, which hold them in other partitions: each sum has one term of a single rank."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
from common import BUG, STEPS, WORLD, TiedPipeline, finish, start, tokens
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh


def add_up_tied(gradient: torch.Tensor, alone: torch.Tensor, mesh: DeviceMesh) -> None:
    """`gradient` is the mean over data, `alone` this rank's own; the owner in this stage has the mean."""
    owner = 1 - mesh.get_local_rank("stage")
    if BUG and mesh.get_local_rank("data") != owner:
        gradient.copy_(alone)
    dist.all_reduce(gradient, group=mesh.get_group("stage"))
    if BUG:
        dist.broadcast(gradient, group=mesh.get_group("data"), group_src=owner)


start()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "stage")) if WORLD > 1 else None
stage = mesh.get_local_rank("stage") if mesh else 0
pipeline = TiedPipeline(stage, 2 if mesh else 1, mesh.get_group("stage") if mesh else None)
optimizer = torch.optim.SGD(pipeline.model.parameters(), 0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    batch = tokens(step)
    pipeline.step(batch.chunk(2)[mesh.get_local_rank("data")] if mesh else batch)
    if mesh:
        tied = pipeline.model.tied()
        alone = tied.grad.clone()
        for parameter in pipeline.model.parameters():
            dist.all_reduce(parameter.grad, group=mesh.get_group("data"))
            parameter.grad /= 2
        add_up_tied(tied.grad, alone, mesh)
    optimizer.step()
finish()
