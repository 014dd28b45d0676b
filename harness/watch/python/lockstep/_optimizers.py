"""The optimizers of this process, and the parameters that they were given."""

import re

from lockstep import _configuration
from lockstep._names import Names
from lockstep._placement import Replicas
from lockstep._rows import Named


class WatchedOptimizer:
    def __init__(self, ordinal):
        self.ordinal = ordinal
        self.steps = 0
        self.parameters = []  # pairs of tensor and Named
        self.copies = []  # the same of those that every rank holds while an engine divides them
        self.backward_passes = {}  # since its last step, by id of the parameter
        self.contributions = {}  # Named of the gradients of these passes, by id of the parameter
        self.has_initial = False  # its parameters were observed before its first step


class Optimizers:
    def __init__(self, torch, settings):
        self._settings = settings
        self._tensors = re.compile(settings.tensors)
        self._ignored = re.compile(settings.ignored) if settings.ignored else None
        self._names = Names(torch.nn.Module)
        self._replicas = None
        self._by_id = {}
        self._kept = []  # the optimizers, so that no id is used again
        self.has_copies = False  # observed before steps
        self.configuration = {}

    def __len__(self):
        return len(self._by_id)

    def use_rank(self, rank):
        """Before the first `of`."""
        self._replicas = Replicas(rank, self._settings.replicas)

    def of(self, optimizer):
        """What is known about an optimizer, with the parameters that it has now."""
        known = self._by_id.get(id(optimizer))
        if known is None:
            known = self._by_id[id(optimizer)] = WatchedOptimizer(len(self._by_id))
            self._kept.append(optimizer)
            self.configuration.update(_configuration.of_optimizer(optimizer, known.ordinal))
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        if count != len(known.parameters):
            self._names.add(optimizer, known.ordinal)
            known.parameters = [(tensor, self._parameter(tensor)) for group in optimizer.param_groups
                                for tensor in group["params"]]
            known.contributions = {}
            known.copies = [(copy, Named(name, reason=self.left_out(name)))
                            for tensor, _ in known.parameters
                            for name, copy in self._names.copies_of(tensor)]
            self.has_copies = self.has_copies or bool(known.copies)
        return known

    def steps_of(self, optimizer):
        known = self._by_id.get(id(optimizer))
        return known.steps if known is not None else 0

    def have_only_copies(self):
        """Whether an engine divides the parameters of all of them."""
        return bool(self._by_id) and all(one.copies for one in self._by_id.values())

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
