"""Observes the optimizers of this process: gradients before each step, parameters after it. Changes no
tensor, communicates with nobody, and never raises into the job."""

import json
import os
import sys
import threading

from _lockstep import (_bystander, _configuration, _devices, _exits, _files, _library, _metrics, _precision, _settings,
                       _stalls)
from _lockstep._also import Also, MicroBatches
from _lockstep._averaging import averager_type, steps_between_averages
from _lockstep._buffers import LastBuffers
from _lockstep._calls import LastCalls
from _lockstep._contributions import Contributions, is_due
from _lockstep._data import Data
from _lockstep._divided import Divided
from _lockstep._execution import Execution
from _lockstep._frozen import Frozen
from _lockstep._joins import Joins
from _lockstep._machines import ranks_of_machine, rendezvous, threads_of
from _lockstep._modules import Modules
from _lockstep._names import Models
from _lockstep._objects import objects_by_type, objects_of
from _lockstep._observed_steps import ObservedSteps
from _lockstep._optimizers import Optimizers
from _lockstep._order import Orders
from _lockstep._perturbation import Perturbation
from _lockstep._placement import Placement, is_stand_in
from _lockstep._process import (at_end, has_died, has_joined, is_child, knows_rank, note_elsewhere, rank_and_world,
                               was_observed)
from _lockstep._rows import Named, Rows
from _lockstep._samplers import Samplers
from _lockstep._start import say, tell_of_namesake
from _lockstep._ties import Ties
from _lockstep._traffic import StepTraffic, Traffic, counts_of_groups, sizes_of_named_groups
from _lockstep._untrained import Untrained
from _lockstep._wrappers import Wrappers

_MOST_SKIPS = 10000  # that are listed
_FAILURE = '{"failure": '  # begins a note, and the library replaces its value if the disk is full
_ROOM = 400  # bytes for its value
_STEPS_WITH_BOTH = 16  # parameters are observed before and after: they may be written between steps
_HIDDEN_STEP = "torch.distributed.checkpoint.state_dict"  # steps an optimizer to make its state


def _is_hidden(frame):
    """Whether a step is none of the training. `frame`: of torch, that called the hooks."""
    while frame is not None and frame.f_globals.get("__name__", "").startswith("torch.optim."):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == _HIDDEN_STEP


