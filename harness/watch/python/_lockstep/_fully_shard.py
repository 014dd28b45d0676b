"""What fully_shard knows of the parameters that it divides. Reads its objects, changes none, and keeps none of them
alive."""

import weakref

from _lockstep import _placement


class Shard:
    """A parameter that it divides. Its whole one, in which backward passes leave the gradient of this rank, is another
    object, which it keeps from the first forward pass on."""

    __slots__ = ("_parameter", "_group")

    def __init__(self, parameter, group):
        self._parameter, self._group = weakref.ref(parameter), weakref.ref(group)

    @property
    def whole(self):
        """None: there was no forward pass."""
        return getattr(self._parameter(), "_unsharded_param", None)

    def is_reduced(self):
        """Whether the backward pass in progress reduces its gradient."""
        group = self._group()
        return group is not None and group.reduce_grads

    def is_mean(self):
        """Whether the reduction is a mean, as it is unless the training has set a factor."""
        group = self._group()
        return group is not None and group.gradient_divide_factor is None

    def unreduced(self):
        """What passes so far have left to reduce: first that of earlier ones, if it is in another type."""
        earlier = getattr(self._parameter(), "unsharded_accumulated_grad", None)
        return [gradient for gradient in (earlier, getattr(self.whole, "grad", None)) if gradient is not None]

    def held(self):
        """The part of this rank; None: it is gone."""
        parameter = self._parameter()
        return _placement.placement_of(parameter.sharded_param) if parameter is not None else None


def group_of(module):
    """What fully_shard knows of the parameters of a module that it has wrapped. None: it has not, or it has none."""
    get_state = getattr(type(module), "_get_fsdp_state", None)
    return getattr(get_state(module), "_fsdp_param_group", None) if get_state is not None else None


def groups_of(modules):
    """The same of several modules. Those that were divided in one call have one."""
    groups = {id(group): group for group in map(group_of, modules) if group is not None}
    return list(groups.values())


def divided_by(module):
    """The parameters that it divides for a module."""
    return [parameter.sharded_param for parameter in getattr(group_of(module), "fsdp_params", ())]


def _is_known(parameter, group):
    """Whether they are as in the torch that this file knows, and the whole parameter is not divided, too, by tensor
    parallelism."""
    return (hasattr(parameter, "unsharded_accumulated_grad") and hasattr(group, "reduce_grads")
            and hasattr(group, "gradient_divide_factor") and not parameter.is_dtensor)


def _known_in(modules):
    """Pairs of a parameter that it knows and its group."""
    for group in groups_of(modules):
        for parameter in getattr(group, "fsdp_params", ()):
            if _is_known(parameter, group):
                yield parameter, group


def shards_of(modules):
    """By id of the parameter that the optimizer has."""
    return {id(parameter.sharded_param): Shard(parameter, group) for parameter, group in _known_in(modules)}


def parts(modules):
    """None: its parameters are DTensors. They lie on a mesh that may have no name, and divide only samples over it."""
    for module in modules:
        mesh = getattr(getattr(group_of(module), "mesh_info", None), "mesh", None)
        if mesh is not None and mesh.mesh_dim_names is None:
            _placement.name_mesh(mesh, "fsdp")
    return {}


def gathered(modules):
    """Weights that it gathers for forward passes: modules, names of their attributes, the optimizer's parameters, and
    functions for the parts of this rank."""
    for parameter, group in _known_in(modules):
        if hasattr(parameter.sharded_param._local_tensor, "fsdp_pre_all_gather"):
            continue  # its type says what is gathered in its place
        info, shard = parameter._module_info, Shard(parameter, group)
        for module, name in [(info.module, info.param_name), *zip(info.shared_modules, info.shared_param_names)]:
            yield module, name, parameter.sharded_param, shard.held
