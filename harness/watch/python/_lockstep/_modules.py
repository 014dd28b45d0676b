"""Outputs of modules, the gradients that arrive at them, and weights that engines gather for them, on request. One
forward hook of all modules sees the outputs, and hooks of these tensors see the gradients. Backward hooks of modules
would change the graph."""

import contextlib
import dataclasses
import threading
import weakref

from _lockstep._names import modules_of_process, plain_name, roots_of
from _lockstep._placement import is_stand_in, placement_of
from _lockstep._rows import Named
from _lockstep._weights import Weights

_MOST_SEARCHES = 16  # for modules that were made since
_MOST_CALLS = 1024  # of a module in a step
_MOST_TENSORS = 64  # of an output
_MOST_DEPTH = 4  # of containers in an output
_WHOLE = "(model)"


def _parts_of(value):
    """The parts of a container, and their places in it; empty if it is none."""
    if isinstance(value, dict):
        return [(".%s" % key, part) for key, part in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(".%s" % name, part) for name, part in zip(value._fields, value)]
    if isinstance(value, (list, tuple)):
        return [("[%d]" % i, part) for i, part in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(".%s" % field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    return []


class _Names:
    """Names of the modules that are called, in the order in which their models are."""

    def __init__(self, module_type):
        self._module_type = module_type
        self._known = {}  # by id of the module: weak references to it and to its root, and its place
        self._prefixes = {}  # by id of the root
        self._taken = set()
        self._searches = 0

    def of(self, module):
        """None: it belongs to no model, such as a loss without parameters. A wrapper has the name of the
        module that it wraps."""
        known = self._known.get(id(module))
        if known is None or known[0]() is not module:
            self._search(module)
            known = self._known[id(module)]
        reference, place = known[1:]
        root = reference() if reference is not None else None
        if root is None:
            return None
        if id(root) not in self._prefixes:
            self._prefixes[id(root)] = self._prefix_of(root)
        return self._prefixes[id(root)] + place

    def _search(self, module):
        """Finds all models. One that is inside several others has its name in the largest."""
        self._known[id(module)] = (weakref.ref(module), None, "")
        if getattr(module, "_is_replica", False) or self._searches == _MOST_SEARCHES:
            return
        self._searches += 1
        modules = modules_of_process(self._module_type)
        trees = [(root, list(root.named_modules())) for root in roots_of(modules)
                 if next(root.parameters(), None) is not None]
        found = {id(one): (weakref.ref(one), None, "") for one in modules}
        for root, tree in sorted(trees, key=lambda one: len(one[1])):
            for name, one in tree:
                found[id(one)] = (weakref.ref(one), weakref.ref(root), self._place_of(name))
        self._known.update(found)

    @staticmethod
    def _place_of(name):
        return plain_name(name + ".").rstrip(".") or _WHOLE

    def _prefix_of(self, root):
        """Empty, unless another model has modules of the same names."""
        places = {self._place_of(name) for name, _ in root.named_modules()}
        prefix, count = "", 1
        while self._taken & {prefix + place for place in places}:
            prefix = "%s%s." % (type(root).__name__, "" if count == 1 else count)
            count += 1
        self._taken |= {prefix + place for place in places}
        return prefix


class _Forward:
    """A forward pass in progress. `calls`: of modules of its name before it."""

    __slots__ = ("module", "is_counted", "name", "calls")

    def __init__(self, module, is_counted, name, calls):
        self.module, self.is_counted, self.name, self.calls = module, is_counted, name, calls


class Modules:
    """Observes the forward passes of a training. `watcher`: the Watcher of this process."""

    def __init__(self, torch, watcher):
        self._torch, self._watcher = torch, watcher
        self._names = _Names(torch.nn.Module)
        self._weights = Weights(torch)
        self._named = {}  # by name of the tensor
        self._threads = threading.local()
        self._step = 0  # of all below
        self._calls = {}  # numbers of forward passes, by name of the module
        self._without_graph = {}  # names of passes, by id of the module that a checkpoint calls again
        self._arrived = set()  # names of tensors whose gradient was observed

    def before_forward(self, module):
        running = self._running()
        is_counted = running[-1].is_counted if running else self._is_training(module)
        name = self._names.of(module) if is_counted else None
        running.append(_Forward(module, is_counted, name, self._calls.get(name, 0)))

    def after_forward(self, module, output, has_raised):
        forward = self._end_of(module)
        if has_raised or forward is None:
            return
        if self._is_in_backward():
            self._observe_again(module, output)
        elif forward.is_counted and forward.name is not None:
            self._observe_weights(module)
            self._observe(forward, output)

    def before_step(self):
        """A forward pass that was interrupted has no end."""
        self._running().clear()

    def _running(self):
        """The forward passes of this thread, outermost first."""
        if not hasattr(self._threads, "running"):
            self._threads.running = []
        return self._threads.running

    def _end_of(self, module):
        running = self._running()
        while running:
            forward = running.pop()  # others: of modules that raised
            if forward.module is module:
                return forward
        return None

    def _is_in_backward(self):
        return self._torch._C._current_graph_task_id() != -1

    def _is_training(self, module):
        """Whether an outermost forward pass, and so all passes in it, belong to the training."""
        is_training = module.training and self._torch.is_grad_enabled() and not self._is_in_backward()
        if not is_training or self._torch._C._is_tracing():
            return False
        step = self._watcher.step_of_forward()
        if step != self._step:
            self._step, self._calls, self._without_graph, self._arrived = step, {}, {}, set()
            self._weights.take(self._watcher.named_parameters())
        return step > 0

    def _observe(self, forward, output):
        """A module whose name was observed inside only wraps another one."""
        call = self._calls.get(forward.name, 0) + 1
        if call > forward.calls + 1 or call > _MOST_CALLS or self._watcher.left_out(forward.name):
            return
        name = forward.name if call == 1 else "%s#%d" % (forward.name, call)
        tensors = self._tensors_of(name, output)
        if not tensors:
            return
        self._calls[forward.name] = call
        self._write(tensors, "pre_forward", "module_output", self._step)
        if self._torch.is_grad_enabled():
            self._hook(tensors)
        else:  # as a re-entrant checkpoint calls it
            self._without_graph.setdefault(id(forward.module), []).append(name)

    def _observe_weights(self, module):
        due = self._weights.due(module, self._step)
        if not due:
            return
        rows = self._watcher.new_rows()
        with self._without_modes():
            self._weights.add_rows(rows, module, due, self._step, self._watcher.own_group())
        self._watcher.write(rows, self._step)

    def _observe_again(self, module, output):
        """A checkpoint computes an output once more, in backward. Gradients arrive at this one, if the
        first pass had no graph."""
        names = self._without_graph.get(id(module))
        if names and self._torch.is_grad_enabled():
            self._hook(self._tensors_of(names.pop(), output))

    def _tensors_of(self, name, output):
        """Pairs of name and floating tensor."""
        found, open_parts = [], [(name, output, 0)]
        while open_parts and len(found) < _MOST_TENSORS:
            name, value, depth = open_parts.pop()
            if isinstance(value, self._torch.Tensor):
                if (value.dtype.is_floating_point or value.dtype.is_complex) and not is_stand_in(value):
                    found.append((name, value))
            elif depth < _MOST_DEPTH:
                open_parts += [(name + place, part, depth + 1) for place, part in reversed(_parts_of(value))]
        return found

    def _hook(self, tensors):
        """A hook of a leaf, such as a parameter that is the output, would stay for later steps."""
        for name, tensor in tensors:
            if tensor.requires_grad and tensor.grad_fn is not None:
                tensor.register_hook(self._hook_of(name, self._step))

    def _hook_of(self, name, step):
        def hook(gradient):
            if not self._torch.compiler.is_compiling():
                self._watcher.has_gradient(self._observe_gradient, name, step, gradient)
        return hook

    def _observe_gradient(self, name, step, gradient):
        """The first one, if several backward passes go through a graph."""
        if step == self._step and name not in self._arrived and not is_stand_in(gradient):
            self._arrived.add(name)
            self._write([(name, gradient)], "post_backward", "module_gradient", step)

    def _write(self, tensors, phase, kind, step):
        rows = self._watcher.new_rows()
        with self._without_modes():
            for name, tensor in tensors:
                named = self._named.setdefault(name, Named(name))
                placed = placement_of(tensor)
                placed.group = self._watcher.own_group()
                rows.add_placed(named, placed, phase, kind)
        self._watcher.write(rows, step)

    def _without_modes(self):
        """Modes of the job, such as those of selective checkpoints, shall not see our operations."""
        if self._torch._C._len_torch_dispatch_stack() == 0:
            return contextlib.nullcontext()
        from torch.utils._python_dispatch import _disable_current_modes

        return _disable_current_modes()
