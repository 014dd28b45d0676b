"""What FullyShardedDataParallel knows of the parameters that it divides."""

import sys
import weakref

from _lockstep._placement import EnginePart, Placement


def _handles_in(modules):
    """Those of the flat parameters that it divides."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    wrapper = getattr(fsdp, "FullyShardedDataParallel", None)
    for module in modules:
        if wrapper is None or not isinstance(module, wrapper):
            continue
        handle = getattr(module, "_handle", None)
        if handle is not None and handle.uses_sharded_strategy:
            yield handle


def _group_of(handle):
    return "fsdp %d" % handle.rank


def _part_of(info, shape):
    """Of an original parameter in the flat one."""
    offset = info.intra_param_start_idx if info.in_shard else shape.numel()
    return (shape.numel(),), (offset,)


def parts(modules):
    """By id of the parameter that the optimizer has."""
    found = {}
    for handle in _handles_in(modules):
        flat, group = handle.flat_param, _group_of(handle)
        if not handle._use_orig_params:
            size = flat.numel()
            found[id(flat)] = EnginePart(((size * handle.world_size,), (size * handle.rank,)), group)
            continue
        for parameter, info, shape in zip(flat._params, flat._shard_param_infos, flat._shapes):
            found[id(parameter)] = EnginePart(_part_of(info, shape), group)
    return found


def gathered(modules):
    """Weights that it gathers for forward passes: modules, names of their attributes, the optimizer's parameters, and
    functions for the parts of this rank."""
    for handle in _handles_in(modules):
        flat = handle.flat_param
        if not handle._use_orig_params:
            yield handle._fully_sharded_module, "_flat_param", flat, _reader(handle, _held_of_flat)
            continue
        for index, (parameter, place) in enumerate(zip(flat._params, flat._param_infos)):
            yield place.module, place.param_name, parameter, _reader(handle, _held_of_original, index)


def _reader(handle, read, *arguments):
    """It does not keep the handle alive."""
    reference = weakref.ref(handle)

    def held():
        handle = reference()
        return read(handle, *arguments) if handle is not None else None
    return held


def _held_of_flat(handle):
    flat = handle.flat_param
    local, whole = flat._local_shard, flat._unpadded_unsharded_size.numel()
    begin = min(local.numel() * handle.rank, whole)  # the last ranks hold what pads it
    return Placement(local[:whole - begin], ((whole,), (begin,)), _group_of(handle))


def _held_of_original(handle, index):
    flat = handle.flat_param
    info, shape = flat._shard_param_infos[index], flat._shapes[index]
    begin, size = (info.offset_in_shard, info.numel_in_shard) if info.in_shard else (0, 0)
    return Placement(flat._local_shard[begin:begin + size], _part_of(info, shape), _group_of(handle))
