"""Parameters of models that no optimizer holds, although they have gradients: because an optimizer holds parameters that
the model no longer has, since it was made before fully_shard, a copy of the model, or another part of it, replaced them;
or because none was given them."""

from collections import Counter
import weakref

from _lockstep._names import parameters_of_models
from _lockstep._objects import objects_of

_MOST_NAMES = 1024
_MOST_MEASURED = 16  # parameters
_NO_OPTIMIZER = -1  # ordinal of what none was given


class Untrained:
    def __init__(self, torch):
        self._torch = torch
        self._facts = {}  # by ordinal of the optimizer
        self._models = {}  # pairs of the parameters that are measured and their sums, by the same
        self._sums = {}  # of the gradients of models that are alike, in the step before; by the id of a parameter

    def facts(self):
        facts = [fact for ordinal, fact in self._facts.items() if ordinal != _NO_OPTIMIZER]
        return facts or list(self._facts.values())

    def look(self, step, optimizers):
        """In a step that begins; its gradients are there. `optimizers`: pairs of optimizer and WatchedOptimizer of all
        that have stepped. Raises nothing: without these facts a cause is not told."""
        try:
            self._look_again(_NO_OPTIMIZER, step)
            for optimizer, known in optimizers:
                held = [tensor for group in optimizer.param_groups for tensor in group["params"]]
                if all(tensor.grad is not None for tensor in held if tensor.requires_grad):
                    self._facts.pop(known.ordinal, None)
                elif not self._look_again(known.ordinal, step):
                    self._look_at(step, optimizer, known, held)
        except Exception:  # of modules with odd attributes
            self._facts = {}

    def look_at_rest(self, step, rest, others):
        """In the same step. `rest`: pairs of tensor and Named of what no optimizer has stepped, of models of which one
        has stepped `others`."""
        try:
            found = [(named.name, tensor) for tensor, named in rest
                     if tensor.requires_grad and tensor.grad is not None]
            taken = self._taken() if found else ()  # a search that takes long
            found = [(name, tensor) for name, tensor in found if id(tensor) not in taken]
            if _have_gradients(found):
                self._add(_NO_OPTIMIZER, found, {"optimizer": "", "place": "", "first_step": step, "last_step": step,
                                                 "is_sharded": False,
                                                 "held": sum(tensor.requires_grad for tensor, _ in others)})
        except Exception:  # of modules with odd attributes
            pass

    def _look_again(self, ordinal, step):
        """Whether something was seen before. It is forgotten once it has changed."""
        if ordinal not in self._facts:
            return False
        if self._is_unchanged(ordinal):
            self._facts[ordinal]["last_step"] = step
        else:
            del self._facts[ordinal]
        return True

    def _look_at(self, step, optimizer, known, held):
        found, others, gone = self._replaced(held)
        if not found:
            return
        is_sharded = any(map(_is_sharded, (tensor for _, tensor in found))) and not any(map(_is_sharded, gone))
        self._add(known.ordinal, found, {
            "optimizer": type(optimizer).__name__, "place": known.made_at, "first_step": step, "last_step": step,
            "is_sharded": is_sharded, "held": others})

    def _add(self, ordinal, found, fact):
        self._models[ordinal] = [(weakref.ref(tensor), _sum_of(tensor)) for _, tensor in found[:_MOST_MEASURED]]
        self._facts[ordinal] = {**fact, "parameters": sorted(name for name, _ in found)[:_MOST_NAMES]}

    def _is_unchanged(self, ordinal):
        now = [(reference(), total) for reference, total in self._models[ordinal]]
        return all(tensor is not None and _sum_of(tensor) == total for tensor, total in now)

    def _taken(self):
        """Ids of what optimizers hold."""
        return {id(tensor) for optimizer in objects_of(self._torch.optim.Optimizer)
                for group in optimizer.param_groups for tensor in group["params"]}

    def _replaced(self, held):
        """Of a model that has other parameters in the place of some that an optimizer holds: pairs of name and parameter
        of those with gradients that no optimizer holds, how many others are trained, and what was replaced."""
        nothing = [], 0, []
        if not all(isinstance(tensor, self._torch.nn.Parameter) for tensor in held):
            return nothing
        models = parameters_of_models(self._torch.nn.Module)
        present = {id(tensor) for inside in models for _, tensor in inside}
        gone = [tensor for tensor in held
                if tensor.requires_grad and tensor.grad is None and id(tensor) not in present]
        if not gone:
            return nothing
        own, taken = {id(tensor) for tensor in held} & present, self._taken()
        likely = []
        for inside in models:
            trained = [(name, tensor) for name, tensor in inside if tensor.requires_grad]
            others = [(name, tensor) for name, tensor in trained if id(tensor) not in taken]
            found = [(name, tensor) for name, tensor in others if tensor.grad is not None]
            if own:  # of the model, but for a part
                is_it = not own.isdisjoint(id(tensor) for _, tensor in inside)
            else:
                is_it = len(found) == len(trained) and _have_shapes(found, gone)
            if is_it and _have_gradients(found):
                likely.append((found, len(trained) - len(others), gone))
        likely = self._trained_now(likely)
        return likely[0] if len(likely) == 1 else nothing

    def _trained_now(self, likely):
        """Of several models those whose gradients are not those of the step before: an earlier training may have left
        one, until its garbage is collected."""
        if len(likely) < 2:
            return likely
        before, self._sums = self._sums, {id(found[0][1]): _sums_of_gradients(found) for found, _, _ in likely}
        return [one for one in likely
                if before.get(id(one[0][0][1])) not in (None, self._sums[id(one[0][0][1])])]


def _is_sharded(tensor):
    return hasattr(tensor, "_local_tensor")


def _have_shapes(found, tensors):
    """Whether there is one of the shape of each."""
    return Counter(tuple(tensor.shape) for tensor in tensors) <= Counter(tuple(tensor.shape) for _, tensor in found)


def _sums_of_gradients(found):
    return [_sum_of(tensor.grad) for _, tensor in found[:_MOST_MEASURED]]


def _have_gradients(found):
    return any(_sum_of(tensor.grad) != 0 for _, tensor in found[:_MOST_MEASURED])


def _sum_of(tensor):
    """Of the part that this rank has."""
    return float(getattr(tensor, "_local_tensor", tensor).detach().abs().double().sum())
