"""Observes the optimizers of this process: gradients before each step, parameters after it. Changes no
tensor, communicates with nobody, and never raises into the job."""

import atexit
import json
import os
import re
import sys

from lockstep import _library
from lockstep._names import Names
from lockstep._placement import Placement, Replicas, placement_of
from lockstep._start import say
from lockstep._traffic import Traffic

_BYTES_OF_ROW = 832  # about: of a row in the journal, and of its sketch
_MOST_SKIPS = 10000  # that are listed
_MOST_BATCHES = 1024  # of a step that are observed
_THINNED = 100  # of so many steps one is observed once the history is used up

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


def _frame_of_step():
    """The frame of torch that called the hooks, and that stays until the optimizer's step has ended."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") != "torch.optim.optimizer":
        frame = frame.f_back
    return frame


def _dtype_name(tensor):
    return str(tensor.dtype)[len("torch."):]


class _Parameter:
    """A parameter of an optimizer. `known`: its part and group if an engine or the user says them.
    `reason`: why it is not compared. `numbers`: of its tensors in the library."""

    __slots__ = ("tensor", "name", "known", "reason", "numbers")

    def __init__(self, tensor, name, known, reason):
        self.tensor, self.name, self.known, self.reason = tensor, name, known, reason
        self.numbers = {}


class _Optimizer:
    def __init__(self, ordinal):
        self.ordinal = ordinal
        self.steps = 0
        self.parameters = []
        self.has_initial = False  # its parameters were observed before its first step


class Watcher:
    _is_registered = False  # the end of this process

    def __init__(self, torch):
        self._torch = torch
        self._pid = os.getpid()
        self._folder = os.environ["LOCKSTEP_WATCH_FOLDER"]
        self._every = int(os.environ.get("LOCKSTEP_WATCH_EVERY", "1"))
        self._first = int(os.environ.get("LOCKSTEP_WATCH_FROM", "1"))
        self._last = int(os.environ.get("LOCKSTEP_WATCH_UNTIL", "0"))
        self._history = int(os.environ.get("LOCKSTEP_WATCH_HISTORY_BYTES", "0"))  # 0: no limit
        self._rows = 0  # written
        self._thinned_after = 0  # step; 0: all are observed
        self._tensors = re.compile(os.environ.get("LOCKSTEP_WATCH_TENSORS", ""))
        ignored = os.environ.get("LOCKSTEP_WATCH_IGNORE", "")
        self._ignored = re.compile(ignored) if ignored else None
        self._watch = None
        self._is_off = False
        self._names = Names(torch.nn.Module)
        self._optimizers = {}  # by id
        self._kept = []  # the optimizers, so that no id is used again
        self._running = []  # frames of the optimizer steps in progress, outermost first
        self._step = 0
        self._stepped = set()  # optimizers and parameters of this step, by id
        self._is_observed = False
        self._forwards = []  # modules whose forward passes run, outermost first
        self._batches = []  # inputs of the forward passes since the last step
        self._batches_of_step = 0  # written
        self._inputs = {}  # pseudo parameters of their inputs, by name
        self._values = {}  # counts of `observe_value` in this step, by name
        self._scalars = {}  # pseudo parameters of `observe_value`, by name
        self._skips = []  # steps that a gradient scaler left out
        self._traffic = Traffic()

    # Called by torch.

    def before_step(self, optimizer, args, kwargs):
        self._attempt(self._before, optimizer, args, kwargs, _frame_of_step())

    def after_step(self, optimizer, args, kwargs):
        self._attempt(self._after, optimizer, args, kwargs)

    def before_forward(self, module, args):
        self._attempt(self._forwards.append, module)

    def after_forward(self, module, args, kwargs):
        """`kwargs`: None if the forward pass raised."""
        self._attempt(self._after_forward, module, args, kwargs)

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
        say("rank %s is no longer observed: %s" % (os.environ.get("RANK", "0"), error))
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
        self._forwards, batches = [], self._batches
        self._batches = []
        if not self._is_observed:
            return
        for inputs in batches:
            self._observe_inputs(self._batches_of_step, inputs)
            self._batches_of_step += 1
        if not known.has_initial:
            self._observe(known, "pre_forward", "parameter")
            known.has_initial = True
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
        # Optimizers of single parameters are many: their step ends when the next one begins.
        if len(known.parameters) > 1 or len(self._optimizers) < 4:
            self._watch.end_step()

    def skipped_step(self, optimizer):
        """A gradient scaler left out a step: it counts as one, so that later steps of all ranks have
        the same numbers."""
        self._attempt(self._skipped, optimizer)

    def _skipped(self, optimizer):
        self._before(optimizer, (), {}, sys._getframe(2))
        self._after(optimizer, (), {})
        if len(self._skips) < _MOST_SKIPS:
            self._skips.append(self._step)
        if len(self._skips) & (len(self._skips) - 1) == 0:
            self._note({})

    def steps_of(self, optimizer):
        known = self._optimizers.get(id(optimizer))
        return known.steps if known is not None else 0

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
        self._traffic.before_step(self._step)

    def _begin_step(self):
        self._step += 1
        self._values = {}
        self._batches_of_step = 0
        if self._step & (self._step - 1) == 0:  # now and then, in case this process is killed
            self._note({})
        # By rows, not by bytes: ranks with the same tensors then leave out the same steps.
        if not self._thinned_after and 0 < self._history < self._rows * _BYTES_OF_ROW:
            self._thinned_after = self._step - 1
            self._note({})
        every = self._every * (_THINNED if self._thinned_after else 1)
        is_due = (self._step - self._first) % every == 0 and self._step >= self._first
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
            known.parameters = [self._parameter(tensor) for group in optimizer.param_groups
                                for tensor in group["params"]]
        return known

    def _parameter(self, tensor):
        name = self._names.of(tensor)
        placed, reason = self._replicas.of(tensor)
        if not self._tensors.search(name):
            reason = "left out by --tensors"
        elif self._ignored is not None and self._ignored.search(name):
            reason = "left out by --ignore"
        return _Parameter(tensor, name, self._names.part_of(tensor) or placed, reason)

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
        self._rows += len(values)

    def _add(self, parameter, tensor, phase, kind, micro_batch, values, alive):
        placed = (Placement(None, reason=parameter.reason) if parameter.reason
                  else placement_of(tensor, parameter.known))
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

    def _observe_value(self, name, value):
        if self._watch is None:
            self._open()
        if self._step == 0:
            self._begin_step()
        if not self._is_observed:
            return
        if not isinstance(value, self._torch.Tensor):
            value = self._torch.tensor(value, dtype=self._torch.float64)
        count = self._values[name] = self._values.get(name, -1) + 1
        known = self._scalars.setdefault(name, _Parameter(None, name, None, ""))
        values, alive = [], []
        self._add(known, value, "post_step", "loss", count, values, alive)
        self._watch.observe(values)

    # Data.

    def _after_forward(self, module, args, kwargs):
        """Keeps the inputs of the outermost forward pass of a training until its step begins."""
        while self._forwards and self._forwards.pop() is not module:
            pass  # of a module that raised
        is_recomputed = self._torch._C._current_graph_task_id() != -1  # in backward
        if self._forwards or self._running or is_recomputed or kwargs is None or not module.training:
            return
        if not self._torch.is_grad_enabled() or len(self._batches) == _MOST_BATCHES:
            return
        inputs = [("input %d" % i, value) for i, value in enumerate(args)] + sorted(kwargs.items())
        self._batches.append([(name, value.detach().clone()) for name, value in inputs
                              if isinstance(value, self._torch.Tensor)])

    def _observe_inputs(self, number, inputs):
        sizes = {value.shape[0] for _, value in inputs if value.dim() > 0}
        values, alive = [], []
        for name, value in inputs:
            known = self._inputs.get(name)
            if known is None:
                known = self._inputs[name] = _Parameter(None, name, (None, "data %d" % self._rank), "")
            known.reason = ("" if value.dim() > 0 and len(sizes) == 1 else
                            "no batch dimension: inputs differ in the size of dimension 0")
            self._add(known, value, "pre_forward", "data", number, values, alive)
        self._watch.observe(values)

    # Files.

    def _open(self):
        rank, world = _rank_and_world()
        self._rank, self._world = rank, world
        self._replicas = Replicas(rank)
        self._watch = _library.Watch(self._folder, os.environ["LOCKSTEP_WATCH_JOB"], rank,
                                     int(os.environ.get("LOCKSTEP_WATCH_KEEP_BYTES", "0")))
        self._note({})
        if not Watcher._is_registered:
            Watcher._is_registered = True
            atexit.register(self._attempt, self.pause)

    def _note(self, more):
        """Writes the facts about this rank that are in no journal."""
        facts = {"rank": self._rank, "world_size": self._world,
                 "torch": str(self._torch.__version__), "python": sys.version.split()[0],
                 "skipped_steps": self._skips, "thinned_after": self._thinned_after,
                 "collectives": self._traffic.facts()}
        facts.update(more)
        path = os.path.join(self._folder, "rank-%d.watch.json" % self._rank)
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            json.dump(facts, file)
        os.replace(path + ".tmp", path)

    def pause(self):
        """Ends the observed training: later steps are not observed."""
        if self._watch is not None and not self._is_off:
            self._end()
        self._is_off = True

    def restart(self):
        """Begins to observe another training, with the variables as they are now."""
        self.pause()
        self.__init__(self._torch)

    def _end(self):
        self._note({})
        error = getattr(sys, "last_value", None)
        self._watch.end(None if error is None else
                        ("%s: %s" % (type(error).__name__, error)).rstrip(": "))
        self._watch.close()
        self._watch = None


_optimizers = None  # the module `torch.optim.optimizer`
_registered = []  # handles of our hooks there


def _register(before, after):
    """Replaces our hooks of torch's optimizers."""
    while _registered:
        _registered.pop().remove()
    _registered.append(_optimizers.register_optimizer_step_pre_hook(before))
    _registered.append(_optimizers.register_optimizer_step_post_hook(after))


