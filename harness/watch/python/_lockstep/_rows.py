"""Passes tensors to the library."""

import os

from _lockstep import _library
from _lockstep._placement import Placement, placement_of
from _lockstep._start import say

_MOST_COPIED = 64 * 2**20  # bytes of tensors that are copied at once, unless one has more


class Named:
    """A tensor of the job, over all steps. `known`: its part and group if an engine or the user says
    them. `reason`: why it is not compared. `numbers`: of its rows in the library. `plain`: how it was
    found last, by phase and kind, while it is compared and lies in memory as most tensors do. `is_summand`: its values
    of a step are added up."""

    __slots__ = ("name", "known", "reason", "numbers", "plain", "is_summand")

    def __init__(self, name, known=None, reason="", is_summand=False):
        self.name, self.known, self.reason, self.is_summand = name, known, reason, is_summand
        self.numbers = {}
        self.plain = {}


class _Plain:
    """A tensor in the memory of the CPU or of a GPU, row-major without gaps, with its own bits: apart
    from the address, its row follows from type, dtype and shape. `gpu`: None: it is on the CPU."""

    __slots__ = ("type", "dtype", "shape", "number", "bytes", "layout", "gpu")

    def __init__(self, tensor, number):
        self.type, self.dtype, self.shape = type(tensor), tensor.dtype, tensor.shape
        self.gpu = None if tensor.is_cpu else tensor.device
        self.layout, self.number = tensor.layout, number
        self.bytes = tensor.numel() * tensor.element_size()

    def address_of(self, tensor):
        """Its address now; 0: it is not found as before. In every step this replaces the whole look."""
        if (type(tensor) is self.type and tensor.dtype is self.dtype and tensor.layout is self.layout
                and (tensor.is_cpu if self.gpu is None else tensor.device == self.gpu)
                and tensor.shape == self.shape and tensor.is_contiguous()
                and not tensor.is_neg()
                and (not tensor.storage_offset() or tensor.untyped_storage().nbytes())):
            return tensor.data_ptr()  # 0 if its storage is freed
        return 0


