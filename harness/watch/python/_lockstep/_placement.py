"""The part of a tensor that a rank holds, and the ranks that hold copies of it. Runs no operation of
torch on a DTensor, because it could communicate."""

import sys

from _lockstep._objects import objects_of, type_of


class Placement:
    """`local`: the tensor in this rank's memory; None: there is none. `part`: the global shape and the
    offset in it; None: it is whole. `group`: ranks of equal group hold copies; "": all ranks do.
    `reason`: why it cannot be compared with other ranks; "": it can. `is_summand`: the values of all groups are
    added up."""

    __slots__ = ("local", "part", "group", "reason", "is_summand")

    def __init__(self, local, part=None, group="", reason="", is_summand=False):
        self.local, self.part, self.group, self.reason = local, part, group, reason
        self.is_summand = is_summand

    def show(self, tensor):
        """Gives a tensor that cannot be compared its type and shape, which one that does not exist lacks."""
        if self.local is None and tensor is not None and not tensor.is_nested:
            self.local = tensor


_meshes_of_shards = set()  # meshes without names that fully_shard divides over


def note_meshes_of_fully_shard(modules):
    """Its parameters lie on a mesh that may have no name, and divide only samples over it."""
    for module in modules:
        get_state = getattr(type(module), "_get_fsdp_state", None)
        group = getattr(get_state(module), "_fsdp_param_group", None) if get_state is not None else None
        mesh = getattr(getattr(group, "mesh_info", None), "mesh", None)
        if mesh is not None and mesh.mesh_dim_names is None:
            _meshes_of_shards.add(mesh)


def _names_of_dimensions(mesh):
    if mesh.mesh_dim_names:
        return mesh.mesh_dim_names
    if mesh.ndim == 1 and mesh in _meshes_of_shards:
        return ["fsdp"]
    return ["dimension %d" % i for i in range(mesh.ndim)]


def _of_dtensor(tensor):
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    local, mesh, placements = tensor._local_tensor, tensor.device_mesh, tensor.placements
    if hasattr(type(local), "__tensor_flatten__"):  # such as one that a collective has yet to fill
        return Placement(None, reason="a DTensor of a tensor subclass, %s" % type(local).__name__)
    names = _names_of_dimensions(mesh)
    partial = [(name, getattr(placement, "reduce_op", "")) for name, placement in zip(names, placements)
               if placement.is_partial()]
    for name, operation in partial:
        if operation != "sum":
            return Placement(local, reason="a partial %s over %s" % (operation or "value", name))
    cut = [i for i, placement in enumerate(placements) if not placement.is_replicate()]
    if not cut:
        return Placement(local)
    shape = tuple(tensor._spec.tensor_meta.shape)
    local_shape, offset = compute_local_shape_and_global_offset(shape, mesh, placements)
    if tuple(local_shape) != tuple(local.shape):
        return Placement(local, reason="an unknown part of a tensor of shape %s" % list(shape))
    coordinate = mesh.get_coordinate()
    group = ", ".join("%s %d" % (names[i], coordinate[i]) for i in cut)
    if all(placement.is_partial() or placement.is_replicate() for placement in placements):
        return Placement(local, None, group, is_summand=bool(partial))
    if local.numel() == 0:  # an empty part lies at the end
        offset = [size - own for size, own in zip(shape, local.shape)]
    return Placement(local, (shape, tuple(offset)), group, is_summand=bool(partial))


def is_stand_in(tensor):
    """Whether it has no memory: of a transform such as vmap, or of a trace."""
    functorch = getattr(sys.modules.get("torch._C"), "_functorch", None)
    is_wrapped = getattr(functorch, "is_functorch_wrapped_tensor", None)
    return getattr(tensor, "fake_mode", None) is not None or is_wrapped is not None and is_wrapped(tensor)


def _reason_without_bytes(tensor):
    if is_stand_in(tensor):
        return "a stand-in without memory, of a trace or a transform"
    if tensor.is_nested:
        return "a nested tensor"
    if str(tensor.layout) != "torch.strided":
        return "%s layout" % str(tensor.layout)[len("torch."):]
    if tensor.is_meta:
        return "a meta tensor"
    if tensor.is_quantized:
        return "quantized dtype " + str(tensor.dtype)[len("torch."):]
    if tensor.numel() and tensor.untyped_storage().nbytes() == 0:
        return "its storage is freed"
    return ""


