"""Each rank's own gradient of a parameter, as its backward passes leave it before ranks reduce it, and what is left
when the pass has ended: by then DistributedDataParallel has reduced it. Seen in few steps, by hooks that are gone in
the others."""

import sys
import weakref

from _lockstep._fully_shard import shards_of
from _lockstep._rows import Named

_FIRST_STEPS = (2, 3)  # the parameters are known after the first one
_EVERY = 32  # and of so many later steps one
_MOST_PASSES = 16  # of a parameter in a step
_TOO_MANY = "it had too many backward passes"
_SCALED = "its reduction is divided by a number that the training has set"
_CALLBACKS = 3  # a wrapper queues one for the end of the pass, which may queue another


def is_due(step):
    """Whether contributions are observed in a step: the same on all ranks."""
    return step in _FIRST_STEPS or step % _EVERY == 0


class _Parameter:
    """In one step. `named`: its contributions; `ended`: its gradient at the end of a pass. `shard`: None: it is not
    divided."""

    __slots__ = ("reference", "named", "ended", "shard", "step", "passes", "rows", "ends", "handle")

    def __init__(self, parameter, named, ended, shard, step):
        self.reference, self.named, self.ended, self.shard = weakref.ref(parameter), named, ended, shard
        self.step = step
        self.passes = 0  # that added to its gradient
        self.rows = 0  # of its contributions, that were observed
        self.ends = 0  # of these passes, that were observed
        self.handle = None


class Contributions:
    def __init__(self, torch, observe):
        """`observe`: called with a list of (Named, gradient, kind, number of the pass) and their step. A text in place
        of a gradient says why it is not compared."""
        self._torch = torch
        self._observe = observe
        self._armed = {}  # lists of _Parameter, by id of what is known of an optimizer
        self._named = {}  # Named of contributions, by name of the parameter
        self._is_queued = False  # a callback for the end of the pass in progress

    def arm(self, known, parameters, step, group, models):
        """`known`: a WatchedOptimizer whose gradients are observed in the coming `step`. `parameters`: its pairs of tensor
        and Named, with the parameters of modules in the place of copies. `group`: of this rank alone. `models`: weak
        references to those that its parameters are of."""
        if self._is_compiled() or not hasattr(self._torch.Tensor, "register_post_accumulate_grad_hook"):
            return
        self._is_queued = False
        armed = self._armed[id(known)] = []
        shards = self._shards_of(models, parameters)
        for tensor, named in parameters:
            shard = shards.get(id(tensor))
            leaf = tensor if shard is None else shard.whole
            if not self._is_plain(leaf, named):
                continue
            own = self._named.get(named.name)
            if own is None:
                own = self._named[named.name] = Named(named.name, (None, group), is_summand=shard is not None)
            one = _Parameter(tensor, own, own if shard is None else named, shard, step)
            one.handle = leaf.register_post_accumulate_grad_hook(self._hook(one))
            armed.append(one)

    def disarm(self, known):
        """Its step begins."""
        for one in self._armed.pop(id(known), ()):
            one.handle.remove()
            if one.shard is not None and one.passes:
                self._observe_unreduced(one)

    def end(self):
        """Leaves the parameters as they were."""
        for armed in self._armed.values():
            for one in armed:
                one.handle.remove()
        self._armed = {}

    @staticmethod
    def _shards_of(models, parameters):
        if not any(hasattr(tensor, "_local_tensor") for tensor, _ in parameters):
            return {}
        try:
            return shards_of(module for model in (reference() for reference in models) if model is not None
                             for module in model.modules())
        except Exception:  # of private functions of torch; gradients are observed all the same
            return {}

    def _is_plain(self, tensor, named):
        """Whether a gradient is accumulated in the parameter itself, and is as large: engines that divide parameters
        put it there themselves."""
        part = named.known[0] if named.known is not None else None
        return (part is None and not named.reason and type(tensor) in (self._torch.nn.Parameter, self._torch.Tensor)
                and tensor.requires_grad and tensor.is_leaf and not tensor.is_inference())

    @staticmethod
    def _is_compiled():
        """Whether the engine of backward passes is compiled, and with it the hooks."""
        module = sys.modules.get("torch._dynamo.compiled_autograd")
        config = sys.modules.get("torch._dynamo.config")
        return bool(getattr(module, "compiled_autograd_enabled", False) or getattr(config, "compiled_autograd", False))

    def _hook(self, one):
        def hook(parameter):
            if not self._torch.compiler.is_compiling():
                self._see(one, parameter)
        return hook

    def _see(self, one, parameter):
        if parameter.grad is None:  # an optimizer has stepped in the pass
            return
        one.passes += 1
        if one.passes > _MOST_PASSES + 1:
            return
        if one.shard is None:
            self._observe_own(one, [parameter.grad])
        elif one.shard.is_reduced():
            self._observe_unreduced(one)
        if one.passes <= _MOST_PASSES and not self._is_queued:
            self._is_queued = True
            self._queue(self._see_end, _CALLBACKS)

    def _observe_unreduced(self, one):
        """What fully_shard is about to reduce, or has not reduced when the optimizer steps."""
        self._observe_own(one, one.shard.unreduced())

    def _observe_own(self, one, gradients):
        for gradient in gradients:
            number = one.passes - 1 if one.shard is None else one.rows
            one.rows += 1
            self._observe([(one.named, gradient if one.passes <= _MOST_PASSES else _TOO_MANY, "contribution", number)],
                          one.step)

    def _queue(self, call, depth):
        """Calls it at the end of the backward pass, after the callbacks that are queued meanwhile."""
        then = call if depth == 1 else lambda: self._queue(call, depth - 1)
        self._torch.autograd.Variable._execution_engine.queue_callback(then)

    def _see_end(self):
        self._is_queued = False
        ended = {}
        for one in (one for armed in self._armed.values() for one in armed):
            gradient = getattr(one.reference(), "grad", None)
            if gradient is not None and one.ends < one.passes <= _MOST_PASSES:
                is_scaled = one.shard is not None and not one.shard.is_mean()
                ended.setdefault(one.step, []).append((one.ended, _SCALED if is_scaled else gradient, "reduction",
                                                       one.passes - 1))
                one.ends = one.passes
        for step, values in ended.items():
            self._observe(values, step)
