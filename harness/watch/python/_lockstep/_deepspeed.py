"""What DeepSpeed's ZeRO knows of the parameters that it divides."""

import sys

from _lockstep._objects import keep_type, objects_of, type_of
from _lockstep._placement import EnginePart

# Its modules, the optimizers in them that divide parameters, and where those keep their parts.
_ZERO = (("deepspeed.runtime.zero.stage_1_and_2", "DeepSpeedZeroOptimizer", "single_partition_of_fp32_groups"),
         ("deepspeed.runtime.zero.stage3", "DeepSpeedZeroOptimizer_Stage3", "fp32_partitioned_groups_flat"))

for _module, _name, _ in _ZERO:
    keep_type(_module, _name)


def has_plain_tensors():
    """Whether optimizers may hold tensors that are no parameters of modules."""
    return any(module in sys.modules for module, _, _ in _ZERO)


def parts(modules):
    """By id of the flat parameter. Stages 1 and 2 copy it after each step to parameters of the modules."""
    found = {}
    for module, name, attribute in _ZERO:
        owner = type_of(module, name)
        if owner is None:
            continue
        for optimizer in objects_of(owner):
            world = sys.modules["torch.distributed"]
            group = getattr(optimizer, "dp_process_group", None)
            rank, size = world.get_rank(group), world.get_world_size(group)
            whole = getattr(optimizer, "bit16_groups", [])
            for index, flat in enumerate(getattr(optimizer, attribute, [])):
                count = flat.numel()
                found[id(flat)] = EnginePart(((count * size,), (count * rank,)), "zero %d" % rank,
                                             list(whole[index]) if index < len(whole) else ())
    return found


def gathered(modules):
    return ()
