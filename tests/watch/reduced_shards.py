"""The model of reductions.py, divided by fully_shard, with reductions that are right and wrong."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultReduceScatter


class WithoutRank(DefaultReduceScatter):
    """As if what one rank contributed were 0."""

    def __init__(self, left_out):
        self.left_out = left_out

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        if dist.get_rank() == self.left_out:
            input_tensor.zero_()
        return super().__call__(output_tensor, input_tensor, group, op, async_op)


class OfRank(DefaultReduceScatter):
    """All take what one rank contributed."""

    def __init__(self, source):
        self.source = source

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        dist.broadcast(input_tensor, self.source)
        return super().__call__(output_tensor, input_tensor, group, op, async_op)


def _mesh(case):
    if "shards" in case:
        return init_device_mesh("cpu", (case.ranks,))
    mesh = init_device_mesh("cpu", (2, case.ranks // 2), mesh_dim_names=("replicas", "shards"))
    return mesh["shards"] if "within" in case else mesh  # the training is to reduce the rest


def divide(net, case):
    mesh = _mesh(case)
    mixed = MixedPrecisionPolicy(param_dtype=torch.bfloat16 if "mixed" in case else None,
                                 reduce_dtype=torch.float32 if "float-sums" in case else None)
    offload = CPUOffloadPolicy(pin_memory=False) if "offload" in case else OffloadPolicy()
    for module in net.first, net.part, net:
        fully_shard(module, mesh=mesh, mp_policy=mixed, offload_policy=offload)
        if "factor" in case:
            module.set_force_sum_reduction_for_comms(True)
            module.set_gradient_divide_factor(float(case.ranks**2))
        if "missing" in case:
            module.set_custom_reduce_scatter(WithoutRank(2))
        if "of-one" in case:
            module.set_custom_reduce_scatter(OfRank(1))
        if "twice" in case:
            module.set_all_reduce_hook(lambda gradients: gradients.div_(case.ranks))


def set_sync(net, case, step, number, passes):
    """Before a backward pass of a step."""
    synced = 1 if "early" in case else passes
    is_synced = number == synced and "nothing" not in case or "each" in case
    if "rarely" in case:  # the optimizer steps without gradients in the others, which does nothing
        is_synced = step == 4
    if "replicas-later" in case:
        net.set_requires_all_reduce(is_synced)
    else:
        net.set_requires_gradient_sync(is_synced)
