"""Weights that forward passes compute with, where engines gather them from the parts that ranks hold: as a module has
them when its first forward pass of a step ends, and as the optimizer holds them then. They have to be the same, in the
type that the engine gathers in."""

import weakref

from _lockstep import _engines
from _lockstep._names import modules_of_process
from _lockstep._placement import Placement, placement_of


class _Weight:
    """`held`: a function for the Placement of the part of this rank; `step`: the last one in which it was observed."""

    __slots__ = ("named", "held", "step")

    def __init__(self, named, held):
        self.named, self.held, self.step = named, held, 0


class Weights:
    def __init__(self, torch):
        self._torch = torch
        self._parameters = []  # ids of those that were looked for
        self._of_modules = {}  # pairs of a weak reference and a list of _Weight, by id of the module

    def take(self, parameters):
        """Looks for the modules that use parameters of optimizers. `parameters`: pairs of tensor and Named."""
        present = [id(tensor) for tensor, _ in parameters]
        if present == self._parameters:
            return
        self._parameters, self._of_modules = present, {}
        named = {id(tensor): one for tensor, one in parameters if not one.reason}
        known = {}  # one for all modules that share it
        for module, attribute, parameter, held in _engines.gathered_in(modules_of_process(self._torch.nn.Module)):
            one = named.get(id(parameter))
            if one is None:
                continue
            weight = known.setdefault(id(parameter), _Weight(one, held))
            self._of_modules.setdefault(id(module), (weakref.ref(module), []))[1].append((attribute, weight))

    def due(self, module, step):
        """Those of a module that were not observed in a step, each with its attribute."""
        reference, weights = self._of_modules.get(id(module), (lambda: None, ()))
        if reference() is not module:
            return []
        return [(attribute, weight) for attribute, weight in weights if weight.step != step]

    def add_rows(self, rows, module, due, step, group):
        """Of a module whose forward pass ends. `group`: of what this rank alone holds."""
        for attribute, weight in due:
            used, held = self._values_of(module, attribute, weight)
            if used is None:
                continue
            weight.step = step
            rows.add_placed(weight.named, Placement(used, None, group), "pre_forward", "used_weight")
            rows.add_placed(weight.named, held, "pre_forward", "held_weight")

    def _values_of(self, module, attribute, weight):
        """The weight that the module has, and the part of this rank in its type; None: they cannot be compared."""
        try:
            used, held = getattr(module, attribute, None), weight.held()
        except Exception:  # of private attributes of torch
            return None, None
        if not isinstance(used, self._torch.Tensor) or hasattr(used, "_local_tensor") or placement_of(used).reason:
            return None, None
        if held is None or held.reason:
            return None, None
        with self._torch.no_grad():
            held.local = held.local.detach().to(used.dtype)
        return used.detach(), held
