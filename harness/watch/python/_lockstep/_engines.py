"""The engines that divide parameters between ranks. What the hook knows of one is in its file, with two functions:
`parts(modules)`: EngineParts, by id of the parameter that the optimizer has.
`gathered(modules)`: the weights that it gathers for forward passes, as pairs of a module and the name of an attribute,
with the optimizer's parameter and a function for the Placement of the part that this rank holds (None: it is gone).
They import nothing, since `sys.modules` says whether the engine is there, and run no operation of torch on a DTensor,
which could communicate."""

from _lockstep import _deepspeed, _fsdp1, _fully_shard, _pipelining

_ENGINES = _pipelining, _fully_shard, _fsdp1, _deepspeed  # where several know a parameter, the last one counts


def have_plain_tensors():
    """Whether optimizers may hold tensors that are no parameters of modules."""
    return _deepspeed.has_plain_tensors()


def parts_in(modules):
    found = {}
    for engine in _ENGINES:
        found.update(engine.parts(modules))
    return found


def gathered_in(modules):
    """None of an engine whose private attributes are not as expected."""
    found = []
    for engine in _ENGINES:
        try:
            found += engine.gathered(modules)
        except Exception:
            pass
    return found
