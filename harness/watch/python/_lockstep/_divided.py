"""Whole parameters as this rank has them when FSDP divides them. It keeps its part of its own, and nothing makes the parts
of all ranks those of one model, unless the training does so before, or writes the weights later."""

import sys
import weakref

from _lockstep import _library
from _lockstep._digests import digest_of
from _lockstep._placement import is_stand_in
from _lockstep._stalls import place_of_caller

_MOST = 1024  # parameters
_SAMPLE = 4096  # elements at each end of a tensor, of which the digest is: another model has others everywhere


class _Division:
    """`number`: of the call, the same on all ranks. `owner`: what divided them, an object of torch. `parameters`: pairs of a
    name and a digest of the whole. `kept`: a digest of what this rank keeps."""

    def __init__(self, number, wrapper, owner, parameters):
        self.number, self.wrapper, self.owner, self.parameters = number, wrapper, weakref.ref(owner), parameters
        self.place = place_of_caller()
        self.kept = ""


_made = []
_calls = 0  # that divided parameters
_noted = 0  # parameters


def around_parameter(divide):
    """`divide`: the function of fully_shard that divides a parameter."""
    def divide_and_note(self, param, *args, **kwargs):
        division = _begun("fully_shard", self, lambda: [(self._module_info.param_name, param)])
        result = divide(self, param, *args, **kwargs)
        _end(division)
        return result
    return divide_and_note


def around_flat(divide):
    """`divide`: the method of FSDP1 that divides the flat parameter of a module."""
    def divide_and_note(self, *args, **kwargs):
        division = _begun("FSDP", self, lambda: _parts_of_flat(self))
        result = divide(self, *args, **kwargs)
        _end(division)
        return result
    return divide_and_note


def _begun(wrapper, owner, parameters):
    """None: nothing is known. Raises nothing."""
    global _calls, _noted
    _calls += 1
    try:
        if _noted >= _MOST:
            return None
        digests = [(name, _digest_of(whole)) for name, whole in parameters()[:_MOST - _noted]]
        digests = [(name, digest) for name, digest in digests if digest]
        _noted += len(digests)
        return _Division(_calls, wrapper, owner, digests) if digests else None
    except Exception:  # of private attributes of torch
        return None


def _end(division):
    if division is None:
        return
    try:
        division.kept = _digest_of(_kept_by(division.owner()))
        _made.append(division)
    except Exception:  # of private attributes of torch
        pass


def _parts_of_flat(handle):
    """The parameters that are one after another in a whole flat one, without what fills it up. Empty: ranks keep it
    whole."""
    if not handle.uses_sharded_strategy:
        return []
    flat = handle.flat_param
    parts, begin, names, whole = [], 0, iter(flat._fqns), flat.detach()
    for count, is_padding in zip(flat._numels_with_padding, flat._is_padding_mask):
        if not is_padding:
            parts.append((next(names), whole[begin:begin + count]))
        begin += count
    return parts


def _kept_by(owner):
    flat = getattr(owner, "flat_param", None)
    return flat if flat is not None else owner.sharded_param._local_tensor


def _digest_of(tensor):
    """"": it has no values."""
    torch = sys.modules["torch"]
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and not hasattr(tensor, "_numels_with_padding"):
        return ""
    if tensor.is_meta or is_stand_in(tensor) or not tensor.numel() or not tensor.is_contiguous():
        return ""
    with torch.no_grad():
        row = tensor.detach().view(-1)
        sample = row if len(row) <= 2 * _SAMPLE else torch.cat([row[:_SAMPLE], row[-_SAMPLE:]])
    return digest_of(torch, sample, _library.digester())


class Divided:
    def __init__(self):
        self._facts = []

    def look(self, step, parameters):
        """Before the first step: which are as they were divided. `parameters`: gives pairs of tensor and name. Raises
        nothing."""
        if step != 1 or not _made:
            return
        try:
            names = {id(tensor): name for tensor, name in parameters()}
            self._facts = [_fact(division, names) for division in _made if _is_as_made(division)]
        except Exception:  # of private attributes of torch
            self._facts = []

    def facts(self):
        return self._facts


def _is_as_made(division):
    owner = division.owner()
    return owner is not None and division.kept and _digest_of(_kept_by(owner)) == division.kept


def _fact(division, names):
    """`names`: of parameters, by their ids."""
    return {"wrapper": division.wrapper, "place": division.place, "number": division.number,
            "parameters": [_name_of(division.owner(), name, names) for name, _ in division.parameters],
            "digests": [digest for _, digest in division.parameters]}


def _name_of(owner, name, names):
    """`name`: inside the module that was wrapped."""
    flat = getattr(owner, "flat_param", None)
    if flat is None:
        return names.get(id(owner.sharded_param), name)
    return names.get(id(flat), "").removesuffix("_flat_param") + name