def on_optimizer_module(module):
    """`torch.optim.optimizer` was imported."""
    global watcher, _optimizers
    import torch

    watcher, _optimizers = Watcher(torch), module
    _register(watcher.before_step, watcher.after_step)


def on_module_module(module):
    """`torch.nn.modules.module` was imported."""
    if not os.environ.get("LOCKSTEP_WATCH_DATA"):
        return

    def before(module, args):
        import torch

        if watcher is not None and not torch.compiler.is_compiling():
            watcher.before_forward(module, args)

    def after(module, args, *rest):  # rest: kwargs and output; if it raised, an output alone
        import torch

        if watcher is not None and not torch.compiler.is_compiling():
            watcher.after_forward(module, args, rest[0] if len(rest) == 2 else None)

    module.register_module_forward_pre_hook(before)
    module.register_module_forward_hook(after, with_kwargs=True, always_call=True)


def on_dynamo_module(module):
    """`torch._dynamo` was imported: it would compile the hooks into an optimizer's step, and with them
    change the step's numbers."""
    if watcher is not None:
        _register(module.disable(watcher.before_step), module.disable(watcher.after_step))


def on_scaler_module(module):
    """`torch.amp.grad_scaler` was imported: it does not call the optimizer in a step that it skips."""
    step_if_finite = module.GradScaler._maybe_opt_step

    def _maybe_opt_step(self, optimizer, *args, **kwargs):
        before = watcher.steps_of(optimizer) if watcher is not None else 0
        result = step_if_finite(self, optimizer, *args, **kwargs)
        if watcher is not None and watcher.steps_of(optimizer) == before:
            watcher.skipped_step(optimizer)
        return result

    module.GradScaler._maybe_opt_step = _maybe_opt_step
