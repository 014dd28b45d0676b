"""What is observed on request: buffers, states of optimizers and of random generators, and gradients
before they are accumulated and reduced."""

import hashlib
import pickle
import random
import sys
import weakref

from _lockstep._buffers import is_state, named_buffers_of
from _lockstep._names import modules_of_process, roots_of
from _lockstep._rows import Named, Rows


_MOST_NAMES = 1024  # of buffers in the facts of a rank


class Also:
    """Values after a step, of the kinds `asked`."""

    def __init__(self, torch, asked, before_forward):
        """`before_forward` is called with a module that has buffers, and with these by name, before its forward
        passes, after the first step."""
        self._torch = torch
        self._asked = asked
        self._before_forward = before_forward
        self._hooks = []  # handles of those on modules of the job
        self._named = {}  # by kind and name
        self._buffers = None  # names and modules that own them
        self.state_buffers = []  # names of those that ranks have to share, when buffers were searched
        self._seen_before = {}  # the step before whose forward pass the buffers of a module were observed, by id

    def observe(self, optimizer, parameters, watch):
        """After the step of an optimizer. `parameters`: pairs of tensor and Named."""
        rows = Rows(watch, self._torch)
        if "optimizer-state" in self._asked:
            for tensor, parameter in parameters:
                for key, value in sorted(optimizer.state.get(tensor, {}).items(), key=str):
                    name = "%s: %s" % (parameter.name, key)
                    is_alike = getattr(value, "shape", None) == tensor.shape
                    self._add(rows, "optimizer_state", name, value,
                              parameter.known if is_alike else None, parameter.reason)
        rows.write()

    def observe_process(self, watch, left_out):
        """Once a step. `left_out`: why a buffer of a name is not compared."""
        rows = Rows(watch, self._torch)
        if "buffers" in self._asked:
            for name, value in self._buffers_of_process():
                self._add(rows, "buffer", name, value, None, left_out(name))
        if "random-state" in self._asked:
            for name, value in self._random_states():
                self._add(rows, "random_state", name, value, None, "")
        rows.write()

    def _add(self, rows, kind, name, value, known, reason, phase="post_step"):
        if not isinstance(value, self._torch.Tensor):
            return
        named = self._named.get((kind, name))
        if named is None:
            named = self._named[kind, name] = Named(name, known, reason)
        rows.add(named, value, phase, kind)

    def _watch_buffers(self):
        """What DDP broadcasts to all ranks agrees before the forward passes, and nowhere else. A compiler leaves the
        hooks out, and TorchScript has none."""
        owned = {}
        for whole, (module, name) in self._buffers.items():
            owned.setdefault(id(module), (module, []))[1].append((whole, name))
        for module, names in owned.values():
            if not isinstance(module, self._torch.jit.ScriptModule):
                self._hooks.append(module.register_forward_pre_hook(self._hook_of_buffers(names)))

    def end(self):
        """Leaves the modules of the job as they were: another watch may follow."""
        while self._hooks:
            self._hooks.pop().remove()

    def _hook_of_buffers(self, names):
        torch = self._torch

        def hook(module, args):
            if not torch.compiler.is_compiling() and module.training and torch.is_grad_enabled():
                self._before_forward(module, names)
        return hook

    def observe_buffers(self, module, names, step, rows, left_out):
        """Adds those of a module, once in a step. Returns whether there is any."""
        if self._seen_before.get(id(module)) == step:
            return False
        self._seen_before[id(module)] = step
        for whole, name in names:
            self._add(rows, "buffer", whole, getattr(module, name, None), None, left_out(whole), "pre_forward")
        return True

    def _buffers_of_process(self):
        if self._buffers is None:  # modules of later steps are not searched: it takes long
            roots = roots_of(modules_of_process(self._torch.nn.Module))
            self._buffers = {}
            for whole, module, name in named_buffers_of(roots):
                self._buffers.setdefault(whole, (module, name))
            self.state_buffers = [whole for whole, (module, name) in self._buffers.items()
                                  if is_state(self._torch, module, name)][:_MOST_NAMES]
            self._watch_buffers()
        for whole, (module, name) in self._buffers.items():
            yield whole, getattr(module, name, None)

    def _random_states(self):
        torch = self._torch
        yield "torch cpu", torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            yield "torch cuda", torch.cuda.get_rng_state()
        yield "python", self._digest(random.getstate())
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            yield "numpy", self._digest(numpy.random.get_state())

    def _digest(self, state):
        return self._torch.tensor(list(hashlib.sha256(pickle.dumps(state)).digest()),
                                  dtype=self._torch.uint8)


class MicroBatches:
    """Gradients of each backward pass, by hooks of the parameters. The passes of engines that shard
    parameters bypass these."""

    def __init__(self, observe):
        self._observe = observe  # called with optimizer, parameter and gradient
        self._hooked = {}  # weak references to parameters, by id

    def add(self, optimizer, parameters):
        """Parameters that an optimizer was given."""
        owner = weakref.ref(optimizer)
        for parameter in parameters:
            known = self._hooked.get(id(parameter))
            if (known is not None and known() is parameter) or not parameter.requires_grad:
                continue
            self._hooked[id(parameter)] = weakref.ref(parameter)
            parameter.register_hook(self._hook(owner, weakref.ref(parameter)))

    def _hook(self, owner, reference):
        def hook(gradient):
            optimizer, parameter = owner(), reference()
            if optimizer is not None and parameter is not None:
                self._observe(optimizer, parameter, gradient)
        return hook
