"""Observes the optimizers of this process: gradients before each step, parameters after it. Changes no
tensor, communicates with nobody, and never raises into the job."""

import atexit
import ctypes
import json
import os
import sys

from lockstep import _library
from lockstep._names import Names
from lockstep._placement import placement_of

watcher = None  # of this process, once torch's optimizers are imported


def _rank_and_world():
    """Rank and size of the world: of torch.distributed, else of the launcher; else a single process."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if rank.isdigit() and world.isdigit():
        return int(rank), int(world)
    return 0, 1


def _dtype_name(tensor):
    return str(tensor.dtype)[len("torch."):]


class _Parameter:
    """A parameter of an optimizer, and the numbers of its tensors in the library."""

    __slots__ = ("tensor", "name", "numbers")

    def __init__(self, tensor, name):
        self.tensor, self.name, self.numbers = tensor, name, {}


class _Optimizer:
    def __init__(self, ordinal):
        self.ordinal = ordinal
        self.steps = 0
        self.parameters = []


class Watcher:
    def __init__(self, torch):
        self._torch = torch
        self._pid = os.getpid()
        self._folder = os.environ["LOCKSTEP_WATCH_FOLDER"]
        self._every = int(os.environ.get("LOCKSTEP_WATCH_EVERY", "1"))
        self._first = int(os.environ.get("LOCKSTEP_WATCH_FROM", "1"))
        self._last = int(os.environ.get("LOCKSTEP_WATCH_UNTIL", "0"))
        self._watch = None
        self._is_off = False
        self._names = Names(torch.nn.Module)
        self._optimizers = {}  # by id
        self._kept = []  # the optimizers, so that no id is used again
        self._running = []  # frames of the optimizer steps in progress, outermost first
        self._step = 0
        self._stepped = set()  # optimizers and parameters of this step, by id
        self._is_observed = False
        self._has_initial = False
        self._values = {}  # counts of `observe_value` in this step, by name

    # Called by torch.

    def before_step(self, optimizer, args, kwargs):
        self._attempt(self._before, optimizer, args, kwargs, sys._getframe(1))

    def after_step(self, optimizer, args, kwargs):
        self._attempt(self._after, optimizer, args, kwargs)

    # Called by the script.

    def observe_value(self, name, value):
        self._attempt(self._observe_value, name, value)

    def _attempt(self, call, *arguments):
        if self._is_off or os.getpid() != self._pid:
            return
        try:
            call(*arguments)
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error):
        self._is_off = True
        print("lockstep: rank %s is no longer observed: %s" % (os.environ.get("RANK", "0"), error),
              file=sys.stderr)
        try:
            if self._watch is not None:
                self._note({"failure": str(error)})
                self._watch.end_step()
        except Exception:
            pass

    # Steps.

    def _before(self, optimizer, args, kwargs, frame):
        self._drop_raised_steps(frame)
        self._running.append((frame, optimizer))
        if len(self._running) > 1:
            return  # an optimizer inside of another one
        if self._watch is None:
            self._open()
        known = self._known(optimizer)
        known.steps += 1
        self._begin_step_if_new(known)
        if not self._is_observed:
            return
        if not self._has_initial:
            self._observe(known, "pre_forward", "parameter")
        if not self._has_closure(args, kwargs):
            self._observe(known, "pre_step", "gradient")

    def _after(self, optimizer, args, kwargs):
        while self._running and self._running[-1][1] is not optimizer:
            self._running.pop()
        if not self._running:
            return
        self._running.pop()
        if self._running or not self._is_observed:
            return
        known = self._known(optimizer)
        if self._has_closure(args, kwargs):  # its gradients were computed inside
            self._observe(known, "pre_step", "gradient")
        self._observe(known, "post_step", "parameter")
        self._has_initial = True
        if len(self._stepped) < 8 or len(known.parameters) > 1:
            self._watch.end_step()

    def _drop_raised_steps(self, frame):
        """A step that raised has no end: its frame is no longer below this one."""
        while self._running:
            running, below = self._running[-1][0], frame.f_back
            while below is not None and below is not running:
                below = below.f_back
            if below is not None:
                return
            self._running.pop()

    @staticmethod
    def _has_closure(args, kwargs):
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        return callable(closure)

    def _begin_step_if_new(self, known):
        """A step lasts until an optimizer or a parameter steps again: several optimizers share one, and
        so do those of single parameters that step during backward."""
        ids = {id(known)} | {id(parameter.tensor) for parameter in known.parameters}
        if self._step > 0 and not ids & self._stepped:
            self._stepped |= ids
            return
        self._stepped = ids
        self._begin_step()

    def _begin_step(self):
        self._step += 1
        self._values = {}
        is_due = (self._step - self._first) % self._every == 0 and self._step >= self._first
        self._is_observed = is_due and not 0 < self._last < self._step
        if self._is_observed:
            self._watch.begin_step(self._step)

    # Tensors.

    def _known(self, optimizer):
        known = self._optimizers.get(id(optimizer))
        if known is None:
            known = self._optimizers[id(optimizer)] = _Optimizer(len(self._optimizers))
            self._kept.append(optimizer)
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        if count != len(known.parameters):
            self._names.add(optimizer, known.ordinal)
            known.parameters = [_Parameter(tensor, self._names.of(tensor))
                                for group in optimizer.param_groups for tensor in group["params"]]
        return known

    def _observe(self, known, phase, kind):
        values, alive = [], []
        for parameter in known.parameters:
            tensor = parameter.tensor
            if kind == "gradient":
                if not tensor.requires_grad:
                    continue
                tensor = tensor.grad
            self._add(parameter, tensor, phase, kind, 0, values, alive)
        self._watch.observe(values)

    def _add(self, parameter, tensor, phase, kind, micro_batch, values, alive):
        placed = placement_of(tensor)
        local = placed.local
        shape = tuple(local.shape) if local is not None else ()
        key = (phase, kind, shape, local.dtype if local is not None else None, placed.part,
               placed.group, placed.reason)
        number = parameter.numbers.get(key)
        if number is None:
            dtype = _dtype_name(local) if local is not None else ""
            number = parameter.numbers[key] = self._watch.describe(
                phase, kind, parameter.name, dtype, shape, placed.part, placed.group, placed.reason)
        value = _library.Value(number, micro_batch, None, None)
        if not placed.reason:
            local = self._in_memory(local)
            alive.append(local)
            value.data = local.data_ptr()
            if not local.is_contiguous():
                value.strides = _library.sizes(local.stride())
                alive.append(value.strides)
        values.append(value)

    def _in_memory(self, tensor):
        """The tensor in the memory of the CPU, with its own bits."""
        with self._torch.no_grad():
            tensor = tensor.detach()
            if tensor.is_conj():
                tensor = tensor.resolve_conj()
            if tensor.is_neg():
                tensor = tensor.resolve_neg()
            return tensor if tensor.device.type == "cpu" else tensor.cpu()

    # Files.

    def _open(self):
        rank, world = _rank_and_world()
        self._rank, self._world = rank, world
        self._watch = _library.Watch(self._folder, os.environ["LOCKSTEP_WATCH_JOB"], rank,
                                     int(os.environ.get("LOCKSTEP_WATCH_KEEP_BYTES", "0")))
        self._note({})
        atexit.register(self._attempt, self._end)

    def _note(self, more):
        """Writes the facts about this rank that are in no journal."""
        facts = {"rank": self._rank, "world_size": self._world,
                 "torch": str(self._torch.__version__), "python": sys.version.split()[0]}
        facts.update(more)
        path = os.path.join(self._folder, "rank-%d.watch.json" % self._rank)
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            json.dump(facts, file)
        os.replace(path + ".tmp", path)

    def _end(self):
        error = getattr(sys, "last_value", None)
        self._watch.end(None if error is None else "%s: %s" % (type(error).__name__, error))
        self._watch.close()
        self._is_off = True


def on_optimizer_module(module):
    """`torch.optim.optimizer` was imported."""
    global watcher
    import torch

    watcher = Watcher(torch)
    for hook in (watcher.before_step, watcher.after_step):
        hook.__func__._torchdynamo_disable = True
    module.register_optimizer_step_pre_hook(watcher.before_step)
    module.register_optimizer_step_post_hook(watcher.after_step)


def on_scaler_module(module):
    """`torch.amp.grad_scaler` was imported."""