def _frame_of_step():
    """The frame of torch that called the hooks, and that stays until the optimizer's step has ended."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") != "torch.optim.optimizer":
        frame = frame.f_back
    return frame


class _IsNoRank(Exception):
    """This process was started by a rank, and has its variables."""


class Watcher:
    _ends_with = None  # the process at whose end a watcher ends

    def __init__(self, torch):
        self._torch = torch
        self._pid = os.getpid()
        self._settings = settings = _settings.current
        self._agree_every = settings.agree_every  # as the training says, once it has begun
        self._watch = None  # the library's, and
        self._steps = None  # which steps it observes, once the rank is known
        self._is_off = False
        self._optimizers = Optimizers(torch, settings)
        self._running = []  # frames and optimizers of the steps in progress, outermost first, and which are hidden
        self._thread = None  # of these
        self._step = 0
        self._stepped = {}  # optimizers and parameters of this step, by id, so that no id is used again
        self._members = []  # ordinals of the optimizers of this step, in their order
        self._orders = set()  # pairs of ordinals: the first stepped before the second in a step
        self._is_observed = False
        self._has_rest = False  # parameters that no optimizer has stepped were observed
        self._rest = {}  # these, in their step, by id
        self._values = {}  # counts of `observe_value` in this step, by name
        self._scalars = {}  # of `observe_value`, by name
        self._data = Data(torch)
        self._modules = Modules(torch, self) if settings.modules else None
        self._perturbation = Perturbation(torch, settings.perturbation) if settings.perturbation else None
        self._also = Also(torch, settings.also, self.before_buffers) if settings.also else None
        self._has_also = False  # in this step
        self._micro_batches = MicroBatches(self.before_accumulation)
        self._contributions = Contributions(torch, self.has_contributions)
        self._lock = threading.Lock()
        self._note_lock = threading.Lock()
        self._parent = 0  # process, when the observation began
        self._execution = Execution(torch, self._settings.sources)
        self._end_facts = _stalls.facts_of_error(None)
        self._seen_error = None  # the exception that these are of
        self._unnoted = ""  # why this rank is no longer observed, until that is on record
        self._says_copies = settings.keeps_before
        self._copied = 0  # bytes of the values of the first step
        self._skips = []  # steps that a gradient scaler left out
        self._written = []  # steps before which parameters were written
        self._last_written = 0  # of these
        self._written_observed = -_STEPS_WITH_BOTH  # the last of these in which they were observed
        self._captured = 0  # steps of optimizers that were captured in a CUDA graph
        self._traffic = Traffic()
        self._step_traffic = StepTraffic()
        self._last_calls = LastCalls()
        self._wrappers = Wrappers(torch)
        self._joins = Joins()
        self._untrained = Untrained(torch)
        self._frozen = Frozen(torch)
        self._last_buffers = LastBuffers(torch)
        self._untrained_seen = 0  # the step after which these were looked at last
        self._ties = Ties(torch)
        self._divided = Divided()
        self._orders_of_parameters = Orders(torch)
        self._schedules = _configuration.Schedules()
        self._samplers = Samplers()
        _metrics.forget()
        self._process_configuration = {}
        self._hyperparameters = _configuration.Hyperparameters()
        self._precisions = _precision.Precisions()
        self._has_new_precision = False
        self.autocasts = set()  # that were entered, by device and type

    # Called by torch.

    def before_step(self, optimizer, args, kwargs):
        if os.getpid() != self._pid:
            self._note_child()
        elif self._unnoted:
            self._note_failure()
        elif self._is_capturing():
            self._run(self._note_capture)
        else:
            self._run(self._before, optimizer, args, kwargs, _frame_of_step())

    def after_step(self, optimizer, args, kwargs):
        self._attempt(self._after, optimizer, args, kwargs)

    def has_autocast(self, context):
        """This thread entered a context of autocast."""
        self._run(self._see_autocast, context)

    def before_forward(self, module, args):
        if self._perturbation is not None:
            self._attempt(self._perturbation.before_forward, module)
        if self._settings.data:
            self._attempt(self._data.before_forward, module)
        if self._modules is not None:
            self._attempt(self._modules.before_forward, module)

    def after_forward(self, module, args, kwargs, output):
        """`kwargs`: None if the forward pass raised."""
        if self._settings.data:
            self._attempt(self._data.after_forward, module, args, kwargs, self._takes_samples())
        if self._modules is not None:
            with self._lock:
                self._attempt(self._modules.after_forward, module, output, kwargs is None)

    def _takes_samples(self):
        """Whether a forward pass that ends now may be of a step that is observed."""
        return not self._running and (self._watch is None or self._steps.is_due(self._step + 1))

    def has_gradient(self, observe, *arguments):
        """A gradient arrived at the output of a module."""
        with self._lock:
            self._attempt(observe, *arguments)

    def has_parameters(self, optimizer, parameters):
        """An optimizer was given parameters."""
        if "micro-batches" in self._settings.also:
            self._attempt(self._micro_batches.add, optimizer, parameters)

    def has_optimizers(self, optimizer_type):
        """Optimizers may have been made before this process was watched."""
        for optimizer in objects_of(optimizer_type):
            for group in optimizer.param_groups:
                self.has_parameters(optimizer, group["params"])

    def before_accumulation(self, optimizer, parameter, gradient):
        with self._lock:  # autograd has a thread per device
            self._attempt(self._observe_backward, optimizer, parameter, gradient)

    def has_contributions(self, values, step):
        with self._lock:
            self._attempt(self._observe_contributions, values, step)

    # Called by torch's DistributedSampler.

    def goes_through(self, sampler, indices):
        """The indices of a pass that begins, which tell when it has ended."""
        try:
            return self._samplers.follow(sampler, indices, self.present_step)
        except Exception:  # of a sampler with odd attributes
            return indices

    def present_step(self):
        return self._step

    # Called by torch's Join.

    def enters_join(self, context):
        self._attempt(lambda: self._joins.enter(context, self._step))

    def goes_on_in_join(self, joinable):
        self._attempt(self._joins.see_round, joinable)

    def awaits_others(self, context):
        """This rank has no more data."""
        self._attempt(self._joins.follow, context, lambda: self._attempt(self._begin_joined))

    def leaves_join(self, context, has_raised):
        self._attempt(self._leave_join, context, has_raised)

    # Called by the script.

    def observe_value(self, name, value):
        self._attempt(self._observe_value, name, value)

    # Called by Modules.

    def step_of_forward(self):
        """The step that a forward pass belongs to now; 0: it is not observed."""
        if self._watch is None:
            if not knows_rank():
                return 0
            self._open()
        if self._running:  # of a closure
            return self._step if self._is_observed else 0
        return self._step + 1 if self._steps.is_due(self._step + 1) else 0

    def new_rows(self):
        return Rows(self._watch, self._torch)

    def own_group(self):
        """The replica group of a tensor that only this rank holds."""
        return "rank %d" % self._rank

    def named_parameters(self):
        return self._optimizers.named_parameters()

    def left_out(self, name):
        return self._optimizers.left_out(name)

    def write(self, rows, step):
        """Records rows of this step or of the next one."""
        if step == self._step:
            rows.write()
        elif step == self._step + 1:
            rows.write_next()

    def _attempt(self, call, *arguments):
        if not self._is_capturing():
            self._run(call, *arguments)

    def _is_capturing(self):
        """Whether what this thread gives to its GPU is captured in a CUDA graph: it does not happen now, and
        cannot be read."""
        cuda = self._torch.cuda
        try:
            return cuda.is_initialized() and cuda.is_current_stream_capturing()
        except Exception:  # the GPU has failed
            return False

    def _run(self, call, *arguments):
        if self._is_off or os.getpid() != self._pid:
            return
        try:
            call(*arguments)
        except _IsNoRank:
            self._is_off = True
        except Exception as error:
            self._give_up(error)

    def _note_child(self):
        """This process was forked by a rank, and trains."""
        if self._is_off or self._watch is None:
            return
        self._is_off = True
        try:
            note_elsewhere(self._settings.folder, self._rank, self._step)
        except OSError:
            pass

    def _give_up(self, error):
        self._is_off = True
        self._contributions.end()
        self._wrappers.end()
        self._unnoted = str(error)
        say("rank %s is no longer observed: %s" % (os.environ.get("RANK", "0"), error))
        self._note_failure()
        try:
            if self._watch is not None:
                self._watch.end_step()
        except Exception:
            pass

    def _note_failure(self):
        """Without it the steps so far would be taken for all. If the disk is full, the note on disk has room for it;
        if that cannot be written either, later steps try again."""
        if self._watch is None or not self._unnoted or os.getpid() != self._pid:
            return
        for note in (self._note, self._watch.give_up):
            try:
                note(self._unnoted)
                self._unnoted = ""
                return
            except Exception:
                pass

    # Steps.

    def _before(self, optimizer, args, kwargs, frame):
        thread = threading.get_ident()
        if self._running and thread != self._thread:
            raise RuntimeError("optimizers step in several threads at once, which is not observed")
        self._thread = thread
        self._drop_raised_steps(frame)
        self._running.append((frame, optimizer, _is_hidden(frame)))
        if len(self._running) > 1:
            return  # an optimizer inside of another one
        if self._running[0][2] or self._is_estimate(optimizer):
            return
        self._open()
        known = self._optimizers.of(optimizer)
        self._contributions.disarm(known)
        known.steps += 1
        known.is_in_step = self._begin_step_if_new(optimizer, known)
        known.last_step = self._step
        batches = self._data.take()
        if self._modules is not None:
            self._modules.before_step()
        known.backward_passes = {}
        if known.is_in_step and known.written.since_step():
            self._note_written()
        if not self._is_observed or not known.is_in_step:
            return
        self._step_traffic.begin()
        self._data.write(batches, self._watch, self._rank)
        if (not known.has_initial or self._agree_every or self._watch.keeps()
                or known.steps <= _STEPS_WITH_BOTH or self._settings.every > 1 or self._observes_written()):
            self._observe(known, "pre_forward", "parameter")
            known.has_initial = True
        if not self._has_rest:
            self._has_rest = True
            self._observe_rest()
        if not self._has_closure(args, kwargs) and not self._joins.is_joined:
            self._observe(known, "pre_step", "gradient")
        self._last_calls.read_if_apart(self._world, self._watch.keeps)
        if known.copies:
            rows = Rows(self._watch, self._torch)
            for tensor, named in known.copies:
                rows.add(named, tensor, "pre_step", "parameter")
            rows.write()

    def _after(self, optimizer, args, kwargs):
        while self._running and self._running[-1][1] is not optimizer:
            self._running.pop()
        if not self._running:
            return
        is_hidden = self._running.pop()[2]
        if self._running or is_hidden or self._watch is None or self._is_estimate(optimizer):
            return
        known = self._optimizers.of(optimizer)
        if not known.is_in_step:
            return
        known.written.end_step()
        self._await_contributions(known)
        if not self._is_observed:
            return
        if self._has_closure(args, kwargs):  # its gradients were computed inside
            self._observe(known, "pre_step", "gradient", "cleared by the closure of the optimizer's step")
        self._step_traffic.end(self._step)
        self._observe(known, "post_step", "parameter")
        if self._also is not None:
            self._also.observe(optimizer, known.parameters, self._watch)
            if not self._has_also:
                self._also.observe_process(self._watch, self._optimizers.left_out)
                self._has_also = True
        if self._has_end(known):
            self._watch.end_step()

    def _await_contributions(self, known):
        """Of the next step of an optimizer. The ranks of LocalSGD have their own gradients."""
        step = self._step + 1
        if self._world > 1 and not self._agree_every and is_due(step) and self._steps.is_due(step):
            parameters = [(self._optimizers.in_module(tensor), named) for tensor, named in known.parameters]
            self._contributions.arm(known, parameters, step, self.own_group(), self._optimizers.models)

    def _observes_written(self):
        """Whether parameters were written since the last step, and are observed: of many such steps now and then, so
        that it costs little."""
        if self._last_written != self._step:
            return False
        if self._step >= self._written_observed + _STEPS_WITH_BOTH:
            self._written_observed = self._step
        return self._written_observed == self._step

    def _note_written(self):
        if self._last_written == self._step:
            return  # by another optimizer's parameters
        self._last_written = self._step
        if len(self._written) <= _MOST_SKIPS:
            self._written.append(self._step)

    def before_buffers(self, module, names):
        """A module with buffers is about to run."""
        with self._lock:
            self._attempt(self._observe_buffers, module, names)

    def _observe_buffers(self, module, names):
        step = self.step_of_forward()
        if step == 0:
            return
        rows = self.new_rows()
        if self._also.observe_buffers(module, names, step, rows, self._optimizers.left_out):
            self.write(rows, step)

    def skipped_step(self, optimizer):
        """A gradient scaler left out a step: it counts as one, so that later steps of all ranks have
        the same numbers."""
        self._attempt(self._skipped, optimizer)

    def _skipped(self, optimizer):
        self._before(optimizer, (), {}, sys._getframe(2))
        self._after(optimizer, (), {})
        if self._skips[-1:] == [self._step]:
            return  # of another optimizer
        if len(self._skips) < _MOST_SKIPS:
            self._skips.append(self._step)
        if len(self._skips) & (len(self._skips) - 1) == 0:
            self._note()

    def _note_capture(self):
        self._open()
        self._captured += 1
        self._note()
        if self._captured == 1 and self._rank == 0:
            say("the step of an optimizer is captured in a CUDA graph: what its replays change is not observed")

    def _begin_joined(self):
        self._open()
        self._joins.note_begin(self._step)
        self._note()

    def _leave_join(self, context, has_raised):
        missed = self._joins.leave(context, self._step, has_raised)
        if missed:
            self._count_missed(missed)
        if self._watch is not None:
            self._note()

    def _remember_present(self):
        """What there is at the first step, in one search."""
        optimizers, schedulers, averagers = objects_by_type(
            self._torch.optim.Optimizer, self._torch.optim.lr_scheduler.LRScheduler, averager_type())
        self._optimizers.remember_present(optimizers)
        self._schedules.remember_present(schedulers)
        self._agree_every = self._settings.agree_every or steps_between_averages(averagers)

    def _count_missed(self, steps):
        """Steps of other ranks, after the last of which this one has its parameters from them."""
        if self._step == 0:
            self._remember_present()
        living = [known for _, known in self._optimizers.living()]
        stepped = [known for known in living if known.is_in_step and known.last_step == self._step]
        self._stepped = {id(thing): thing for known in living for thing in
                         (known, *(tensor for tensor, _ in known.parameters))}
        self._step += steps
        self._is_observed = self._steps.is_due(self._step)
        if self._is_observed:
            self._watch.begin_step(self._step)
            for known in stepped:
                self._observe(known, "post_step", "parameter")
            self._watch.end_step()
        for known in living:
            self._contributions.disarm(known)
            known.written.end_step()
            self._await_contributions(known)

    def steps_of(self, optimizer):
        return self._optimizers.steps_of(optimizer)

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

    def _begin_step_if_new(self, optimizer, known):
        """A step lasts until an optimizer or a parameter steps again: several optimizers share one, and
        so do those of single parameters that step during backward. One that was made after the first step
        begins a step of its own: it is that of another training. If the user wants none of its
        parameters compared, it has no steps: other ranks may not have it. Returns whether it has."""
        if known.is_left_out:
            return False
        if self._step == 0:
            self._remember_present()
        stepping = {id(known): known, **{id(tensor): tensor for tensor, _ in known.parameters}}
        is_again = not stepping.keys().isdisjoint(self._stepped)
        if self._step == 0 or is_again or self._comes_first(known) or self._is_late(optimizer, known):
            self._stepped, self._members = {}, []
            self._begin_step()
        self._stepped.update(stepping)
        if self._has_end(known):
            self._orders.update((other, known.ordinal) for other in self._members)
            self._members.append(known.ordinal)
        return True

    def _comes_first(self, known):
        """Whether it always stepped before an optimizer of this step: then this rank left it out there."""
        return any((known.ordinal, other) in self._orders and (other, known.ordinal) not in self._orders
                   for other in self._members)

    @staticmethod
    def _is_estimate(optimizer):
        """Whether a step is only traced: its parameters have no memory."""
        first = next((tensor for group in optimizer.param_groups for tensor in group["params"]), None)
        return first is not None and is_stand_in(first)

    def _is_late(self, optimizer, known):
        """Not if it was there at the first step: then this rank has left it out so far, and counts on as the
        others."""
        return (self._step > 1 and known.steps == 1 and self._has_end(known)
                and not self._optimizers.was_present(optimizer))

    def _see_autocast(self, context):
        self.autocasts.add((context.device, context.fast_dtype))
        self._add_precisions([_precision.of_autocast(context)], self._step if self._running else self._step + 1)

    def _add_precisions(self, found, step):
        """They are noted when the next step begins: before its rows are written."""
        if self._precisions.add(found, step):
            self._has_new_precision = True

    def _has_end(self, known):
        """Whether its step ends with it. Optimizers of single parameters are many."""
        return len(known.parameters) > 1 or self._optimizers.count < 4

    def _begin_step(self):
        if self._joins.is_lost and not self._joins.is_joined:
            raise RuntimeError("its data ended before that of others in a Join, and how many steps they trained "
                               "meanwhile is unknown")
        self._step += 1
        _exits.forget()
        if self._perturbation is not None:
            self._perturbation.end()
        counts = counts_of_groups()
        self._wrappers.before_step(self._step, self._traffic.is_silent(counts), self._optimizers.parameters_of_modules)
        self._traffic.before_step(self._step, counts)
        self._last_calls.begin_step(self._step, counts, self._optimizers.parameters)
        self._hyperparameters.see(self._step, self._optimizers.living, self._optimizers.models)
        if _stalls.progress is not None:
            _stalls.progress.step(self._step, counts)
        self._values = {}
        self._has_also = False
        self._rest = {}
        self._data.begin_step()
        if self._says_copies and self._copied and self._rank == 0:
            say("--keep-before: each rank copies up to %.1f MiB of values in each step"
                % (self._copied / 2**20))
            self._says_copies = False
        self._add_precisions(_precision.of_process(self._torch), self._step)
        self._add_precisions(self._optimizers.precisions, self._step)
        # Now and then, in case this process is killed.
        is_looked_at = self._step & (self._step - 1) == 0
        if is_looked_at and self._world > 1:
            self._untrained.look(self._step, self._optimizers.living())
            self._ties.look(self._step, self._optimizers.parameters)
            self._orders_of_parameters.look()
            self._divided.look(self._step, self._optimizers.parameters)
            self._schedules.look(self._step, self._optimizers.living())
        if is_looked_at or self._has_new_precision:
            self._has_new_precision = False
            self._note()
        self._is_observed = self._steps.is_due(self._step)
        if self._is_observed:
            self._watch.begin_step(self._step)

    # Tensors.

    def _observe(self, known, phase, kind, missing=""):
        """`missing`: why gradients that are not there cannot be compared; "": there are none."""
        rows = Rows(self._watch, self._torch)
        for tensor, named in known.parameters:
            if kind == "gradient":
                if not tensor.requires_grad:
                    continue
                if tensor.grad is None and phase == "pre_step":
                    self._last_calls.see_missing(named.name)
                if missing and tensor.grad is None:
                    rows.add_placed(named, Placement(tensor, reason=named.reason or missing), phase, kind)
                    continue
                tensor = tensor.grad
            elif phase == "pre_forward" and id(tensor) in self._rest:
                continue
            rows.add(named, tensor, phase, kind)
        rows.write()
        self._copied += rows.bytes

    def _observe_rest(self):
        """Once the other parameters of the models that are trained. Most are frozen; some are those of
        optimizers that step later."""
        models = Models(self._torch.nn.Module)
        rest = self._optimizers.rest(models)
        rows = Rows(self._watch, self._torch)
        for tensor, named in rest:
            rows.add(named, tensor, "pre_forward", "parameter")
            self._rest[id(tensor)] = tensor
        rows.write()
        if self._world > 1:
            self._untrained.look_at_rest(self._step, rest, self._optimizers.parameters())
            self._frozen.look(lambda: self._optimizers.frozen(models))

    def _observe_backward(self, optimizer, parameter, gradient):
        """Of one backward pass, before it is added to `grad` and reduced. It belongs to the next step if
        the parameter has stepped in this one."""
        self._open()
        is_next = self._step == 0 or id(parameter) in self._stepped
        if not (self._steps.is_due(self._step + 1) if is_next else self._is_observed):
            return
        known = self._optimizers.known(optimizer)
        if known is None or id(parameter) not in known.contributions:
            known = self._optimizers.of(optimizer)  # looks at all parameters
        count = known.backward_passes.get(id(parameter), 0)
        known.backward_passes[id(parameter)] = count + 1
        if not known.contributions:
            known.contributions = {
                id(tensor): Named(one.name, (one.known[0], self.own_group()), one.reason)
                for tensor, one in known.parameters}
        rows = Rows(self._watch, self._torch)
        rows.add(known.contributions[id(parameter)], gradient, "post_backward", "gradient", count)
        if is_next:
            rows.write_next()
        else:
            rows.write()

    def _observe_contributions(self, values, step):
        rows = self.new_rows()
        for named, gradient, kind, count in values:
            if isinstance(gradient, str):
                rows.add_placed(named, Placement(None, reason=gradient), "post_backward", kind, count)
            else:
                rows.add(named, gradient, "post_backward", kind, count)
        self.write(rows, step)

    def _observe_value(self, name, value):
        self._open()
        if self._step == 0:
            self._begin_step()
        if not self._is_observed:
            return
        if not isinstance(value, self._torch.Tensor):
            value = self._torch.tensor(value, dtype=self._torch.float64)
        count = self._values[name] = self._values.get(name, -1) + 1
        rows = Rows(self._watch, self._torch)
        rows.add(self._scalars.setdefault(name, Named(name)), value, "post_step", "loss", count)
        rows.write()

    # Files.

    def _open(self):
        """Opens the files of this rank, once."""
        if self._watch is not None:
            return
        rank, world = rank_and_world()
        if not has_joined() and _stalls.is_counted_elsewhere(self._settings.folder, rank):
            raise _IsNoRank
        self._rank, self._world = rank, world
        self._parent = os.getppid()
        if world > 1 and not self._settings.is_shared:
            raise RuntimeError("lockstep.watch() was called without out, but this is rank %d of %d: give "
                               "all ranks the same new folder" % (rank, world))
        self._optimizers.use_rank(rank)
        if not self._settings.is_created and was_observed(self._settings.folder, rank):
            note_elsewhere(self._settings.folder, rank)
        self._watch = _library.Watch(self._settings, rank, world)
        self._steps = ObservedSteps(self._settings, self._watch, lambda: self._note())
        self._watch.use_threads(threads_of(self._settings.threads, self._torch, rank, world))
        self._process_configuration = _configuration.of_process(self._torch)
        self._note()
        self._execution.write(self._settings.folder, rank, False)
        if rank == 0:
            tell_of_namesake()
        if Watcher._ends_with != self._pid:
            Watcher._ends_with = self._pid
            at_end(self.end_with_process)

    def _note(self, failure=""):
        """Writes the facts about this rank that are in no journal. `failure`: why it is no longer observed."""
        facts = {"rank": self._rank, "world_size": self._world,
                 "torch": str(self._torch.__version__), "python": sys.version.split()[0],
                 "skipped_steps": self._skips, "thinned_after": self._steps.thinned_after,
                 "captured_updates": self._captured, "agree_every": self._agree_every,
                 "calls_in_forward": self._data.most_calls,
                 "written_before": self._written[:_MOST_SKIPS],
                 "writes_known_until": self._writes_known_until(),
                 "has_copies": self._optimizers.has_copies,
                 "has_only_copies": self._optimizers.have_only_copies(),
                 "collectives": self._traffic.facts(), "collectives_in_steps": self._step_traffic.facts(),
                 "configuration": {**self._process_configuration, **self._optimizers.configuration,
                                   **self._hyperparameters.first_modes},
                 "precisions": self._precisions.facts(),
                 "unreduced": self._wrappers.facts(), "last_calls": self._last_calls.facts(),
                 "joined": self._joins.facts(), "untrained": self._untrained.facts(),
                 "divided": self._divided.facts(),
                 "broken_ties": self._ties.facts(), "parameter_orders": self._orders_of_parameters.facts(),
                 "schedules": self._schedules.facts(), "optimizers": self._optimizers.places,
                 "samplers": self._samplers.facts(), "frozen": self._frozen.facts() + self._last_buffers.facts(),
                 "metrics": _metrics.facts(),
                 "state_buffers": self._also.state_buffers if self._also else [],
                 "groups": sizes_of_named_groups()}
        facts.update(self._last_calls.arrivals())
        facts.update(self._hyperparameters.facts())
        facts.update(_devices.memory_of(self._torch))
        facts["devices"] = _devices.uses_of(self._torch, self._optimizers.parameters())
        facts["local_first"], facts["local_count"] = ranks_of_machine(self._rank, self._world)
        facts["rendezvous"] = rendezvous()
        facts.update(self._end_facts)
        if self._perturbation is not None:
            facts["perturbed"] = self._perturbation.parameters()
        path = os.path.join(self._settings.folder, "rank-%d.watch.json" % self._rank)
        with self._note_lock:  # autograd's threads note, too
            try:
                with _files.opened(path + ".tmp", encoding="utf-8") as file:
                    file.write(_FAILURE + _in_room(failure) + ", " + json.dumps(facts)[1:])
                os.replace(path + ".tmp", path)
            except OSError as error:
                raise RuntimeError("Cannot write %s: %s. Give a place that can be written."
                                   % (path, error.strerror)) from None

    def _writes_known_until(self):
        """The last step before which it is known whether parameters were written."""
        return self._step if len(self._written) <= _MOST_SKIPS else self._written[_MOST_SKIPS] - 1

    def has_begun(self):
        """Whether an optimizer stepped, also if it is no longer observed."""
        return self._watch is not None or self._is_off

    def stop(self):
        """Ends the observed training at the script's wish."""
        self._note_failure()
        self._attempt(self.pause)

    def leave_world(self):
        """This process is about to leave the world, and the function that has its models may return before it ends. A
        rank that trains nothing says so."""
        if os.getpid() != self._pid:
            return
        if not self.has_begun():
            _bystander.note(self._torch, self._settings.folder)
        elif self._watch is not None and not self._is_off:
            self._attempt(self._look_at_untrained)

    def _look_at_untrained(self):
        """What optimizers do not change, after the last step."""
        if self._world > 1 and self._untrained_seen != self._step:
            self._untrained_seen = self._step
            self._frozen.look_again()
            if "buffers" not in self._settings.also:
                self._last_buffers.look(self._optimizers.models)

    def end_without_step(self):
        """Records the error that ends a rank before its first step."""
        error = _exits.error_of_process()
        if error is None:
            self.leave_world()
        elif not self.has_begun():
            self.end_by(error)

    def end_by(self, error):
        """This rank leaves at once, because of an error if there is one."""
        self._note_failure()
        if error is None:
            self.leave_world()
        elif not self._is_off and has_joined():
            self._see_error(error)
            self._attempt(self._open)
        self._attempt(self.pause, error)

    def end_with_process(self):
        """Ends it because this process ends."""
        self._note_failure()
        error = _exits.error_of_process()
        if error is None and is_child() and has_died(self._parent):
            # torch.multiprocessing interrupts ranks whose launcher has died, and ends them without an error.
            error = KeyboardInterrupt("the launcher ended before this rank")
        self._attempt(self.pause, error)

    def pause(self, error=None):
        """Ends the observed training: later steps are not observed. `error`: the exception that ends it."""
        if self._watch is not None and not self._is_off:
            self._end(error)
        if self._also is not None:
            self._also.end()
        self._contributions.end()
        self._wrappers.end()
        self._is_off = True

    def restart(self):
        """Begins to observe another training, with the settings as they are now."""
        if os.getpid() == self._pid:  # else the training is that of the parent
            self.pause()
        self.__init__(self._torch)

    def _see_error(self, error):
        """At once: a launcher may end this rank as soon as another one has failed."""
        if error is not None and error is not self._seen_error:
            self._seen_error = error
            self._end_facts = _stalls.facts_of_error(error)

    def _end(self, error):
        self._see_error(error)
        if self._world > 1:
            self._last_calls.read_at_end(self._world, with_lines=error is not None or self._watch.keeps())
            self._schedules.look(self._step, self._optimizers.living())
        if error is None:
            self._look_at_untrained()
        self._note()
        self._execution.write(self._settings.folder, self._rank, True)
        self._watch.end(None if error is None else
                        ("%s: %s" % (type(error).__name__, error)).rstrip(": "))
        watch, self._watch = self._watch, None  # also if it cannot be closed
        watch.close()


def _in_room(failure):
    """As JSON, in the bytes that each note has for it."""
    failure = failure[:_ROOM]
    while len(json.dumps(failure)) > _ROOM:
        failure = failure[:-1]
    return json.dumps(failure).ljust(_ROOM)
