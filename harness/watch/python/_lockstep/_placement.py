"""The part of a tensor that a rank holds, and the ranks that hold copies of it. Runs no operation of
torch on a DTensor, because it could communicate."""

import sys

from _lockstep import _megatron


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


_names_of_meshes = {}  # of those with one dimension and no name, by engines that divide over them


def name_mesh(mesh, name):
    _names_of_meshes[mesh] = name


def _names_of_dimensions(mesh):
    if mesh.mesh_dim_names:
        return mesh.mesh_dim_names
    if mesh.ndim == 1 and mesh in _names_of_meshes:
        return [_names_of_meshes[mesh]]
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


def _fits(shape, whole, offset):
    return len(shape) == len(whole) and all(begin + size <= full for begin, size, full in zip(offset, shape, whole))


def placement_of(tensor, known=None):
    """The placement of a parameter, a gradient or another tensor of a model. `known`: the placement of
    its parameter if an engine or the user says it: part and group."""
    part, group = known if known else (None, "")
    if tensor is None:
        return Placement(None, group=group, reason="undefined: no gradient")
    if hasattr(tensor, "_local_tensor") and hasattr(tensor, "placements"):
        return _of_dtensor(tensor)
    if hasattr(type(tensor), "__tensor_flatten__"):
        return Placement(None, reason="a tensor subclass, %s" % type(tensor).__name__)
    reason = _reason_without_bytes(tensor)
    if reason:
        return Placement(None, reason=reason)
    if part is not None and not _fits(tensor.shape, *part):
        return Placement(None, reason="gathered, where its parameter is a shard")
    return Placement(tensor, part, group)


class EnginePart:
    """A parameter as an engine divides it: `part` and `group` of this rank, as of a Placement. `copies`: the parameters of
    modules, which every rank holds, that the engine copies it to after each step."""

    __slots__ = ("known", "copies")

    def __init__(self, part, group, copies=()):
        self.known, self.copies = (part, group), copies


class Replicas:
    """The ranks that hold copies of tensors without a placement of their own: all ranks, unless
    `--replicas NAME=N` says that every N ranks in a row hold different parts."""

    def __init__(self, rank, replicas):
        name, _, size = replicas.partition("=")
        self._group = "%s %d" % (name, rank % int(size)) if size else ""

    def of(self, parameter):
        """Part and group of a parameter, and the reason why it cannot be compared."""
        if _megatron.is_of_expert(parameter):
            return (None, self._group), "the parameter of an expert"
        if _megatron.is_tensor_parallel(parameter):
            rank = _megatron.tensor_parallel_rank()
            if rank is not None:
                return (None, "tp %d" % rank), ""
            if not self._group:
                return (None, ""), "tensor parallel: --replicas tp=N says over how many ranks"
        return (None, self._group), ""
