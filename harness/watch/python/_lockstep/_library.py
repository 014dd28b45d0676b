"""liblockstep_watch through ctypes; `lockstep_watch.h` documents its functions."""

import array
import ctypes
import functools
import os

from _lockstep._installed import path_of

_INTERFACE = 10


class Failure(Exception):
    """The library refused a call."""


class _Options(ctypes.Structure):
    _fields_ = [("folder", ctypes.c_char_p), ("job", ctypes.c_char_p), ("rank", ctypes.c_int32),
                ("keeps_before", ctypes.c_int32), ("keep_bytes", ctypes.c_uint64),
                ("world_size", ctypes.c_int32), ("is_created", ctypes.c_int32),
                ("segment_rows", ctypes.c_int64), ("store_first", ctypes.c_int64)]


class _Job(ctypes.Structure):
    _fields_ = [("folder", ctypes.c_char_p), ("title", ctypes.c_char_p), ("agree_every", ctypes.c_int64),
                ("rank", ctypes.c_int32), ("world_size", ctypes.c_int32),
                ("is_group_readable", ctypes.c_int32), ("label", ctypes.c_char_p)]


class _Joined(ctypes.Structure):
    _fields_ = [("folder", ctypes.c_char * 4096), ("job", ctypes.c_char * 32)]


_Sizes = ctypes.POINTER(ctypes.c_int64)


class _Tensor(ctypes.Structure):
    _fields_ = [("phase", ctypes.c_char_p), ("kind", ctypes.c_char_p), ("name", ctypes.c_char_p),
                ("dtype", ctypes.c_char_p), ("dimensions", ctypes.c_int32),
                ("is_summand", ctypes.c_int32), ("local_shape", _Sizes), ("global_shape", _Sizes),
                ("offset", _Sizes), ("replica_group", ctypes.c_char_p),
                ("not_comparable", ctypes.c_char_p)]


_DIGEST = 33  # bytes: 32 digits and a zero
_VALUE = 4  # numbers of 64 bits: the tensor's number, the micro-batch, and two addresses


def sizes(numbers):
    """An int64 array; None for None."""
    return None if numbers is None else (ctypes.c_int64 * len(numbers))(*numbers)


address_of = ctypes.addressof


def _path():
    """Of the library."""
    return (os.environ.get("LOCKSTEP_WATCH_LIBRARY")
            or path_of(os.path.join("lib", "lockstep", "liblockstep_watch.so")))


@functools.lru_cache(maxsize=None)
def _load():
    try:
        library = ctypes.CDLL(_path())
    except OSError as error:
        raise Failure("Lockstep's library cannot be loaded: %s. Build it, or set LOCKSTEP_WATCH_LIBRARY to "
                      "its path." % error) from error
    if library.lockstep_watch_interface() != _INTERFACE:
        raise Failure("%s is of another version than this hook" % library._name)
    library.lockstep_watch_error.restype = ctypes.c_char_p
    library.lockstep_watch_create.argtypes = [ctypes.POINTER(_Job), ctypes.POINTER(_Joined)]
    library.lockstep_watch_begin_attempt.argtypes = [ctypes.c_char_p]
    library.lockstep_watch_open.restype = ctypes.c_void_p
    library.lockstep_watch_open.argtypes = [ctypes.POINTER(_Options)]
    library.lockstep_watch_close.argtypes = [ctypes.c_void_p]
    library.lockstep_watch_describe.restype = ctypes.c_int64
    library.lockstep_watch_describe.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Tensor)]
    library.lockstep_watch_digest.argtypes = [ctypes.c_char_p, ctypes.c_int32, _Sizes, ctypes.c_void_p, _Sizes,
                                              ctypes.c_char_p]
    library.lockstep_watch_begin_step.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    for observe in library.lockstep_watch_observe, library.lockstep_watch_observe_next:
        observe.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    for observe in library.lockstep_watch_observe_on_gpu, library.lockstep_watch_observe_next_on_gpu:
        observe.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    library.lockstep_watch_use_threads.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    library.lockstep_watch_keeps.argtypes = [ctypes.c_void_p]
    library.lockstep_watch_observes.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.lockstep_watch_thinned_segments.restype = ctypes.c_int64
    library.lockstep_watch_thinned_segments.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.lockstep_watch_end_step.argtypes = [ctypes.c_void_p]
    for end in library.lockstep_watch_end, library.lockstep_watch_give_up:
        end.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    return library


def _failure(library):
    return Failure(library.lockstep_watch_error().decode(errors="replace"))


def create(folder, title, label, agree_every, rank, world_size, is_group_readable):
    """Makes the folder of a job's run, or finds the one that another rank made. Returns the folder of the
    job's files and its id."""
    library, joined = _load(), _Joined()
    job = _Job(os.fsencode(folder), title.encode(errors="replace"), agree_every, rank, world_size,
               is_group_readable, label.encode(errors="replace"))
    if library.lockstep_watch_create(ctypes.byref(job), ctypes.byref(joined)) < 0:
        raise _failure(library)
    return os.fsdecode(joined.folder), joined.job.decode()