def placement_of(tensor, known=None):
    """The placement of a parameter, a gradient or another tensor of a model. `known`: the placement of
    its parameter if an engine or the user says it: part and group."""
    if tensor is None:
        return Placement(None, reason="undefined: no gradient")
    if hasattr(tensor, "_local_tensor") and hasattr(tensor, "placements"):
        return _of_dtensor(tensor)
    if hasattr(type(tensor), "__tensor_flatten__"):
        return Placement(None, reason="a tensor subclass, %s" % type(tensor).__name__)
    reason = _reason_without_bytes(tensor)
    if reason:
        return Placement(None, reason=reason)
    part, group = known if known else (None, "")
    if part is not None and len(part[0]) != tensor.dim():
        return Placement(None, reason="gathered, where its parameter is a shard")
    return Placement(tensor, part, group)


def _of_flat_parameter(handle):
    """Parts of the parameters of an FSDP1 unit, by id."""
    flat = handle.flat_param
    group = "fsdp %d" % handle.rank
    if not handle._use_orig_params:
        size = flat.numel()
        return {id(flat): (((size * handle.world_size,), (size * handle.rank,)), group)}
    parts = {}
    for parameter, info, shape in zip(flat._params, flat._shard_param_infos, flat._shapes):
        offset = info.intra_param_start_idx if info.in_shard else shape.numel()
        parts[id(parameter)] = (((shape.numel(),), (offset,)), group)
    return parts


def parts_of_fsdp1(modules):
    """Part and group of the parameters that FullyShardedDataParallel shards, by id."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    wrapper = getattr(fsdp, "FullyShardedDataParallel", None)
    parts = {}
    for module in modules:
        if wrapper is None or not isinstance(module, wrapper):
            continue
        handle = getattr(module, "_handle", None)
        if handle is not None and handle.uses_sharded_strategy:
            parts.update(_of_flat_parameter(handle))
    return parts


def parts_of_pipeline():
    """Part and group of the parameters in the stages of pipelines, by id: ranks with one stage hold copies."""
    stage_type = type_of("torch.distributed.pipelining.stage", "_PipelineStageBase")
    if stage_type is None:
        return {}
    return {id(parameter): (None, "stage %d" % stage.stage_index)
            for stage in objects_of(stage_type) for parameter in stage.submod.parameters()}


# Modules of DeepSpeed, the optimizers in them that divide parameters, and where those keep their parts.
_ZERO = (("deepspeed.runtime.zero.stage_1_and_2", "DeepSpeedZeroOptimizer", "single_partition_of_fp32_groups"),
         ("deepspeed.runtime.zero.stage3", "DeepSpeedZeroOptimizer_Stage3", "fp32_partitioned_groups_flat"))


def has_zero():
    """Whether DeepSpeed may have divided parameters."""
    return any(module in sys.modules for module, _, _ in _ZERO)


def parts_of_zero():
    """Part and group of the flat parameters that DeepSpeed's ZeRO divides, by id. And the parameters of
    the modules that they are copied to after each step, of stages 1 and 2, by id of the flat one."""
    parts, copies = {}, {}
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
                parts[id(flat)] = (((count * size,), (count * rank,)), "zero %d" % rank)
                if index < len(whole):
                    copies[id(flat)] = list(whole[index])
    return parts, copies


def _tensor_parallel_rank():
    state = sys.modules.get("megatron.core.parallel_state")
    if state is not None and state.model_parallel_is_initialized():
        return state.get_tensor_model_parallel_rank()
    return None


class Replicas:
    """The ranks that hold copies of tensors without a placement of their own: all ranks, unless
    `--replicas NAME=N` says that every N ranks in a row hold different parts."""

    def __init__(self, rank, replicas):
        name, _, size = replicas.partition("=")
        self._group = "%s %d" % (name, rank % int(size)) if size else ""

    def of(self, parameter):
        """Part and group of a parameter, and the reason why it cannot be compared."""
        if getattr(parameter, "allreduce", True) is False:
            return (None, self._group), "the parameter of an expert"
        if getattr(parameter, "tensor_model_parallel", False):
            rank = _tensor_parallel_rank()
            if rank is not None:
                return (None, "tp %d" % rank), ""
            if not self._group:
                return (None, ""), "tensor parallel: --replicas tp=N says over how many ranks"
        return (None, self._group), ""
