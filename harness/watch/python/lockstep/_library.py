"""liblockstep_watch through ctypes; `lockstep_watch.h` documents its functions."""

import ctypes
import os

_INTERFACE = 2


class Failure(Exception):
    """The library refused a call."""


class _Options(ctypes.Structure):
    _fields_ = [("folder", ctypes.c_char_p), ("job", ctypes.c_char_p), ("rank", ctypes.c_int32),
                ("keeps_before", ctypes.c_int32), ("keep_bytes", ctypes.c_uint64)]


_Sizes = ctypes.POINTER(ctypes.c_int64)


class _Tensor(ctypes.Structure):
    _fields_ = [("phase", ctypes.c_char_p), ("kind", ctypes.c_char_p), ("name", ctypes.c_char_p),
                ("dtype", ctypes.c_char_p), ("dimensions", ctypes.c_int32),
                ("reserved", ctypes.c_int32), ("local_shape", _Sizes), ("global_shape", _Sizes),
                ("offset", _Sizes), ("replica_group", ctypes.c_char_p),
                ("not_comparable", ctypes.c_char_p)]


class Value(ctypes.Structure):
    _fields_ = [("tensor", ctypes.c_int64), ("micro_batch", ctypes.c_int64),
                ("data", ctypes.c_void_p), ("strides", _Sizes)]


def sizes(numbers):
    """An int64 array; None for None."""
    return None if numbers is None else (ctypes.c_int64 * len(numbers))(*numbers)


def _load():
    library = ctypes.CDLL(os.environ["LOCKSTEP_WATCH_LIBRARY"])
    if library.lockstep_watch_interface() != _INTERFACE:
        raise Failure("%s is of another version than this hook" % library._name)
    library.lockstep_watch_error.restype = ctypes.c_char_p
    library.lockstep_watch_open.restype = ctypes.c_void_p
    library.lockstep_watch_open.argtypes = [ctypes.POINTER(_Options)]
    library.lockstep_watch_close.argtypes = [ctypes.c_void_p]
    library.lockstep_watch_describe.restype = ctypes.c_int64
    library.lockstep_watch_describe.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Tensor)]
    library.lockstep_watch_begin_step.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    for observe in library.lockstep_watch_observe, library.lockstep_watch_observe_next:
        observe.argtypes = [ctypes.c_void_p, ctypes.POINTER(Value), ctypes.c_int64]
    library.lockstep_watch_keeps.argtypes = [ctypes.c_void_p]
    library.lockstep_watch_observes.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.lockstep_watch_end_step.argtypes = [ctypes.c_void_p]
    library.lockstep_watch_end.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    return library


class Watch:
    """The files of this rank. Every method raises Failure if the library refuses the call."""

    def __init__(self, folder, job, rank, keep_bytes, keeps_before):
        self.rows = 0  # recorded
        self._library = _load()
        options = _Options(os.fsencode(folder), job.encode(), rank, keeps_before, keep_bytes)
        self._watch = self._library.lockstep_watch_open(ctypes.byref(options))
        if not self._watch:
            self._fail()

    def describe(self, phase, kind, name, dtype, shape, part, group, reason):
        """The number of a tensor. `part`: global shape and offset; None: it is whole."""
        whole, offset = part if part else (None, None)
        tensor = _Tensor(phase.encode(), kind.encode(), name.encode(), dtype.encode(), len(shape), 0,
                         sizes(shape), sizes(whole), sizes(offset), group.encode(), reason.encode())
        number = self._library.lockstep_watch_describe(self._watch, ctypes.byref(tensor))
        if number < 0:
            self._fail()
        return number

    def begin_step(self, step):
        self._require(self._library.lockstep_watch_begin_step(self._watch, step))

    def observe(self, values):
        """`values`: a list of Value."""
        self._observe(self._library.lockstep_watch_observe, values)

    def observe_next(self, values):
        """The same for the step that begins next."""
        self._observe(self._library.lockstep_watch_observe_next, values)

    def _observe(self, observe, values):
        self._require(observe(self._watch, (Value * len(values))(*values), len(values)))
        self.rows += len(values)

    def keeps(self):
        """Whether ranks are known to differ."""
        return self._library.lockstep_watch_keeps(self._watch) == 1

    def observes(self, step):
        """Whether the user of the running job wants it observed."""
        return self._library.lockstep_watch_observes(self._watch, step) == 1

    def end_step(self):
        self._require(self._library.lockstep_watch_end_step(self._watch))

    def end(self, error):
        text = None if error is None else error.encode(errors="replace")
        self._require(self._library.lockstep_watch_end(self._watch, text))

    def close(self):
        watch, self._watch = self._watch, None
        self._require(self._library.lockstep_watch_close(watch))

    def _require(self, result):
        if result < 0:
            self._fail()

    def _fail(self):
        raise Failure(self._library.lockstep_watch_error().decode(errors="replace"))