class Rows:
    """Values that the library records together."""

    def __init__(self, watch, torch):
        self._watch, self._torch = watch, torch
        self._values, self._alive = [], []
        self._on_gpus = {}  # pairs of values, and of their tensors, by device
        self._copied = {}  # the same of tensors that are copied first, None: to the memory of the CPU
        self.bytes = 0  # of the values that are compared

    def add(self, named, tensor, phase, kind, micro_batch=0):
        plain = named.plain.get((phase, kind))
        if plain is not None and not named.reason:
            data = plain.address_of(tensor)
            if data and (plain.gpu is None or not self._watch.gpu_failure):
                self.bytes += plain.bytes
                self._values_on(plain.gpu, tensor).extend((plain.number, micro_batch, data, 0))
                return
        placed = (Placement(None, reason=named.reason) if named.reason
                  else placement_of(tensor, named.known))
        placed.is_summand = placed.is_summand or named.is_summand
        if placed.reason and not named.reason and kind == "gradient":
            placed.show(tensor)
        number = self.add_placed(named, placed, phase, kind, micro_batch)
        # A complex one could be a conjugate view.
        if not placed.reason and placed.local is tensor and not tensor.is_complex():
            named.plain[phase, kind] = _Plain(tensor, number)

    def add_placed(self, named, placed, phase, kind, micro_batch=0):
        """Returns the number of the row's tensor."""
        local = placed.local
        shape = tuple(local.shape) if local is not None else ()
        key = (phase, kind, shape, local.dtype if local is not None else None, placed.part,
               placed.group, placed.is_summand, placed.reason)
        number = named.numbers.get(key)
        if number is None:
            dtype = str(local.dtype)[len("torch."):] if local is not None else ""
            number = named.numbers[key] = self._watch.describe(
                phase, kind, named.name, dtype, shape, placed)
        data = strides = 0
        values = self._values
        if not placed.reason:
            self.bytes += local.numel() * local.element_size()
            gpu = local.device if local.is_cuda and not self._watch.gpu_failure else None
            if self._is_read_in_place(local, gpu):
                values = self._values_on(gpu, local)
                data, strides = local.data_ptr(), self._strides_of(local)
            else:
                values, tensors = self._copied.setdefault(gpu, ([], []))
                tensors.append(local)
        values.extend((number, micro_batch, data, strides))
        return number

    def _strides_of(self, tensor):
        """The address of its strides; 0: it has no gaps."""
        if tensor.is_contiguous():
            return 0
        sizes = _library.sizes(tensor.stride())
        self._alive.append(sizes)
        return _library.address_of(sizes)

    def write(self):
        self._write(self._watch.observe, self._watch.observe_on_gpu)

    def write_next(self):
        self._write(self._watch.observe_next, self._watch.observe_next_on_gpu)

    def _write(self, observe, observe_on_gpu):
        if self._values or not (self._on_gpus or self._copied):
            observe(self._values)
        for gpu, (values, tensors) in self._copied.items():
            self._copy(observe, observe_on_gpu, gpu, values, tensors)
        for gpu, (values, tensors) in self._on_gpus.items():
            if not self._is_recorded_on(gpu, observe_on_gpu, values):
                self._copy(observe, observe_on_gpu, None, values, tensors)

    def _is_recorded_on(self, gpu, observe_on_gpu, values):
        with self._torch.cuda.device(gpu):
            stream = self._torch.cuda.current_stream().cuda_stream
            is_recorded = observe_on_gpu(values, stream)
        if not is_recorded:
            self._say_failure()
        return is_recorded

    def _copy(self, observe, observe_on_gpu, gpu, values, tensors):
        """Copies tensors on their GPU, None: to the memory of the CPU, and records them, a few at a time."""
        begin = size = 0
        for end, tensor in enumerate(tensors, 1):
            size += tensor.numel() * tensor.element_size()
            if size < _MOST_COPIED and end < len(tensors):
                continue
            batch = values[4 * begin:4 * end]
            copies = self._dense(tensors[begin:end], gpu)
            if copies:
                batch[2::4] = [copy.data_ptr() for copy in copies]
            if not copies or not self._is_recorded_on(gpu, observe_on_gpu, batch):
                copies = [self._in_memory(one) for one in tensors[begin:end]]
                batch[2::4] = [copy.data_ptr() for copy in copies]
                batch[3::4] = [self._strides_of(copy) for copy in copies]
                observe(batch)
            begin, size = end, 0

    def _dense(self, tensors, gpu):
        """Copies without gaps on their GPU; none if it does not measure, or has no memory for them."""
        if gpu is None or self._watch.gpu_failure:
            return []
        try:
            with self._torch.no_grad():
                return [tensor.detach().resolve_conj().resolve_neg().contiguous() for tensor in tensors]
        except RuntimeError:
            return []

    def _say_failure(self):
        if os.environ.get("RANK", "0") == "0":
            say("tensors on GPUs are copied and measured on the CPU: %s" % self._watch.gpu_failure)

    def _values_on(self, gpu, tensor):
        """The values on a GPU, None: on the CPU, which one of `tensor` is added to."""
        if gpu is None:
            self._alive.append(tensor)
            return self._values
        values, tensors = self._on_gpus.setdefault(gpu, ([], []))
        tensors.append(tensor)
        return values

    @staticmethod
    def _is_read_in_place(tensor, gpu):
        """Whether a tensor has its own bits in the memory of the CPU, or on a GPU that measures, there without
        gaps."""
        return ((tensor.is_cpu or gpu is not None and tensor.is_contiguous())
                and not tensor.is_conj() and not tensor.is_neg())

    def _in_memory(self, tensor):
        """A copy of a tensor in the memory of the CPU, with its own bits."""
        with self._torch.no_grad():
            return tensor.detach().resolve_conj().resolve_neg().cpu()
