"""Passes tensors to the library."""

from lockstep import _library
from lockstep._placement import Placement, placement_of


class Named:
    """A tensor of the job, over all steps. `known`: its part and group if an engine or the user says
    them. `reason`: why it is not compared. `numbers`: of its rows in the library. `plain`: how it was
    found last, by phase and kind, while it is compared and lies in memory as most tensors do."""

    __slots__ = ("name", "known", "reason", "numbers", "plain")

    def __init__(self, name, known=None, reason=""):
        self.name, self.known, self.reason = name, known, reason
        self.numbers = {}
        self.plain = {}


class _Plain:
    """A tensor in the memory of the CPU, row-major without gaps, with its own bits: apart from the
    address, its row follows from type, dtype and shape."""

    __slots__ = ("type", "dtype", "shape", "number", "bytes", "layout")

    def __init__(self, tensor, number):
        self.type, self.dtype, self.shape = type(tensor), tensor.dtype, tensor.shape
        self.layout, self.number = tensor.layout, number
        self.bytes = tensor.numel() * tensor.element_size()

    def address_of(self, tensor):
        """Its address now; 0: it is not found as before. In every step this replaces the whole look."""
        if (type(tensor) is self.type and tensor.dtype is self.dtype and tensor.layout is self.layout
                and tensor.is_cpu and tensor.shape == self.shape and tensor.is_contiguous()
                and not tensor.is_neg()
                and (not tensor.storage_offset() or tensor.untyped_storage().nbytes())):
            return tensor.data_ptr()  # 0 if its storage is freed
        return 0


class Rows:
    """Values that the library records together."""

    def __init__(self, watch, torch):
        self._watch, self._torch = watch, torch
        self._values, self._alive = [], []
        self.bytes = 0  # of the values that are compared

    def add(self, named, tensor, phase, kind, micro_batch=0):
        plain = named.plain.get((phase, kind))
        if plain is not None and not named.reason:
            data = plain.address_of(tensor)
            if data:
                self._alive.append(tensor)
                self.bytes += plain.bytes
                self._values += plain.number, micro_batch, data, 0
                return
        placed = (Placement(None, reason=named.reason) if named.reason
                  else placement_of(tensor, named.known))
        number = self.add_placed(named, placed, phase, kind, micro_batch)
        # A complex one could be a conjugate view.
        if not placed.reason and placed.local is tensor and not tensor.is_complex():
            named.plain[phase, kind] = _Plain(tensor, number)

    def add_placed(self, named, placed, phase, kind, micro_batch=0):
        """Returns the number of the row's tensor."""
        local = placed.local
        shape = tuple(local.shape) if local is not None else ()
        key = (phase, kind, shape, local.dtype if local is not None else None, placed.part,
               placed.group, placed.reason)
        number = named.numbers.get(key)
        if number is None:
            dtype = str(local.dtype)[len("torch."):] if local is not None else ""
            number = named.numbers[key] = self._watch.describe(
                phase, kind, named.name, dtype, shape, placed.part, placed.group, placed.reason)
        data = strides = 0
        if not placed.reason:
            local = self._in_memory(local)
            self._alive.append(local)
            self.bytes += local.numel() * local.element_size()
            data = local.data_ptr()
            if not local.is_contiguous():
                sizes = _library.sizes(local.stride())
                self._alive.append(sizes)
                strides = _library.address_of(sizes)
        self._values += number, micro_batch, data, strides
        return number

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
