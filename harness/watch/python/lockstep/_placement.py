"""What a rank holds of a tensor, and which ranks hold copies of it. No operation of torch on a DTensor:
it could communicate."""


class Placement:
    """`local`: the tensor in this rank's memory; None: there is none. `part`: the global shape and the
    offset in it; None: it is whole. `group`: ranks of equal group hold copies; "": all ranks do.
    `reason`: why it cannot be compared with other ranks; "": it can."""

    __slots__ = ("local", "part", "group", "reason")

    def __init__(self, local, part=None, group="", reason=""):
        self.local, self.part, self.group, self.reason = local, part, group, reason


def _of_dtensor(tensor):
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    local, mesh, placements = tensor._local_tensor, tensor.device_mesh, tensor.placements
    names = mesh.mesh_dim_names or ["dimension %d" % i for i in range(mesh.ndim)]
    partial = [name for name, placement in zip(names, placements) if placement.is_partial()]
    if partial:
        return Placement(local, reason="a partial sum over " + ", ".join(partial))
    cut = [i for i, placement in enumerate(placements) if not placement.is_replicate()]
    if not cut:
        return Placement(local)
    shape = tuple(tensor._spec.tensor_meta.shape)
    local_shape, offset = compute_local_shape_and_global_offset(shape, mesh, placements)
    if tuple(local_shape) != tuple(local.shape):
        return Placement(local, reason="its part of %s is not known" % (list(shape),))
    coordinate = mesh.get_coordinate()
    group = ", ".join("%s %d" % (names[i], coordinate[i]) for i in cut)
    if local.numel() == 0:
        offset = [min(start, size) for start, size in zip(offset, shape)]
    return Placement(local, (shape, tuple(offset)), group)


def placement_of(tensor):
    """The placement of a parameter, a gradient or another tensor of a model."""
    if tensor is None:
        return Placement(None, reason="undefined: no gradient")
    if hasattr(tensor, "_local_tensor") and hasattr(tensor, "placements"):
        return _of_dtensor(tensor)
    if hasattr(type(tensor), "__tensor_flatten__"):
        return Placement(None, reason="a tensor subclass, %s" % type(tensor).__name__)
    if str(tensor.layout) != "torch.strided":
        return Placement(None, reason="%s layout" % str(tensor.layout)[len("torch."):])
    if tensor.is_meta:
        return Placement(None, reason="a meta tensor")
    if tensor.is_quantized:
        return Placement(None, reason="quantized dtype " + str(tensor.dtype)[len("torch."):])
    if tensor.numel() and tensor.untyped_storage().nbytes() == 0:
        return Placement(None, reason="its storage is freed")
    return Placement(tensor)
