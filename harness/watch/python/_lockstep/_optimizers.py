"""The optimizers of this process, and the parameters that they were given."""

import re
import weakref

from _lockstep import _configuration
from _lockstep._names import Names, frozen_models
from _lockstep._placement import Replicas
from _lockstep._rows import Named
from _lockstep._stalls import place_of_caller

_MOST_PLACES = 8


class Written:
    """Whether parameters are written between the steps of their optimizer, by torch's counts of writes, which cost
    nothing. A write to `.data` is not counted, a tensor put in its place is."""

    def __init__(self):
        self._tensors, self._seen = [], None  # None: no step has ended

    def take(self, tensors):
        """Other parameters, which are those of steps from now on."""
        tensors = [getattr(tensor, "_local_tensor", tensor) for tensor in tensors]
        self._tensors = [tensor for tensor in tensors if not tensor.is_inference()]  # those have no count

    def end_step(self):
        self._seen = self._state()

    def since_step(self):
        """Since the last step that ended, if there was one."""
        return self._seen is not None and self._seen != self._state()

    def _state(self):
        return [(tensor._version, tensor.data_ptr()) for tensor in self._tensors]


_were_made = False  # any
_made = {}  # pairs of a weak reference to an optimizer and the line that made it, by id


def note_made(optimizer):
    """An optimizer was made. Raises nothing."""
    global _were_made
    _were_made = True
    try:
        key, place = id(optimizer), place_of_caller()
        _made[key] = weakref.ref(optimizer, lambda _: _made.pop(key, None)), place
    except Exception:  # of a subclass with slots, or a folder that is gone
        pass


def were_made():
    """Whether an optimizer was ever made in this process."""
    return _were_made


def _made_at(optimizer):
    """ "": unknown."""
    reference, place = _made.get(id(optimizer), (lambda: None, ""))
    return place if reference() is optimizer else ""


class WatchedOptimizer:
    def __init__(self, ordinal, made_at):
        self.ordinal, self.made_at = ordinal, made_at
        self.steps = 0
        self.last_step = 0  # of the training, in which it stepped
        self.parameters = []  # pairs of tensor and Named
        self.copies = []  # the same of those that every rank holds while an engine divides them
        self.backward_passes = {}  # since its last step, by id of the parameter
        self.contributions = {}  # Named of the gradients of these passes, by id of the parameter
        self.has_initial = False  # its parameters were observed before its first step
        self.is_in_step = False  # its last step counts
        self.written = Written()
        self.is_left_out = False  # the user wants none of its parameters compared


