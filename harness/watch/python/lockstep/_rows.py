"""Passes tensors to the library."""

from lockstep import _library
from lockstep._placement import Placement, placement_of


class Named:
    """A tensor of the job, over all steps. `known`: its part and group if an engine or the user says
    them. `reason`: why it is not compared. `numbers`: of its rows in the library."""

    __slots__ = ("name", "known", "reason", "numbers")

    def __init__(self, name, known=None, reason=""):
        self.name, self.known, self.reason = name, known, reason
        self.numbers = {}


class Rows:
    """Values that the library records together."""

    def __init__(self, watch, torch):
        self._watch, self._torch = watch, torch
        self._values, self._alive = [], []
        self.bytes = 0  # of the values that are compared

    def add(self, named, tensor, phase, kind, micro_batch=0):
        placed = (Placement(None, reason=named.reason) if named.reason
                  else placement_of(tensor, named.known))
        self.add_placed(named, placed, phase, kind, micro_batch)

    def add_placed(self, named, placed, phase, kind, micro_batch=0):
        local = placed.local
        shape = tuple(local.shape) if local is not None else ()
        key = (phase, kind, shape, local.dtype if local is not None else None, placed.part,
               placed.group, placed.reason)
        number = named.numbers.get(key)
        if number is None:
            dtype = str(local.dtype)[len("torch."):] if local is not None else ""
            number = named.numbers[key] = self._watch.describe(
                phase, kind, named.name, dtype, shape, placed.part, placed.group, placed.reason)
        value = _library.Value(number, micro_batch, None, None)
        if not placed.reason:
            local = self._in_memory(local)
            self._alive.append(local)
            self.bytes += local.numel() * local.element_size()
            value.data = local.data_ptr()
            if not local.is_contiguous():
                value.strides = _library.sizes(local.stride())
                self._alive.append(value.strides)
        self._values.append(value)

    def write(self):
        self._watch.observe(self._values)

    def write_next(self):
        self._watch.observe_next(self._values)

    def _in_memory(self, tensor):
        """The tensor in the memory of the CPU, with its own bits."""
        if tensor.is_cpu and not tensor.is_conj() and not tensor.is_neg():
            return tensor
        with self._torch.no_grad():
            return tensor.detach().resolve_conj().resolve_neg().cpu()