def begin_attempt(folder):
    """Makes the folder of the files of another attempt of a job."""
    library = _load()
    if library.lockstep_watch_begin_attempt(os.fsencode(folder)) < 0:
        raise _failure(library)


def digester():
    """A function for the digest of a value in the memory of this process, without gaps, as its row has it."""
    library = _load()

    def digest(dtype, shape, address):
        text = ctypes.create_string_buffer(_DIGEST)
        if library.lockstep_watch_digest(dtype.encode(), len(shape), sizes(shape), address, None, text) < 0:
            raise _failure(library)
        return text.value.decode()

    return digest


class Termination:
    """Of this process, by an exception of C++ that nobody catches: from now on it waits for `allow`, or two seconds."""

    def __init__(self):
        self._library = _load()
        self._library.lockstep_watch_delay_termination()

    def is_near(self):
        """Whether it waits."""
        return self._library.lockstep_watch_is_terminating() == 1

    def allow(self):
        self._library.lockstep_watch_allow_termination()


class Watch:
    """The files of this rank. Every method raises Failure if the library refuses the call."""

    def __init__(self, settings, rank, world_size):
        self.rows = 0  # recorded
        self.gpu_failure = ""  # why tensors on GPUs are copied; "": they are measured there
        self._library = _load()
        options = _Options(os.fsencode(settings.folder), settings.job.encode(), rank,
                           settings.keeps_before, settings.keep_bytes, world_size, settings.is_created,
                           settings.segment_rows(), settings.store_first)
        self._watch = self._library.lockstep_watch_open(ctypes.byref(options))
        if not self._watch:
            self._fail()

    def describe(self, phase, kind, name, dtype, shape, placed):
        """The number of a tensor, as it was placed."""
        whole, offset = placed.part if placed.part else (None, None)
        tensor = _Tensor(phase.encode(), kind.encode(), name.encode(errors="replace"), dtype.encode(), len(shape),
                         placed.is_summand, sizes(shape), sizes(whole), sizes(offset), placed.group.encode(),
                         placed.reason.encode())
        number = self._library.lockstep_watch_describe(self._watch, ctypes.byref(tensor))
        if number < 0:
            self._fail()
        return number

    def begin_step(self, step):
        self._require(self._library.lockstep_watch_begin_step(self._watch, step))

    def observe(self, values):
        """`values`: of each row the tensor's number, the micro-batch, the address of its first element, and
        that of its strides, or 0."""
        self._observe(self._library.lockstep_watch_observe, values)

    def observe_next(self, values):
        """The same for the step that begins next."""
        self._observe(self._library.lockstep_watch_observe_next, values)

    def observe_on_gpu(self, values, stream):
        """The same for values in the memory of the current GPU, which are read after the work of a stream and
        before its later work. False, and nothing recorded, if they must be copied first: `gpu_failure` then
        says why."""
        return self._observe(self._library.lockstep_watch_observe_on_gpu, values, stream)

    def observe_next_on_gpu(self, values, stream):
        return self._observe(self._library.lockstep_watch_observe_next_on_gpu, values, stream)

    def _observe(self, observe, values, *stream):
        count = len(values) // _VALUE
        numbers = array.array("Q", values)  # many times as fast as structures of ctypes
        result = observe(self._watch, numbers.buffer_info()[0], count, *stream)
        self._require(result)
        if result == 1:
            self.gpu_failure = str(_failure(self._library))
            return False
        self.rows += count
        return True

    def use_threads(self, threads):
        """Measures large values on so many threads."""
        self._require(self._library.lockstep_watch_use_threads(self._watch, threads))

    def keeps(self):
        """Whether ranks are known to differ."""
        return self._library.lockstep_watch_keeps(self._watch) == 1

    def thinned_segments(self, step):
        """How many files of rows the parent had thinned when a step began; equal on all ranks."""
        return self._library.lockstep_watch_thinned_segments(self._watch, step)

    def observes(self, step):
        """Whether the user of the running job wants it observed."""
        return self._library.lockstep_watch_observes(self._watch, step) == 1

    def end_step(self):
        self._require(self._library.lockstep_watch_end_step(self._watch))

    def end(self, error):
        text = None if error is None else error.encode(errors="replace")
        self._require(self._library.lockstep_watch_end(self._watch, text))

    def give_up(self, why):
        """Notes why this rank is no longer observed, which needs no more space."""
        self._require(self._library.lockstep_watch_give_up(self._watch, why.encode(errors="replace")))

    def close(self):
        watch, self._watch = self._watch, None
        self._require(self._library.lockstep_watch_close(watch))

    def _require(self, result):
        if result < 0:
            self._fail()

    def _fail(self):
        raise _failure(self._library)