class Optimizers:
    def __init__(self, torch, settings):
        self._settings = settings
        self._tensors = re.compile(settings.tensors)
        self._ignored = re.compile(settings.ignored) if settings.ignored else None
        self._names = Names(torch.nn.Module)
        self._replicas = None
        self._by_id = {}  # pairs of a weak reference and a WatchedOptimizer
        self._present = {}  # weak references to the optimizers that there were at the first step, by id
        self._has_plain = False  # one whose parameters no engine divides was seen
        self.count = 0  # seen
        self.has_copies = False  # observed before steps
        self.configuration = {}
        self.places = {}  # lines that made them, by name

    def use_rank(self, rank):
        """Before the first `of`."""
        self._replicas = Replicas(rank, self._settings.replicas)

    def of(self, optimizer):
        """What is known about an optimizer, with the parameters that it has now."""
        known = self.known(optimizer)
        if known is None:
            known = self._add(optimizer)
        now = [tensor for group in optimizer.param_groups for tensor in group["params"]]
        is_same = len(now) == len(known.parameters) and all(
            tensor is before for tensor, (before, _) in zip(now, known.parameters))
        if not is_same:
            self._take(optimizer, known, now)
        return known

    def known(self, optimizer):
        """The same as of its last `of`; None: there was none."""
        reference, known = self._by_id.get(id(optimizer), (lambda: None, None))
        return known if reference() is optimizer else None

    def _add(self, optimizer):
        key, by_id = id(optimizer), self._by_id

        def forget(reference):  # and with it the parameters
            if by_id.get(key, (None,))[0] is reference:
                del by_id[key]

        known = WatchedOptimizer(self.count, _made_at(optimizer))
        self.count += 1
        by_id[key] = (weakref.ref(optimizer, forget), known)
        self.configuration.update(_configuration.of_optimizer(optimizer, known.ordinal))
        if known.made_at and known.ordinal < _MOST_PLACES:
            self.places[_configuration.name_of(optimizer, known.ordinal)] = known.made_at
        return known

    def _take(self, optimizer, known, now):
        """A parameter that takes the place of one that is gone has its name, too: training replaces a
        parameter by one of another shape."""
        present = {id(tensor) for tensor in now}
        heirs = {id(tensor): named.name for tensor, (before, named) in zip(now, known.parameters)
                 if tensor is not before and id(before) not in present}
        self._names.add(optimizer, known.ordinal, heirs)
        known.parameters = [(tensor, self._parameter(tensor)) for tensor in now]
        known.contributions = {}
        known.written.take(now)
        known.copies = [(copy, Named(name, reason=self.left_out(name)))
                        for tensor in now for name, copy in self._names.copies_of(tensor)]
        known.is_left_out = bool(now) and all(self.left_out(named.name) for _, named in known.parameters)
        self.has_copies = self.has_copies or bool(known.copies)
        self._has_plain = self._has_plain or not known.copies

    def remember_present(self, optimizers):
        """Those that there are at the first step."""
        self._present = {id(one): weakref.ref(one) for one in optimizers}

    def was_present(self, optimizer):
        return self._present.get(id(optimizer), lambda: None)() is optimizer

    def rest(self, models):
        """Pairs of tensor and Named of the parameters that no optimizer which stepped holds, of the models with
        parameters that one does."""
        return [(tensor, self._parameter(tensor)) for tensor in self._names.add_rest(models)]

    def frozen(self, models):
        """Those of `frozen_models` that ranks which have the same model have whole."""
        stepped = {id(tensor) for tensor, _ in self.named_parameters()}
        whole = []
        for model, inside in frozen_models(models, stepped, self._names.unused):
            inside = [(name, tensor) for name, tensor in inside
                      if self._replicas.of(tensor) == ((None, ""), "") and not self.left_out(name)]
            whole.append((model, inside))
        return whole

    def named_parameters(self):
        """Pairs of tensor and Named of all that have stepped."""
        return [one for _, known in self.living() for one in known.parameters]

    def parameters(self):
        """The same with their names."""
        return [(tensor, named.name) for tensor, named in self.named_parameters()]

    def in_module(self, tensor):
        """The parameter of a module, if it is a copy of one that an optimizer has."""
        return self._names.in_module(tensor)

    def parameters_of_modules(self):
        """Pairs of these, and of their names."""
        return [(self.in_module(tensor), name) for tensor, name in self.parameters()]

    def living(self):
        """Pairs of optimizer and WatchedOptimizer of all that have stepped."""
        found = ((reference(), known) for reference, known in list(self._by_id.values()))
        return [(optimizer, known) for optimizer, known in found if optimizer is not None]

    def steps_of(self, optimizer):
        known = self.known(optimizer)
        return known.steps if known is not None else 0

    def have_only_copies(self):
        """Whether an engine divides the parameters of all of them."""
        return self.has_copies and not self._has_plain

    @property
    def models(self):
        return self._names.models

    @property
    def precisions(self):
        """Of the modules around their parameters."""
        return self._names.precisions

    def left_out(self, name):
        """Why the user does not want a tensor compared; "": it is."""
        if not self._tensors.search(name):
            return "left out by --tensors"
        if self._ignored is not None and self._ignored.search(name):
            return "left out by --ignore"
        return ""

    def _parameter(self, tensor):
        name = self._names.of(tensor)
        placed, reason = self._replicas.of(tensor)
        return Named(name, self._names.part_of(tensor) or placed, self.left_out(name) or reason)
